"""Redact secrets in a streamed answer, including secrets split between events."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from coterie.agents.backends.secrets import Secrets, StreamRedactor

_TEXTS = frozenset({"arguments", "content", "partial_json", "reasoning_content", "refusal", "text", "thinking"})
"""The fields in which providers stream the text of a model, a few characters at a time."""

_DATA = "data: "


def redacted_events(events: Sequence[str], secrets: Secrets) -> list[str]:
    """Redact *secrets* in server-sent *events*; a line without a secret is not changed at all.

    The text of a model is read across all events. A piece that may begin a secret moves to the next event that
    continues it, as when the text is shown.
    """
    written = [secrets.hide(event).split("\n") for event in events]
    parsed = [[_parsed(line) for line in lines] for lines in written]
    redactors: dict[str, StreamRedactor] = {}
    last: dict[str, tuple[dict[str, Any], str]] = {}
    for data in filter(None, (data for lines in parsed for data in lines)):
        for path, holder, name in _texts("", data, data.get("index", "")):
            holder[name] = redactors.setdefault(path, StreamRedactor(secrets)).feed(holder[name])
            last[path] = holder, name
    for path, (holder, name) in last.items():
        holder[name] += redactors[path].feed("", final=True)
    return ["\n".join(map(_line, *both)) for both in zip(written, parsed, strict=True)]


def _parsed(line: str) -> dict[str, Any] | None:
    """The object in *line*, if it has one."""
    if not line.startswith(_DATA):
        return None
    try:
        data = json.loads(line.removeprefix(_DATA))
    except ValueError:
        return None
    return data if isinstance(data, dict) else None


def _line(line: str, data: dict[str, Any] | None) -> str:
    """*line* if it still contains *data*, else a new line for *data*."""
    return line if data == _parsed(line) else _DATA + json.dumps(data, ensure_ascii=False)


def _texts(path: str, value: Any, index: Any) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Each text of a model in *value*: its path, object and field; *index* distinguishes parallel texts."""
    if isinstance(value, dict):
        index = value.get("index", index)
        for name, inner in value.items():
            if name in _TEXTS and isinstance(inner, str):
                yield f"{path}.{name}#{index}", value, name
            else:
                yield from _texts(f"{path}.{name}", inner, index)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(path, inner, index)
