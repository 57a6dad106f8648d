"""The format of the earlier system's journal lines: their beginning, and how times and waves are written."""

import json
from datetime import UTC, datetime
from typing import Any

VERSION = 1
"""The version in each line."""


def line_of(run: str, topic: str, at: float, iteration: int | None, **rest: Any) -> dict[str, Any]:
    """Make a line about *run*, whose id comes first, so that the lines of a run have the same beginning."""
    n = {"iteration": str(iteration)} if iteration is not None else {}
    return {"run": run, **n, "topic": topic, "ts": iso(at), "v": VERSION, **rest}


def as_line(line: dict[str, Any]) -> bytes:
    """Encode *line* as in the file."""
    return json.dumps(line, separators=(",", ":")).encode() + b"\n"


def beginning(run: str) -> bytes:
    """The beginning of each line of *run*."""
    return as_line({"run": run})[:-2] + b","


def wave_id(run: str, number: int) -> str:
    """The name of the *number*-th wave of *run* in a folder with waves of many runs."""
    return f"{run}-wave-{number}"


def milliseconds(seconds: float) -> str:
    """*seconds* in whole milliseconds."""
    return str(round(seconds * 1000))


def iso(at: float) -> str:
    """*at*, in Unix seconds, as ISO 8601 in UTC, to the millisecond."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
