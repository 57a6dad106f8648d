"""Text for the differences between two teams."""

from collections.abc import Iterable, Iterator, Sequence
from difflib import unified_diff
from itertools import groupby
from typing import Any, assert_never

from coterie.interfaces.cli.text.words import as_json
from coterie.team.topology.diff import Difference, DifferenceKind

_LONG = 60
_SHOWN = 40  # lines of a text that changed


def changes(found: Sequence[Difference]) -> str:
    """Return one entry for each changed element, `+` added, `-` removed or `~` changed, with details below."""
    lines: list[str] = []
    for what, each in groupby(found, key=lambda change: change.what):
        some = list(each)
        parts = [line for change in some if change.field for line in _part(change)]
        lines += [line for change in some if not change.field for line in _whole(change)]
        lines += [f"~ {what}", *parts] if parts else []
    return "\n".join(lines) or "the same"


def _whole(change: Difference) -> Iterator[str]:
    match change.kind:
        case DifferenceKind.ADDED:
            yield f"+ {change.what}{_about(change.new)}"
        case DifferenceKind.REMOVED:
            yield f"- {change.what}{_about(change.old)}"
        case DifferenceKind.RENAMED:
            yield f"~ {change.what} is now called {change.new}"
        case DifferenceKind.REORDERED:
            yield f"~ {change.what}, in another order"
            yield f"    - {_listed(change.old)}"
            yield f"    + {_listed(change.new)}"
        case DifferenceKind.CHANGED:
            yield f"~ {change.what}"
            yield from _values(change, "")
        case _:
            assert_never(change.kind)


def _part(change: Difference) -> Iterator[str]:
    match change.kind:
        case DifferenceKind.ADDED:
            yield f"    + {change.field}: {_short(_filled(change.new))}"
        case DifferenceKind.REMOVED:
            yield f"    - {change.field}: {_short(_filled(change.old))}"
        case _:
            yield from _values(change, f"{change.field}: ")


def _values(change: Difference, name: str) -> Iterator[str]:
    """Yield both values on a line, or a line diff for long texts."""
    old, new = change.old, change.new
    if isinstance(old, str) and isinstance(new, str) and (max(len(old), len(new)) > _LONG or "\n" in old + new):
        yield f"    {name}".rstrip()
        lines = list(unified_diff(old.splitlines(), new.splitlines(), lineterm="", n=1))[2:]
        yield from (f"      {line}" for line in lines[:_SHOWN])
        if len(lines) > _SHOWN:
            yield f"      … {len(lines) - _SHOWN} more lines"
    else:
        yield f"    {name}{_short(old)} → {_short(new)}"


def _about(value: Any) -> str:
    """Return a summary of an added or removed element."""
    if not isinstance(value, dict):
        return f": {_short(value)}" if value is not None else ""
    said = [
        f"{key}: {_short(inner)}" for key, inner in value.items() if key not in ("name", "source", "targets", "kind")
    ]
    text = "  ".join(said)
    return f"  ({text if len(text) <= 2 * _LONG else text[: 2 * _LONG - 1] + '…'})" if said else ""


def _filled(value: Any) -> Any:
    """Return the node of a slot that has no other field; any other value unchanged."""
    return value["node"] if isinstance(value, dict) and value.keys() == {"name", "node"} else value


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else f"{value:g}" if isinstance(value, float) else as_json(value)
    line = " ".join(text.split()) or '""'
    return line if len(line) <= _LONG else line[: _LONG - 1] + "…"
