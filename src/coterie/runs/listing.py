"""How it stands with a run, told from its folder without reading the whole journal."""

from pathlib import Path
from typing import Any

import msgspec

from coterie.journal.lock import is_held

TAIL = 65536
"""Bytes from the end of a journal in which its last record is looked for; a longer one is looked for in twice that."""


def standing(folder: Path) -> str:
    """How it stands with the run in *folder*.

    `running` (a living process owns it), `completed`, `failed`, `stopped: REASON`, or `cut off`: its owner died, and it
    can be resumed.
    """
    if is_held(folder / "lock"):
        return "running"
    last = last_line(folder / "journal.jsonl")
    match last.get("topic"):
        case "run.finished":
            return str(last.get("outcome"))
        case "run.stopped":
            return f"stopped: {last.get('reason')}"
        case _:
            return "cut off"


def last_line(journal: Path) -> dict[str, Any]:
    """The last whole line of *journal* as plain data; empty if there is none."""
    try:
        with journal.open("rb") as file:
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
    except msgspec.DecodeError:
        return {}
    return value if isinstance(value, dict) else {}
