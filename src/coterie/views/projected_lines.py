"""The form of the earlier system's journal lines: what each begins with, and how times and waves are written."""

import json
from datetime import UTC, datetime
from typing import Any

VERSION = 1
"""The version that each line names."""


def line_of(run: str, topic: str, at: float, iteration: int | None, **rest: Any) -> dict[str, Any]:
    """A line on *run*, which comes first, so that the lines of a run are known by their beginning."""
    n = {"iteration": str(iteration)} if iteration is not None else {}
    return {"run": run, **n, "topic": topic, "ts": iso(at), "v": VERSION, **rest}


def as_line(line: dict[str, Any]) -> bytes:
    """*line* as in the file."""
    return json.dumps(line, separators=(",", ":")).encode() + b"\n"


def beginning(run: str) -> bytes:
    """How each line of *run* begins."""
    return as_line({"run": run})[:-2] + b","


def wave_id(run: str, number: int) -> str:
    """What the *number*-th wave of *run* is called where waves of many runs lie together."""
    return f"{run}-wave-{number}"


def milliseconds(seconds: float) -> str:
    """*seconds* in whole milliseconds."""
    return str(round(seconds * 1000))


def iso(at: float) -> str:
    """*at*, in Unix seconds, as ISO 8601 in UTC, to the millisecond."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
