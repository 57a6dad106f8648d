"""Prove a pattern: count the turns of each slot, teams included, with the counts of its kind.

A user-defined pattern is not imported for a proof: its calls are unknown before it runs.
"""

from collections.abc import Iterator, Mapping
from math import inf
from typing import Any

from coterie.base.diagnostics import Severity, Span
from coterie.history.engines.patterns.registry import Calls
from coterie.proofs.bounds import at_most, calls_of_ours, usually
from coterie.proofs.measures import Measures
from coterie.proofs.options import ProofOptions
from coterie.proofs.report import BOUND, Finding, Report
from coterie.team.planning.loop import LoopPlan
from coterie.team.planning.pattern import PatternPlan
from coterie.team.planning.plan import Plan
from coterie.team.topology.checks.patterns import span_of
from coterie.team.topology.patterns.kinds import KINDS, PatternSpec, read_config


def prove_pattern(plan: Plan, options: ProofOptions) -> Report:
    """Prove a pattern by counting; its runs end if its teams do."""
    pattern = plan.coordination
    assert isinstance(pattern, PatternPlan)
    measures = Measures(plan, options.prices)
    most, usual = at_most(plan, measures), usually(plan, measures)
    is_bounded = most[0] < inf
    findings = [*_notes(plan), *_findings(pattern, calls_of_ours(pattern, plan), options)]
    return Report(
        plan=plan.name,
        method=BOUND,
        states=0,
        ends=is_bounded,
        worst=measures.case(most) if is_bounded else None,
        best=None,
        usual=measures.case(usual) if usual[0] < inf else None,
        cost=options.cost(most),
        findings=tuple(sorted(findings, key=lambda finding: list(Severity).index(finding.severity))),
    )


def _notes(plan: Plan, above: str = "") -> Iterator[Finding]:
    """A note for each team whose turns are unknown or only bounded."""
    what = f"{above.rstrip('/')!r}" if above else f"{plan.name!r}"
    match plan.coordination:
        case PatternPlan(max_turns=int(most)):
            message = f"{what} is a program, which decides when it runs: it has at most {most} turns"
            yield Finding("counted", Severity.NOTE, message)
        case PatternPlan(type=type) if type not in KINDS:
            message = f"nothing can be proved: {what} is played by {type!r}, which is known when it runs"
            yield Finding("not-proved", Severity.NOTE, message)
        case LoopPlan():
            message = f"{what} is a loop: it is counted as if it took all its iterations"
            yield Finding("counted", Severity.NOTE, message)
    for name, agent in plan.agents.items():
        if agent.child is not None:
            yield from _notes(agent.child, f"{above}{name}/")


def _findings(pattern: PatternPlan, calls: Calls | None, options: ProofOptions) -> Iterator[Finding]:
    if calls is None:
        return
    for slot in pattern.slots:
        usual = calls.usual.get(slot.name, 0)
        if calls.most.get(slot.name, 0) == 0:
            message = f"slot {slot.name!r} is never called"
            yield _found("never-asked", Severity.WARNING, message, f"slots.{slot.name}", options)
        elif slot.calls is not None and slot.calls < usual:
            message = f"slot {slot.name!r} may have {slot.calls} turns, and is usually called {usual} times"
            hint = "calls beyond that fail; allow more turns, or configure fewer calls"
            yield _found("short-budget", Severity.WARNING, message, f"slots.{slot.name}", options, hint)
    kind = KINDS[pattern.type]
    name = kind.stops_early
    if name in _written(options) and (reason := _idle_stop(kind, pattern)):
        yield _found("idle-stop", Severity.NOTE, f"{name} can save no turn: {reason}", f"config.{name}", options)
    if kind.is_per_task:
        message = "the turns are counted for one task: several take as many times as much"
        yield _found("per-task", Severity.NOTE, message, "type", options)


def _idle_stop(kind: PatternSpec, pattern: PatternPlan) -> str:
    """The reason why a configured early end cannot save any turn; empty if it can."""
    config, _ = read_config(kind.config, pattern.config)
    return config.idle_stop([slot.name for slot in pattern.slots]) if config is not None else ""


def _written(options: ProofOptions) -> Mapping[str, Any]:
    """The settings of the pattern in the file."""
    pattern = options.topology.pattern if options.topology is not None else None
    return pattern.config if pattern is not None else {}


def _found(code: str, severity: Severity, message: str, where: str, options: ProofOptions, hint: str = "") -> Finding:
    place: Span | None = None
    if options.topology is not None and options.topology.pattern is not None:
        place = span_of(options.topology.pattern, where)
    return Finding(code, severity, message, place, hint)
