"""Text for a team's file: its diagnostics and its outline."""

from collections.abc import Iterator
from textwrap import wrap
from typing import TYPE_CHECKING

from coterie.history.views.words import arrow, plural

if TYPE_CHECKING:
    from coterie.interfaces.cli.team_file import Examined
    from coterie.team.topology.outline import Outline, OutlinedArrow, OutlinedNode

_NARROWEST = 40


def verdict(found: "Examined") -> str:
    """Return `FILE: ok`, `FILE: ok, 1 warning`, `FILE: 2 errors, 1 warning`."""
    severities = [diagnostic.severity.value for diagnostic in found.diagnostics]
    counts = [plural(n, noun) for noun in ("error", "warning") if (n := severities.count(noun))]
    return f"{found.file}: {', '.join([*(['ok'] if found.valid else []), *counts])}"


def laid_out(changed: int, same: int, wrong: int, *, dry: bool) -> str:
    """Return `2 files changed, 1 file unchanged, 1 file not formatted`."""
    counts = [
        f"{plural(changed, 'file')} {'would change' if dry else 'changed'}" if changed else "",
        f"{plural(same, 'file')} unchanged" if same else "",
        f"{plural(wrong, 'file')} not formatted" if wrong else "",
    ]
    return ", ".join(filter(None, counts)) or "no files found"


def difference(before: str, after: str, name: str) -> str:
    """Return the changes from one text to the other, as in `diff -u`."""
    from difflib import unified_diff  # only `fmt` needs it

    lines = unified_diff(before.splitlines(), after.splitlines(), f"{name} now", f"{name} formatted", lineterm="")
    return "\n".join(lines)


def outline(team: "Outline", width: int | None = None) -> str:
    """Return a team as a tree: nodes with backends and outputs, and their arrows with bounds.

    Args:
        width: Maximum line length in characters; None: unlimited.
    """
    return "\n".join([*_team(team, width), *(line for kept in team.kept for line in _broken(kept, "", "  ", width))])


def _team(team: "Outline", width: int | None) -> Iterator[str]:
    yield team.name + (f" [{', '.join(team.patterns)}]" if team.patterns else "")
    if team.description:
        yield from _broken(team.description, "  ", "  ", width)
    for setting in team.settings:
        yield from _broken(setting, "  ", "    ", width)
    for node in team.nodes:
        yield from _node(node, node is team.nodes[-1], width)


def _node(node: "OutlinedNode", is_last: bool, width: int | None) -> Iterator[str]:
    about = [node.kind, *([node.thinks] if node.thinks not in ("", node.kind) else []), *_place(node)]
    about += [f"phase {node.phase:g}"] if node.phase is not None else []
    rail = f"{' ' if is_last else '│'}    "
    yield from _broken(f"{node.name} ({', '.join(about)})", f"{'└' if is_last else '├'}─ ", rail + "  ", width)
    for line in _below(node):
        yield from _broken(line, rail, rail + "  ", width)
    if node.team is not None:
        yield from (rail + line for line in _team(node.team, width and max(width - len(rail), _NARROWEST)))


def _below(node: "OutlinedNode") -> Iterator[str]:
    """Yield the properties of a node, then its arrows."""
    if node.description:
        yield node.description
    if node.tools is not None:
        yield f"uses {', '.join(node.tools) or 'no tools'}"
    if node.reads:
        yield f"reads {', '.join(node.reads)}"
    yield from (f"gives {output}" for output in node.outputs)
    if node.rules:
        yield ", ".join(node.rules)
    yield from map(_arrow, node.arrows)


def _broken(text: str, first: str, then: str, width: int | None) -> list[str]:
    """Wrap *text* at *width* with the prefixes *first* and *then*; a text that fits keeps its spaces."""
    if width is None or len(first) + len(text) <= width:
        return [first + text.replace("\n", f"\n{then}")]
    return wrap(text, max(width, _NARROWEST), initial_indent=first, subsequent_indent=then, break_on_hyphens=False)


def _place(node: "OutlinedNode") -> list[str]:
    if node.in_flow:
        return ["starts"] if node.starts else []
    return [node.place or "not in the flow"]


def _arrow(one: "OutlinedArrow") -> str:
    bound = ""
    if one.max is not None:
        bound = f"max {one.max}" + (" (implied: the file gives none)" if one.implied else "")
        bound += f" per {one.per}" if one.per != "run" else ""
    on_max = f"on-max {one.on_max}" if one.on_max != "forward" else ""
    loop = "  loop" if one.loop else ""
    comes = " ".join(filter(None, (one.event and f"on {one.event}", one.when and f"when {one.when}")))
    attributes = [said for said in (comes, bound, on_max, *one.kept) if said]
    return arrow(("", one.targets)).lstrip() + (f"  [{', '.join(attributes)}]" if attributes else "") + loop
