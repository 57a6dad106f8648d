"""Texts on a team's file: what was found in it, and what it says."""

from collections.abc import Iterable
from difflib import unified_diff
from typing import TYPE_CHECKING

from coterie.views.words import arrow, plural

if TYPE_CHECKING:
    from coterie.cli.reading import Examined
    from coterie.topology.outline import Outline, OutlinedArrow, OutlinedNode


def verdict(found: "Examined") -> str:
    """`FILE: ok`, `FILE: ok, 1 warning`, `FILE: 2 errors, 1 warning`."""
    severities = [diagnostic.severity.value for diagnostic in found.diagnostics]
    counts = [plural(n, noun) for noun in ("error", "warning") if (n := severities.count(noun))]
    return f"{found.file}: {', '.join([*(['ok'] if found.valid else []), *counts])}"


def laid_out(changed: int, same: int, wrong: int, *, dry: bool) -> str:
    """`2 files changed, 1 file as it should be, 1 file left as it is`."""
    counts = [
        f"{plural(changed, 'file')} {'would change' if dry else 'changed'}" if changed else "",
        f"{plural(same, 'file')} as it should be" if same == 1 else f"{same} files as they should be" if same else "",
        f"{plural(wrong, 'file')} cannot be laid out" if wrong else "",
    ]
    return ", ".join(filter(None, counts)) or "no file found"


def difference(before: str, after: str, name: str) -> str:
    """What changes from one text to the other, as `diff -u` shows it."""
    lines = unified_diff(before.splitlines(), after.splitlines(), f"{name} now", f"{name} laid out", lineterm="")
    return "\n".join(lines)


def outline(team: "Outline") -> str:
    """A team as a tree: its nodes, who thinks there, what they give back, and their arrows with bounds."""
    lines = [team.name + (f" [{', '.join(team.patterns)}]" if team.patterns else "")]
    if team.description:
        lines.append(f"  {team.description}")
    for node in team.nodes:
        lines += _node(node, is_last=node is team.nodes[-1])
    lines += team.kept
    return "\n".join(lines)


def _node(node: "OutlinedNode", is_last: bool) -> Iterable[str]:
    about = [node.kind, *([node.thinks] if node.thinks not in ("", node.kind) else []), *_place(node)]
    below = [f"gives {output}" for output in node.outputs] + [_arrow(one) for one in node.arrows]
    yield f"{'└' if is_last else '├'}─ {node.name} ({', '.join(about)})"
    for line in below:
        yield f"{' ' if is_last else '│'}    {line}"


def _place(node: "OutlinedNode") -> list[str]:
    if node.in_flow:
        return []
    return [node.place or "not in the flow"]


def _arrow(one: "OutlinedArrow") -> str:
    bound = ""
    if one.max is not None:
        bound = f"max {one.max}" + (" (implied: the file gives none)" if one.implied else "")
        bound += f" per {one.per}" if one.per != "run" else ""
    on_max = f"on-max {one.on_max}" if one.on_max != "forward" else ""
    attributes = [said for said in (f"when {one.when}" if one.when else "", bound, on_max, *one.kept) if said]
    return arrow(("", one.targets)).lstrip() + (f"  [{', '.join(attributes)}]" if attributes else "")
