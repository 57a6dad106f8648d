"""Text for supervised systems: the list of checks, the tree, and differences."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from coterie.history.views.words import plural

if TYPE_CHECKING:
    from coterie.base.diagnostics import Diagnostic
    from coterie.interfaces.cli.team_file import Examined
    from coterie.team.topology.system.diff import SystemDifference
    from coterie.team.topology.system.outline import OutlinedChild, SystemOutline

_SIGNS = {"error": "✗", "warning": "⚠", "note": "·"}
_RULE = "─" * 42
_PATH = 38


def checks(found: "Examined") -> str:
    """The list of checks of a file, with every diagnostic in its group, and a verdict."""
    from coterie.team.topology.system.checklist import checklist

    system = found.topology.system if found.topology is not None else None
    lines = [f"Validating {found.file}"]
    for group in checklist(system, found.diagnostics):
        if group.passed or group.found:
            lines += ["", group.title, *(f"✔ {label}" for label in group.passed)]
            lines += [line for one in group.found for line in _finding(one, found.text)]
    counts = [plural(len(some), word) for some, word in ((found.errors, "error"), (found.warnings, "warning")) if some]
    if system is not None and found.valid:
        size = [plural(len(system.agents), "agent"), plural(len(system.supervisors), "supervisor")]
        verdict = f"✔ Valid  {' · '.join([*size, system.transport.type, *counts])}"
    else:
        verdict = f"✗ Invalid  {' · '.join(counts)}"
    return "\n".join(f"  {line}".rstrip() for line in [*lines, "", verdict])


def _finding(found: "Diagnostic", text: str) -> Iterator[str]:
    first, *others = found.render(text).rstrip("\n").split("\n")
    yield f"{_SIGNS[found.severity.value]} {first}"
    yield from (f"  {line}" for line in others)


def tree(team: "SystemOutline", file: str) -> str:
    """The supervision tree with the policies of its supervisors, transport, plugins and size."""
    size = [plural(team.agents, "agent"), plural(team.supervisors, "supervisor")]
    size += [f"{team.processes} processes"] if team.processes else []
    lines = [
        f"Coterie Topology: {file}" + {True: "  (live)", False: "  (runtime not running)", None: ""}[team.live],
        "",
        *_nodes(team.root, "", "", 0),
        "",
        _RULE,
        f"Transport   {'  '.join(team.transport)}",
        f"Plugins     {'  '.join(team.plugins) or 'none'}",
        *([f"Entry       {team.entry}"] if team.entry else []),
        f"Topology    {'  ·  '.join(size)}",
        *(["", "Settings"] if team.settings else []),
    ]
    widest = max((len(name) for name, _ in team.settings), default=0)
    lines += [f"{name:<{widest}}  {'  '.join(about)}" for name, about in team.settings]
    return "\n".join(f"  {line}".rstrip() for line in lines)


def _nodes(node: "OutlinedChild", first: str, rest: str, width: int) -> Iterator[str]:
    """The lines of *node* behind the rail *first*, and of its children behind *rest*; its name takes *width*."""
    is_supervisor = node.kind in ("supervisor", "dynamic_supervisor")
    yield first + (f"{node.name} " if is_supervisor else f"{node.name:<{width}}  ") + "  ".join(node.about)
    widest = max((len(child.name) for child in node.children if child.kind != "supervisor"), default=0)
    for child in node.children:
        last = child is node.children[-1]
        yield from _nodes(child, rest + ("└── " if last else "├── "), rest + ("    " if last else "│   "), widest)


def differences(found: "Sequence[SystemDifference]", old: str, new: str) -> str:
    """The differences by section, `+` added, `-` removed, `~` changed, and how many there are."""
    lines = [f"Diff: {old} → {new}"]
    for section, some in groupby(found, key=lambda each: each.section):
        lines += ["", section]
        for each in some:
            value = f"{each.old} → {each.new}" if each.sign == "~" else each.new or each.old
            lines.append(f"{each.sign}  {each.path:<{_PATH - 1}} {value}")
    words = {"~": "changed", "+": "added", "-": "removed"}
    counts = [f"{n} {word}" for sign, word in words.items() if (n := sum(each.sign == sign for each in found))]
    return "\n".join(f"  {line}".rstrip() for line in [*lines, "", "  ·  ".join(counts) or "No differences"])
