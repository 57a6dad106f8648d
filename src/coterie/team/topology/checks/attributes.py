"""Parallel arrows, and attributes that are read but not executed."""

from collections.abc import Iterator

from coterie.base.diagnostics import Diagnostic, warning
from coterie.team.topology.checks.facts import Facts


def arrows_are_drawn_once(facts: Facts) -> Iterator[Diagnostic]:
    """An arrow with the same condition is written only once."""
    seen = set[tuple[str, str, str]]()
    for group in facts.flow.groups:
        when = str(group.when) if group.when is not None else ""
        for target in group.targets:
            arrow = (group.source, target, when)
            if arrow in seen:
                said = f" when {when}" if when else ""
                message = f"{group.source} -> {target}{said} is written twice"
                yield warning("repeated-arrow", message, group.spans.get(target) or group.span, "remove one of them")
            seen.add(arrow)


def races_have_runners(facts: Facts) -> Iterator[Diagnostic]:
    """A race needs at least two nodes."""
    for group in facts.flow.groups:
        if "race" in group.kept and len(group.targets) == 1:
            message = f"{group.targets[0]!r} races alone"
            yield warning("race-of-one", message, group.spans.get("race") or group.span, "add another to the list")


def reflections_go_back(facts: Facts) -> Iterator[Diagnostic]:
    """`reflection` marks a back arrow, and a back arrow has a `max`."""
    for i, group in enumerate(facts.flow.groups):
        if "reflection" in group.kept and not facts.graph.is_loop_group(i):
            message = f"'reflection' is on {group}, which does not go back"
            span = group.spans.get("reflection") or group.span
            yield warning("reflection-without-loop", message, span, "write it on the arrow that goes back, with max")


def files_are_written_first(facts: Facts) -> Iterator[Diagnostic]:
    """A file that an agent reads and another agent of the flow writes is written before it is read."""
    writers: dict[str, list[str]] = {}
    for node in facts.agents:
        if not node.writes or node.name not in facts.mentioned:
            continue
        for path in node.writes:
            writers.setdefault(path, []).append(node.name)
    for node in facts.agents if writers else ():
        if not node.reads or node.name not in facts.mentioned:
            continue
        for path in node.reads:
            by = writers.get(path, [])
            if by and node.name not in by and not any(facts.leads_to(name, node.name) for name in by):
                message = f"{node.name!r} reads {path!r}, but {by[0]!r} writes it later or on another path"
                span = node.spans.get("reads") or node.span
                yield warning("read-before-written", message, span, f"no path leads from {by[0]!r} to {node.name!r}")
