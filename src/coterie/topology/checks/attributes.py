"""Arrows beside each other, and the attributes that are read and not executed: they say something sensible."""

from collections.abc import Iterator

from coterie.diagnostics import Diagnostic, warning
from coterie.topology.checks.facts import Facts


def arrows_are_drawn_once(facts: Facts) -> Iterator[Diagnostic]:
    """An arrow that stands there twice, with the same condition, leads where it led before."""
    doubled = set(facts.graph.doubled)
    seen = set[tuple[str, str, str]]()
    for group in facts.flow.groups if doubled else ():
        if group.source not in doubled:
            continue
        when = str(group.when) if group.when is not None else ""
        for target in group.targets:
            arrow = (group.source, target, when)
            if arrow in seen:
                said = f" when {when}" if when else ""
                message = f"{group.source} -> {target}{said} stands there twice"
                yield warning("repeated-arrow", message, group.spans.get(target) or group.span, "remove one of them")
            seen.add(arrow)


def races_have_runners(facts: Facts) -> Iterator[Diagnostic]:
    """Two or more can race."""
    for group in facts.flow.groups:
        if "race" in group.kept and len(group.targets) == 1:
            message = f"{group.targets[0]!r} races alone"
            yield warning("race-of-one", message, group.spans.get("race") or group.span, "add another to the list")


def reflections_go_back(facts: Facts) -> Iterator[Diagnostic]:
    """`reflection` marks an arrow that goes back, and such an arrow has a `max`."""
    for i, group in enumerate(facts.flow.groups):
        if "reflection" in group.kept and not facts.graph.is_loop_group(i):
            message = f"'reflection' stands on {group}, which goes back nowhere"
            span = group.spans.get("reflection") or group.span
            yield warning("reflection-without-loop", message, span, "it belongs on the arrow that goes back, with max")


def files_are_written_first(facts: Facts) -> Iterator[Diagnostic]:
    """What an agent reads, and agents of this flow write, is written by one that comes before it."""
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
                message = f"{node.name!r} reads {path!r}, which {by[0]!r} writes later, or elsewhere"
                span = node.spans.get("reads") or node.span
                yield warning("read-before-written", message, span, f"no path leads from {by[0]!r} to {node.name!r}")
