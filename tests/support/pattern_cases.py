"""The scenarios of patterns, from running an earlier system, and what a run of ours must have in common with them.

A player (`pattern_play` for our own engine) turns a case into a `Played`; `differences` says what is
wrong with it. Where the earlier system was right its result is the target; where it was not, the case says what is.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[1] / "data" / "cases-patterns"

Case = Mapping[str, Any]

IGNORED = frozenset({"usage", "duration_ms"})
"""Keys of an output that differ from run to run."""

_SPARE = {
    "chain-01-three-levels": {"commander": (1, 2)},
    "chain-02-two-levels": {"commander": (1, 2)},
    "chain-06-missing-middle-level": {"commander": (1,)},
}
"""Scripted replies to questions that a correct run does not ask, as the notes of these cases say."""


@dataclass(frozen=True, kw_only=True)
class Call:
    """One attempt to ask somebody.

    Attributes:
        slot: `sub.slot` below a compound.
        began, ended: When, on any clock; what ends as the other begins does not overlap with it.
        chat: What it was shown: role and text of each message.
    """

    slot: str
    began: float
    ended: float
    chat: tuple[tuple[str, str], ...]


@dataclass(frozen=True, kw_only=True)
class Played:
    """What became of a case: *status* is `completed` or `raised`, *calls* are in the order in which they began."""

    status: str
    error: str = ""
    calls: tuple[Call, ...] = ()
    output: Mapping[str, Any] | None = None


@cache
def cases(*patterns: str) -> tuple[Case, ...]:
    """The cases of these patterns, or all, sorted by id."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(DATA.glob("*/*.json"))]
    return tuple(case for case in found if not patterns or case["topology"] in patterns)


def case_id(case: Case) -> str:
    """How a test calls *case*."""
    return str(case["id"])


def script_of(case: Case) -> dict[str, list[Mapping[str, Any]]]:
    """What each slot says, call by call, without what only the earlier system asked; the last repeats."""
    spare = _SPARE.get(case["id"], {})
    return {
        slot: [reply for n, reply in enumerate(replies) if n not in spare.get(slot, ())]
        for slot, replies in case["replies"].items()
    }


def groups(calls: Sequence[Call]) -> list[list[str]]:
    """The slots of calls that overlap in time, sorted within a group, groups in order."""
    found: list[list[str]] = []
    until = -math.inf
    for call in sorted(calls, key=lambda call: call.began):
        if call.began >= until:
            found.append([])
        found[-1].append(call.slot)
        until = max(until, call.ended)
    return [sorted(group) for group in found]


def seen(case: Case, call: Call) -> set[str]:
    """The atoms that the messages of *call* contain, as they are or inside JSON."""
    text = "\n".join(text for _, text in call.chat)
    return {name for name, atom in case["atoms"].items() if any(form in text for form in _forms(atom))}


def differences(case: Case, played: Played) -> list[str]:
    """What *played* has not in common with what *case* asks for; empty: it conforms."""
    if not case["deviates"]:
        return list(_conforming(case, case["expect_seed"], played))
    return list(_corrected(case, case["correct"], played))


def _conforming(case: Case, want: Mapping[str, Any], played: Played) -> Iterator[str]:
    yield from _status(want["status"], (want["error"] or {}).get("message", ""), played)
    yield from _groups(_groups_of(want["invocations"]), played, bool(case.get("order_only")))
    calls: dict[str, list[Call]] = {}
    for call in played.calls:
        calls.setdefault(call.slot, []).append(call)
    for invocation in want["invocations"]:
        shown = {atom for message in invocation["sees"] for atom in message["atoms"]}
        if mine := calls.get(invocation["slot"]):
            call = mine.pop(0)
            if (got := seen(case, call)) != shown:
                yield f"{call.slot} sees {sorted(got)}, not {sorted(shown)}"
    yield from _within(want["output"] or {}, played.output or {}, "output")


def _corrected(case: Case, want: Mapping[str, Any], played: Played) -> Iterator[str]:
    repaired = case.get("expect_seed_repaired", {})
    status = want.get("status", "completed" if "output_subset" in want else "")
    yield from _status(status, want.get("error_contains", ""), played)
    if "invocation_groups" in want:
        yield from _groups(want["invocation_groups"], played, bool(case.get("order_only")))
    yield from _within(want.get("output_subset", {}), played.output or {}, "output")
    yield from _within(repaired.get("output", {}), played.output or {}, "output")
    for key, value in want.get("output_not", {}).items():
        if played.output is not None and played.output.get(key) == value:
            yield f"output.{key} is {value!r}, which is what must not be"
    text = json.dumps(played.output)
    for word in want.get("output_text_contains", ()):
        if word not in text:
            yield f"the output says nothing of {word!r}: {text}"


def _status(status: str, error: str, played: Played) -> Iterator[str]:
    if status and played.status != status:
        yield f"it {played.status}, not {status}: {played.error or played.output}"
    if error not in played.error:
        yield f"the error says {played.error!r}, not {error!r}"


def _groups_of(invocations: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    found: dict[int, list[str]] = {}
    for invocation in invocations:
        found.setdefault(invocation["group"], []).append(invocation["slot"])
    return list(found.values())


def _groups(want: Sequence[Sequence[str]], played: Played, order_only: bool) -> Iterator[str]:
    wanted, got = [sorted(group) for group in want], groups(played.calls)
    if order_only:
        wanted, got = [[slot] for group in want for slot in group], [[call.slot] for call in played.calls]
    if got != wanted:
        yield f"asked {got}, not {wanted}"


def _within(want: Any, got: Any, path: str) -> Iterator[str]:
    """What *got* lacks of *want*. A confidence that the earlier system never read from the JSON says nothing."""
    if isinstance(want, dict) and isinstance(got, Mapping):
        for key, value in want.items():
            if key not in IGNORED and not (key == "confidence" and value is None):
                if key not in got:
                    yield f"{path} has no {key!r}: {dict(got)}"
                else:
                    yield from _within(value, got[key], f"{path}.{key}")
    elif isinstance(want, list) and isinstance(got, list | tuple) and len(want) == len(got):
        for n, (one, other) in enumerate(zip(want, got, strict=True)):
            yield from _within(one, other, f"{path}[{n}]")
    elif isinstance(want, float) and isinstance(got, float) and math.isclose(want, got):
        return
    elif want != got:
        yield f"{path} is {got!r}, not {want!r}"


def _forms(atom: str) -> Iterator[str]:
    for _ in range(3):  # as it is, in a JSON text, and in a JSON text that is a text of another
        yield atom
        atom = json.dumps(atom, ensure_ascii=False)[1:-1]
