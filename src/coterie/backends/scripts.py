"""Read the script of a rehearsal: what each agent says at each attempt, as JSON.

    {"writer": [{"text": "a draft", "seconds": 3}, {"fail": "timeout"}], "panel/critic": [{"outputs": {"score": 4}}]}

A script is checked whole before anything is rehearsed; what is wrong is a `UsageError` that names the place.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from coterie import bounds
from coterie.backends.base import FAILURES, Emitted, Failure
from coterie.diagnostics import did_you_mean
from coterie.errors import UsageError
from coterie.journal.records import Usage
from coterie.planning.branches import asked_by_loop
from coterie.planning.on_max import ON_MAX
from coterie.planning.plan import Plan

Script = Mapping[str, Sequence[Mapping[str, Any]]]
"""By agent (`node/agent` in a nested topology), what it says at each attempt; the last entry repeats."""

KEYS = ("text", "outputs", "seconds", "fail", "emits", "usage")


class Entry(Struct, frozen=True, kw_only=True):
    """What an agent does at one attempt.

    Attributes:
        text: None: as without a script.
        outputs: None: found in the text when there is one, else as without a script.
        seconds: How long it takes, in virtual seconds.
        fail: How the attempt fails, if it does.
        emits: The events it emits before it ends.
        usage: What it reports as used; without it only its time.
    """

    text: str | None = None
    outputs: dict[str, Any] | None = None
    seconds: float = 1.0
    fail: Failure | None = None
    emits: tuple[Emitted, ...] = ()
    usage: Usage | None = None


def read_script(path: Path, plan: Plan | None = None) -> Script:
    """Read the script at *path*; with a *plan*, every agent it names must be one of the plan's.

    Raises:
        UsageError: If it cannot be read or says something that means nothing.
    """
    try:
        data = bounds.load_json(bounds.read_bytes(path, bounds.MAX_INPUT, any_kind=True).decode())
    except OSError as error:
        raise UsageError(f"{path}: the script cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: the script is not UTF-8 text: {error.reason} at byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise UsageError(f"{path}:{error.lineno}:{error.colno}: the script is not JSON: {error.msg}") from None
    except (ValueError, RecursionError) as error:  # a number or a nesting beyond all bounds
        raise UsageError(f"{path}: the script cannot be read: {error}") from None
    entries = parse_script(data, str(path))
    if plan is not None:
        known = list(_paths(plan))
        for name in entries:
            if name not in known:
                hint = did_you_mean(name, known) or f"it has {', '.join(known)}"
                raise UsageError(f"{path}: {plan.name} has no agent {name!r}; {hint}")
    script: Script = data
    return script


def parse_script(data: Any, source: str = "script") -> dict[str, tuple[Entry, ...]]:
    """The entries of a script by agent; *source* is how errors call it.

    Raises:
        UsageError: If something in it means nothing.
    """
    if not isinstance(data, Mapping):
        raise UsageError(f"{source}: a script is an object that maps agents to lists of entries, not {_type(data)}")
    return {name: _entries(entries, f"{source}: {name}") for name, entries in data.items()}


def _paths(plan: Plan, above: str = "") -> Iterator[str]:
    for name, agent in asked_by_loop(plan).items():
        yield above + name
        if agent.child is not None:
            yield from _paths(agent.child, f"{above}{name}/")
    for group in plan.flow.groups if plan.flow is not None else ():
        if group.on_max == "human":
            yield above + ON_MAX + group.source


def _entries(data: Any, where: str) -> tuple[Entry, ...]:
    if isinstance(data, str | bytes) or not isinstance(data, Sequence):
        raise UsageError(f"{where}: wants a list of entries, not {_type(data)}")
    if not data:
        raise UsageError(f"{where}: the list is empty; leave the agent out to let it answer by itself")
    return tuple(_entry(entry, f"{where}[{n}]") for n, entry in enumerate(data))


def _entry(data: Any, where: str) -> Entry:
    _check_keys(data, KEYS, where)
    outputs = _get(data, "outputs", dict, None, where)
    emits = _get(data, "emits", list, [], where)
    return Entry(
        text=_get(data, "text", str, None, where),
        outputs=outputs,
        seconds=_amount(data, "seconds", 1.0, where),
        fail=_failure(data["fail"], f"{where}.fail") if "fail" in data else None,
        emits=tuple(_emit(emit, f"{where}.emits[{n}]") for n, emit in enumerate(emits)),
        usage=_usage(data["usage"], f"{where}.usage") if "usage" in data else None,
    )


def _emit(data: Any, where: str) -> Emitted:
    _check_keys(data, ("topic", "payload"), where)
    topic = _get(data, "topic", str, "", where)
    if not topic:
        raise UsageError(f"{where}: wants a `topic`, the name of the event")
    payload = data.get("payload", "")
    return Emitted(event=topic, payload=payload if isinstance(payload, str) else json.dumps(payload))


def _failure(data: Any, where: str) -> Failure:
    if isinstance(data, str):
        if data in FAILURES:
            return Failure(kind=data, reason="the script says so")
        return Failure(kind="failed", reason=data)
    _check_keys(data, ("kind", "reason"), where, "a text or an object")
    kind = _get(data, "kind", str, "failed", where)
    if kind not in FAILURES:
        hint = did_you_mean(kind, FAILURES) or f"one of {', '.join(sorted(FAILURES))}"
        raise UsageError(f"{where}.kind: there is no failure {kind!r}; {hint}")
    return Failure(kind=kind, reason=_get(data, "reason", str, "the script says so", where))


def _usage(data: Any, where: str) -> Usage:
    _check_keys(data, Usage.__struct_fields__, where)
    amounts = {name: _amount(data, name, 0.0, where) for name in data}
    for name in ("input_tokens", "output_tokens", "turns"):
        if name in amounts:
            if not amounts[name].is_integer():
                raise UsageError(f"{where}.{name}: wants a whole number, not {data[name]!r}")
            amounts[name] = int(amounts[name])
    return Usage(**amounts)  # type: ignore[arg-type]  # the tokens and turns were made whole above


def _check_keys(data: Any, known: Sequence[str], where: str, wanted: str = "an object") -> None:
    if not isinstance(data, Mapping):
        raise UsageError(f"{where}: wants {wanted}, not {_type(data)}")
    for key in data:
        if key not in known:
            hint = did_you_mean(str(key), known) or f"it may have {', '.join(known)}"
            raise UsageError(f"{where}: there is no key {key!r}; {hint}")


def _get(data: Mapping[str, Any], key: str, kind: type, default: Any, where: str) -> Any:
    value = data.get(key, default)
    if key in data and not isinstance(value, kind):
        raise UsageError(f"{where}.{key}: wants {_NAMES[kind]}, not {_type(value)}")
    return value


def _amount(data: Mapping[str, Any], key: str, default: float, where: str) -> float:
    value = data.get(key, default)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or value < 0:
        raise UsageError(f"{where}.{key}: wants a number from 0, not {json.dumps(value)}")
    return float(value)


_NAMES = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "null"}


def _type(value: Any) -> str:
    return _NAMES.get(type(value), "a number")
