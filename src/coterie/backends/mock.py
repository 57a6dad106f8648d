"""A program that stands in for an agent, as a script says: for trying a loop out without a model.

It is started like any agent behind a command, works through the entry of its iteration, and ends. What is wrong with a
script is a `UsageError` that names the place.
"""

import json
import math
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from coterie import bounds
from coterie.diagnostics import did_you_mean
from coterie.errors import UsageError

KEYS = ("output", "events", "exit_code", "delay", "usage", "files")
OLD_KEYS = {"delay_ms": "delay", "emit_event": "events", "emit_payload": "events"}
"""How fixtures of autoloop write the same."""
PARTS = ("iterations", "reviews", "branches")

_TURN = re.compile(r"(.*)#(\d+)")
_BRANCH = re.compile(r"/wave-\d+\.(\d+)#\d+\.\d+")


class Event(Struct, frozen=True, kw_only=True):
    """An event that is emitted, and what comes with it."""

    topic: str
    payload: str = ""


class Entry(Struct, frozen=True, kw_only=True):
    """What is done in one turn, in this order.

    Attributes:
        delay: How long it takes, in seconds.
        files: What is written, by path; paths begin at the working folder and stay in it.
        events: What is emitted. One that is rejected does not end the turn.
        usage: What is reported as used, as it stands in the usage file.
        output: The answer.
        exit_code: The exit status; 75 is a failure that is tried again.
    """

    delay: float = 0.0
    files: Mapping[str, str] = {}
    events: tuple[Event, ...] = ()
    usage: Mapping[str, float] = {}
    output: str = ""
    exit_code: int = 0


class Script(Struct, frozen=True, kw_only=True):
    """What is done, by iteration, by review, and by branch of a wave; the last entry repeats."""

    iterations: tuple[Entry, ...] = ()
    reviews: tuple[Entry, ...] = ()
    branches: tuple[Entry, ...] = ()

    def entry(self, env: Mapping[str, str]) -> Entry:
        """The entry of the turn that *env*, the environment of an attempt, tells of."""
        if branch := _BRANCH.search(env.get("COTERIE_RUN", "")):
            return _nth(self.branches, int(branch[1]))
        turn = _TURN.fullmatch(env.get("COTERIE_TURN", ""))
        if turn is None:
            return _nth(self.iterations, 1)
        return _nth(self.reviews if turn[1] == "review" else self.iterations, int(turn[2]))


def read(path: Path) -> Script:
    """Read the script at *path*: an object with `iterations`, a list of entries, or one entry for every turn.

    Raises:
        UsageError: If it cannot be read or says something that means nothing.
    """
    try:
        data = bounds.load_json(bounds.read_bytes(path, bounds.MAX_INPUT, any_kind=True).decode())
    except OSError as error:
        raise UsageError(f"{path}: the script cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: the script is not JSON: {error}") from None
    if isinstance(data, dict) and data.keys() & set(PARTS):
        _check_keys(data, PARTS, str(path))
    else:
        data = {"iterations": data if isinstance(data, list) else [data]}
    return Script(**{part: _entries(data.get(part, []), f"{path}: {part}") for part in PARTS})


def perform(entry: Entry, env: Mapping[str, str], folder: Path, say: Callable[[str], None]) -> int:
    """Do what *entry* says, in *folder*, and return the exit status; its output is left to the caller.

    Args:
        say: What is told what became of the events.

    Raises:
        UsageError: If there is nobody to emit to, or a file would lie outside *folder*.
    """
    time.sleep(entry.delay)
    for name, text in entry.files.items():
        _write(folder, name, text)
    for event in entry.events:
        said = _emit(event, env)
        say(said.rstrip("\n"))
    if entry.usage and (place := env.get("AUTOLOOP_USAGE_FILE")):
        Path(place).write_text(json.dumps(entry.usage), encoding="utf-8")
    return entry.exit_code


