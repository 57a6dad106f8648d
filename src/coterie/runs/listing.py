"""How it stands with a run that lies on disk, from the ends of its journal."""

from pathlib import Path
from typing import Any

import msgspec

from coterie import files
from coterie.journal.jsonl import JOURNAL
from coterie.journal.lock import is_held
from coterie.journal.records import MERGE_CONFLICT

ENDS = frozenset({"completed", "failed", "cancelled"})
"""How a run stands that is over for good."""
TAIL = 65536
"""Bytes from the end of a journal in which its last record is looked for; a longer one is looked for in twice that."""


def standing(folder: Path) -> str:
    """How it stands with the run in *folder*.

    `running` (a living process owns it), `completed`, `failed`, `stopped: REASON`, or `cut off`: its owner died, and it
    can be resumed. Only the end of its journal is read.
    """
    if is_held(folder / "lock"):
        return "running"
    last = last_line(folder / JOURNAL)
    match last.get("topic"):
        case "run.finished":
            return str(last.get("outcome"))
        case "run.stopped":
            return f"stopped: {last.get('reason')}"
        case _:
            return "cut off"


def failed_to_merge(folder: Path) -> bool:
    """Whether the run in *folder* failed because its work could not be merged."""
    last = last_line(folder / JOURNAL)
    return last.get("topic") == "run.finished" and last.get("reason") == MERGE_CONFLICT


def first_line(journal: Path) -> dict[str, Any]:
    """The first line of *journal* that is a record, as plain data; empty if there is none that is whole."""
    try:
        with files.open_private(journal, "rb") as file:
            for line in file:
                if (found := _decoded(line)).get("topic") != "text":
                    return found
    except OSError:
        pass
    return {}


def last_line(journal: Path) -> dict[str, Any]:
    """The last whole line of *journal* as plain data; empty if there is none."""
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
