"""Hide secrets in a streamed answer, also those that come in pieces."""

import json
from collections.abc import Sequence
from typing import Any

from coterie.backends.secrets import Secrets, Veil

_SPOKEN = frozenset({"arguments", "content", "partial_json", "reasoning_content", "refusal", "text", "thinking"})
"""The fields in which providers stream what a model says, a few characters at a time."""

_DATA = "data: "


def hidden_events(events: Sequence[str], secrets: Secrets) -> list[str]:
    """*events*, server-sent, without *secrets*; those that hold none stay as they are to the letter.

    What a model says is read on through all events. A piece that may begin a secret moves to the next event that goes
    on with it, as it would when it is shown.
    """
    found = [_Event(secrets.hide(event)) for event in events]
    veils: dict[str, Veil] = {}
    last: dict[str, tuple[dict[str, Any], str]] = {}
    for event in found:
        for where, holder, name in event.spoken():
            holder[name] = veils.setdefault(where, Veil(secrets)).feed(holder[name])
            last[where] = holder, name
    for where, (holder, name) in last.items():
        holder[name] += veils[where].feed("", final=True)
    return [event.text() for event in found]


class _Event:
    """One event: its lines, and the data of those that hold some."""

    def __init__(self, written: str) -> None:
        self._lines: list[str | tuple[str, Any, Any]] = []
        for line in written.split("\n"):
            data = _parsed(line)
            self._lines.append(line if data is None else (line, data, json.loads(json.dumps(data))))

    def spoken(self) -> list[tuple[str, dict[str, Any], str]]:
        """Where its data says something: the path to it without what is said, the object, the field."""
        found: list[tuple[str, dict[str, Any], str]] = []
        for line in self._lines:
            if not isinstance(line, str):
                _walk("", line[1], line[1].get("index", ""), found)
        return found

    def text(self) -> str:
        """The event as it is written, new only where its data has changed."""
        lines = []
        for line in self._lines:
            if isinstance(line, str):
                lines.append(line)
            else:
                written, data, before = line
                lines.append(written if data == before else _DATA + json.dumps(data, ensure_ascii=False))
        return "\n".join(lines)


def _parsed(line: str) -> Any:
    if not line.startswith(_DATA):
        return None
    try:
        data = json.loads(line.removeprefix(_DATA))
    except ValueError:
        return None
    return data if isinstance(data, dict) else None


def _walk(path: str, value: Any, index: Any, found: list[tuple[str, dict[str, Any], str]]) -> None:
    """Collect the spoken texts in *value*; *index* tells apart what is said side by side."""
    if isinstance(value, dict):
        index = value.get("index", index)
        for name, inner in value.items():
            if name in _SPOKEN and isinstance(inner, str):
                found.append((f"{path}.{name}#{index}", value, name))
            else:
                _walk(f"{path}.{name}", inner, index, found)
    elif isinstance(value, list):
        for inner in value:
            _walk(path, inner, index, found)
