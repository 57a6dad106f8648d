"""A mock agent that follows a script, to try out a loop without a model.

A run starts it like any command agent; it carries out the entry for its iteration and ends. A mistake in a script is a
`UsageError` with its place.
"""

import json
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct

from coterie.agents.backends.script_file import Amount, Emission, convert, load
from coterie.errors import UsageError

PARTS = ("iterations", "reviews", "branches")

_TURN = re.compile(r"(.*)#(\d+)")
_BRANCH = re.compile(r"/wave-\d+\.(\d+)#\d+\.\d+")


class MockTurn(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The actions of one turn, in this order.

    Attributes:
        delay: How long it takes, in seconds.
        files: The text of each file to write, by path; a path is relative to the working folder and stays within it.
        events: The events to emit. A rejected event does not end the turn.
        usage: The usage to report, by the keys of the usage file.
        output: The answer.
        exit_code: The exit status; 75 is a retried failure.
    """

    delay: Amount = 0.0
    files: dict[str, str] = {}
    events: tuple[Emission, ...] = ()
    usage: dict[str, Amount] = {}
    output: str = ""
    exit_code: Annotated[int, Meta(ge=0, le=255)] = 0


class MockScript(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The entries by iteration, by review, and by branch of a wave; the last entry of each repeats."""

    iterations: tuple[MockTurn, ...] = ()
    reviews: tuple[MockTurn, ...] = ()
    branches: tuple[MockTurn, ...] = ()

    def entry(self, env: Mapping[str, str]) -> MockTurn:
        """The entry for the turn in *env*, the environment of an attempt."""
        if branch := _BRANCH.search(env.get("COTERIE_RUN", "")):
            return _nth(self.branches, int(branch[1]))
        turn = _TURN.fullmatch(env.get("COTERIE_TURN", ""))
        if turn is None:
            return _nth(self.iterations, 1)
        return _nth(self.reviews if turn[1] == "review" else self.iterations, int(turn[2]))


def read(path: Path) -> MockScript:
    """Read the script at *path*: an object with `iterations`, a list of entries, or one entry for every turn.

    Raises:
        UsageError: If it cannot be read or is invalid.
    """
    data = load(path)
    if not isinstance(data, dict) or not data.keys() & set(PARTS):
        data = {"iterations": data if isinstance(data, list) else [data]}
    return convert({part: _entries(data[part], f"{path}: {part}") for part in data}, MockScript, str(path), PARTS)


def perform(entry: MockTurn, env: Mapping[str, str], folder: Path, say: Callable[[str], None]) -> int:
    """Carry out *entry* in *folder* and return the exit status; the caller prints its output.

    Args:
        say: Called with the verdict on each event.

    Raises:
        UsageError: If no run started this process, so that it cannot emit, or a file would be outside *folder*.
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


def _emit(event: Emission, env: Mapping[str, str]) -> str:
    """Emit *event* with the command of the attempt, and return its output."""
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
        raise UsageError(f"{name!r} is outside the working folder: a mock backend writes only inside it")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _nth(entries: tuple[MockTurn, ...], number: int) -> MockTurn:
    """The *number*-th entry, from 1; the last one if there are fewer, an empty one if there is none."""
    return entries[min(max(number, 1), len(entries)) - 1] if entries else MockTurn()


def _entries(data: Any, where: str) -> tuple[MockTurn, ...]:
    entries = [_translated(entry, f"{where}[{n}]") for n, entry in enumerate(data)] if isinstance(data, list) else data
    return convert(entries, tuple[MockTurn, ...], where, MockTurn.__struct_fields__)


def _translated(entry: Any, where: str) -> Any:
    """Translate older keys of a fixture of autoloop in *entry* to the present ones."""
    if not isinstance(entry, dict):
        return entry
    for old, new in (("delay_ms", "delay"), ("emit_event", "events"), ("emit_payload", "events")):
        if old in entry and new in entry:
            raise UsageError(f"{where}: {old!r} and {new!r} are the same: remove one")
    entry = dict(entry)
    if "delay_ms" in entry:
        entry["delay"] = convert(entry.pop("delay_ms"), Amount, f"{where}.delay_ms") / 1000
    if "emit_event" in entry:
        entry["events"] = [{"topic": entry.pop("emit_event"), "payload": entry.pop("emit_payload", "")}]
    elif "emit_payload" in entry:
        raise UsageError(f"{where}: 'emit_payload' needs 'emit_event'")
    return entry
