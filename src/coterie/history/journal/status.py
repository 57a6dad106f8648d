"""The status of a run on disk, from the end of its journal."""

from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from coterie.base import files
from coterie.history.journal.lock import is_held

ENDS = frozenset({"completed", "failed", "cancelled"})
"""The statuses of a run that has ended."""
TAIL = 8192
"""How many bytes at the end of a journal are searched for the last record, doubled until it is found."""


class RunStatus(NamedTuple):
    """The status of a run, as people see it.

    Attributes:
        state: `running` (a living process owns it), `completed`, `failed`, `stopped: REASON`, or `cut off`: its owner
            died, and it can be resumed.
        reason: Why it failed, or why a cluster cannot continue it; empty otherwise.
        at: When its last record was written, if it is over, or since when a cluster cannot continue it.
        until: When the quota opens that the stopped run waits for, in Unix seconds; 0: it waits for none.
    """

    state: str
    reason: str = ""
    at: float = 0.0
    until: float = 0.0


def read_status(journal: Path, lock: Path) -> RunStatus:
    """The status of the run with the files *journal* and *lock*; only the end of its journal is read."""
    return RunStatus("running") if is_held(lock) else status_after(last_line(journal))


def status_after(last: dict[str, Any]) -> RunStatus:
    """The status of a run without an owner whose last line is *last*."""
    match last.get("topic"):
        case "run.finished":
            return RunStatus(str(last.get("outcome")), str(last.get("reason", "")), last.get("at", 0.0))
        case "run.stopped":
            return RunStatus(f"stopped: {last.get('reason')}", until=last.get("until", 0.0))
        case _:
            return RunStatus("cut off")


def goes_on(last: dict[str, Any]) -> bool:
    """Whether a run whose last line is *last* has neither ended nor stopped, whether it is driven or not."""
    return last.get("topic") not in (None, "run.finished", "run.stopped")


def last_line(journal: Path) -> dict[str, Any]:
    """The last complete line of *journal* as plain data; empty if there is none."""
    try:
        with files.open_private(journal, "rb") as file:
            size = file.seek(0, 2)
            window = TAIL
            while True:
                file.seek(max(0, size - window))
                lines = file.read().splitlines(keepends=True)
                whole = [line for line in lines[int(window < size) :] if line.endswith(b"\n")]
                if whole or window >= size:
                    return _decoded(whole[-1]) if whole else {}
                window *= 2
    except OSError:
        return {}


def _decoded(line: bytes) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(line)
    except ValueError:  # not JSON, or not even text
        return {}
    return value if isinstance(value, dict) else {}
