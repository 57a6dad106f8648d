"""The names of plugins, without importing them: built-in plugins, and those that packages register."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

from coterie.base.diagnostics import did_you_mean

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

BUILT_IN: Mapping[str, Sequence[str]] = {
    "model": ("anthropic", "litellm", "openai"),
    "tool": (),
    "exporter": ("console", "otlp"),
    "state": ("in_memory", "sqlite"),
}
"""The built-in plugins of each kind."""


@cache
def installed(kind: str) -> "Mapping[str, Sequence[EntryPoint]]":
    """The entry points of `coterie.KIND` by name, without importing any package."""
    from importlib.metadata import entry_points

    found: dict[str, list[EntryPoint]] = {}
    for point in entry_points(group=f"coterie.{kind}"):
        if all(point.value != other.value for other in found.setdefault(point.name, [])):
            found[point.name].append(point)
    return found


def unknown_name(kind: str, name: str) -> tuple[str, str] | None:
    """Why *name* cannot be a plugin of *kind*, and a hint; None if it is one or may be a dotted path."""
    points = installed(kind)
    if name in BUILT_IN[kind]:
        return None
    if len(points.get(name, ())) > 1:
        values = " and ".join(point.value for point in points[name])
        return f"several packages register the {kind} plugin {name!r}: {values}", "write the dotted path of one of them"
    if name in points or "." in name.strip(".") or ":" in name:
        return None
    known = sorted({*BUILT_IN[kind], *points})
    listed = f"known names: {', '.join(known)}; " if known else ""
    hint = did_you_mean(name, known) or f"{listed}install the package that registers it, or write a dotted path"
    return f"there is no {kind} plugin {name!r}", hint