def _emit(event: Event, env: Mapping[str, str]) -> str:
    """Emit *event* through the command of the attempt, and return what that said."""
    tool = env.get("AUTOLOOP_BIN") or shutil.which("autoloops", path=env.get("PATH"))
    if not tool:
        raise UsageError(f"{event.topic!r} cannot be emitted: mock-backend is started by a run, as backend.command")
    words = [tool, "emit", event.topic, *([event.payload] if event.payload else [])]
    done = subprocess.run(
        words, env=dict(env), text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    return done.stdout


def _write(folder: Path, name: str, text: str) -> None:
    path = (folder / name).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise UsageError(f"{name!r} lies outside the working folder: a mock backend writes below it")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _nth(entries: tuple[Entry, ...], number: int) -> Entry:
    """The *number*-th entry, from 1; the last one when there are fewer, one that does nothing when there is none."""
    return entries[min(max(number, 1), len(entries)) - 1] if entries else Entry()


def _entries(data: Any, where: str) -> tuple[Entry, ...]:
    if not isinstance(data, list):
        raise UsageError(f"{where}: wants a list of entries, not {_type(data)}")
    return tuple(_entry(one, f"{where}[{n}]") for n, one in enumerate(data))


def _entry(data: Any, where: str) -> Entry:
    _check_keys(data, (*KEYS, *OLD_KEYS), where)
    for old, new in OLD_KEYS.items():
        if old in data and new in data:
            raise UsageError(f"{where}: {old!r} and {new!r} say the same: leave one out")
    if "emit_payload" in data and "emit_event" not in data:
        raise UsageError(f"{where}: 'emit_payload' goes with an 'emit_event'")
    events = _get(data, "events", list, [], where)
    if "emit_event" in data:
        events = [{"topic": data["emit_event"], "payload": data.get("emit_payload", "")}]
    files = _get(data, "files", dict, {}, where)
    usage = _get(data, "usage", dict, {}, where)
    return Entry(
        delay=_amount(data, "delay", where) if "delay" in data else _amount(data, "delay_ms", where) / 1000,
        files={name: _get(files, name, str, "", f"{where}.files") for name in files},
        events=tuple(_event(event, f"{where}.events[{n}]") for n, event in enumerate(events)),
        usage={name: _amount(usage, name, f"{where}.usage") for name in usage},
        output=_get(data, "output", str, "", where),
        exit_code=_exit_code(data, where),
    )


def _event(data: Any, where: str) -> Event:
    _check_keys(data, ("topic", "payload"), where)
    topic = _get(data, "topic", str, "", where)
    if not topic:
        raise UsageError(f"{where}: wants a `topic`, the name of the event")
    payload = data.get("payload", "")
    return Event(topic=topic, payload=payload if isinstance(payload, str) else json.dumps(payload))


def _exit_code(data: Mapping[str, Any], where: str) -> int:
    code: int = _get(data, "exit_code", int, 0, where)
    if not 0 <= code <= 255:
        raise UsageError(f"{where}.exit_code: an exit status is from 0 to 255, not {code}")
    return code


def _amount(data: Mapping[str, Any], key: str, where: str) -> float:
    value = data.get(key, 0)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise UsageError(f"{where}.{key}: wants a number from 0, not {value!r}")
    return value


def _get(data: Mapping[str, Any], key: str, kind: type, default: Any, where: str) -> Any:
    value = data.get(key, default)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise UsageError(f"{where}.{key}: wants {_NAMES[kind]}, not {_type(value)}")
    return value


def _check_keys(data: Any, known: tuple[str, ...], where: str) -> None:
    if not isinstance(data, Mapping):
        raise UsageError(f"{where}: wants an object, not {_type(data)}")
    for key in data:
        if key not in known:
            hint = did_you_mean(str(key), known) or f"it may have {', '.join(known)}"
            raise UsageError(f"{where}: there is no key {key!r}; {hint}")


_NAMES = {str: "a text", int: "a whole number", list: "a list", dict: "an object"}


def _type(value: Any) -> str:
    return _NAMES.get(type(value), repr(value))
