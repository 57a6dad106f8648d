"""Prove a loop: its reachable events, whether it can complete, and its maximum number of turns.

A loop always ends, at the latest at its iteration limit.
"""

from collections.abc import Iterator
from math import inf, isinf

from coterie.base.diagnostics import Severity, Span
from coterie.proofs.bounds import at_most, of_loop, reviews_before
from coterie.proofs.measures import Measures
from coterie.proofs.options import ProofOptions
from coterie.proofs.paths import Paths, State, script_of
from coterie.proofs.report import BOUND, EXACT, Case, Finding, Report
from coterie.proofs.witness import Script
from coterie.team.planning.loop import LoopPlan
from coterie.team.planning.plan import Plan
from coterie.team.topology.events import EXPLORE, PARALLEL, START, is_pattern, matches
from coterie.team.topology.loop import Handoff, Role


def prove_loop(plan: Plan, options: ProofOptions) -> Report:
    """Prove a loop."""
    loop = plan.coordination
    assert isinstance(loop, LoopPlan)
    paths = Paths(loop, options.states)
    measures = Measures(plan, options.prices)
    most = of_loop(plan, loop, paths, measures)
    is_bounded = most[0] < inf
    is_exact = paths.whole and all(agent.child is None for agent in plan.agents.values())
    findings = [*_uncounted(plan, paths, measures), *(_findings(loop, paths, options) if paths.whole else [_TOO_MANY])]
    return Report(
        plan=plan.name,
        method=EXACT if is_exact else BOUND,
        states=len(paths.way),
        ends=True,
        worst=measures.case(most, _script_of_most(loop, paths) if is_exact else None) if is_bounded else None,
        best=_best(loop, paths) if is_exact else None,
        cost=options.cost(most),
        findings=tuple(findings),
    )


_TOO_MANY = Finding(
    "too-many-states",
    Severity.NOTE,
    "too many states to explore: the counts come from the iterations alone, and what can or cannot happen is not "
    "checked",
)


# -- how many turns ---------------------------------------------------------------------------------------------------


def _uncounted(plan: Plan, paths: Paths, measures: Measures) -> Iterator[Finding]:
    """A note for each team whose number of turns has no known bound."""
    for name in paths.before:
        child = plan.agents[name].child if name in plan.agents else None
        if child is not None and isinf(at_most(child, measures, f"{name}/")[0]):
            message = f"nothing bounds the whole: how many turns the team of role {name!r} takes is unknown"
            yield Finding("not-proved", Severity.NOTE, message, hint="check it by itself")


def _script_of_most(loop: LoopPlan, paths: Paths) -> Script:
    """A script in which no agent completes the loop, and every iteration opens the widest wave."""
    branches = loop.parallel.most if loop.parallel is not None else 0
    payload = "\n".join(f"- part {k}" for k in range(1, branches + 1))
    opens = {"emits": [{"topic": EXPLORE + PARALLEL, "payload": payload}]}
    return {paths.asked(START): [opens if branches else {"emits": []}]}


def _best(loop: LoopPlan, paths: Paths) -> Case | None:
    """The run that completes with the fewest turns; a wave on its path takes one more turn."""
    if not paths.ends:
        return None
    fewest, way = 0, list[tuple[str, str]]()
    layer: dict[State, tuple[int, list[tuple[str, str]]]] = {paths.start: (0, [])}
    for iterations in range(1, loop.max_iterations + 1):
        least = iterations + reviews_before(loop, iterations)
        if fewest and least >= fewest:
            break
        following: dict[State, tuple[int, list[tuple[str, str]]]] = {}
        for state, (waves, steps) in layer.items():
            asked = paths.asked(state[0])
            if paths.completes(state) and (not fewest or least + waves < fewest):
                fewest, way = least + waves, [*steps, (asked, loop.completion)]
            for event, follows in paths.steps(state):
                more = waves + event.endswith(PARALLEL)
                if follows not in following or more < following[follows][0]:
                    following[follows] = more, [*steps, (asked, event)]
        layer = following
    return Case(turns=fewest, script=script_of(way)) if fewest else None


# -- what is found ----------------------------------------------------------------------------------------------------


def _findings(loop: LoopPlan, paths: Paths, options: ProofOptions) -> Iterator[Finding]:
    written = options.topology.loop if options.topology is not None else None
    roles = {role.id: role for role in (written.roles if written is not None else ())}
    keys = {one.event: one for one in (written.handoff if written is not None else ())}
    yield from _completion(loop, paths, written.spans.get("completion") if written is not None else None)
    yield from _traps(loop, paths, roles)
    yield from _unreached(loop, paths, roles)
    yield from _unhandled(loop, paths, roles)
    yield from _idle_keys(loop, paths, keys)


def _completion(loop: LoopPlan, paths: Paths, span: Span | None) -> Iterator[Finding]:
    """Findings on whether the loop can complete, and if not, why."""
    emitted = {event for state in paths.way for event in paths.events(state[0])}
    for event in loop.required:
        if event not in emitted:
            message = f"the required event {event!r} can never come, so the loop never completes"
            yield Finding("required-never-comes", Severity.WARNING, message)
    if not paths.ends:
        by_promise = bool(loop.promise) and any(not missing for _, missing in paths.way)
        how = f"; only the promise {loop.promise!r} can" if by_promise else "; it always stops by a limit"
        message = f"no way leads to {loop.completion!r} with all that is required before{how}"
        severity = Severity.NOTE if by_promise else Severity.WARNING
        yield Finding("cannot-complete", severity, message, span)
    elif len(paths.events_to(paths.ends[0])) + 1 > loop.max_iterations:
        needed = len(paths.events_to(paths.ends[0])) + 1
        message = f"the shortest way to {loop.completion!r} takes {needed} iterations; there are {loop.max_iterations}"
        yield Finding("too-few-iterations", Severity.WARNING, message, span)


def _traps(loop: LoopPlan, paths: Paths, roles: dict[str, Role]) -> Iterator[Finding]:
    """Findings for states from which completion is no longer possible."""
    if paths.start not in paths.hopeful:
        return
    for state in paths.way:
        step = paths.way[state]
        if state not in paths.hopeful and step is not None and step[0] in paths.hopeful:
            agent = paths.asked(state[0])
            why = "may emit nothing" if not paths.events(state[0]) else "never comes to the end"
            message = f"after {state[0]!r} the loop cannot complete any more: {agent!r} {why}"
            yield Finding("no-way-back", Severity.WARNING, message, _span(roles, agent), script=paths.script(state))


def _unreached(loop: LoopPlan, paths: Paths, roles: dict[str, Role]) -> Iterator[Finding]:
    reached = {role for state in paths.way for role in paths.roles(state[0])}
    asked = {paths.asked(state[0]) for state in paths.way}
    for role in loop.roles:
        if role.id not in reached:
            message = f"no chain of events leads to role {role.id!r}"
            yield Finding("unreachable-role", Severity.WARNING, message, _span(roles, role.id))
        elif role.id not in asked:
            message = f"role {role.id!r} is only ever suggested beside others, so its own backend is never called"
            yield Finding("never-first", Severity.NOTE, message, _span(roles, role.id))


def _unhandled(loop: LoopPlan, paths: Paths, roles: dict[str, Role]) -> Iterator[Finding]:
    """Findings for events without a key in the handoff, which lead to every role."""
    keys = [key for key, _ in loop.handoff]
    reported = set[str]()
    for state in paths.way if keys else ():
        position = state[0]
        if position == START or position in reported or any(matches(key, position) for key in keys):
            continue
        reported.add(position)
        emitter = next((role.id for role in loop.roles if position in role.emits), "")
        message = f"{position!r} is in no key of the handoff, so it leads to all roles"
        yield Finding("unrouted-event", Severity.NOTE, message, _span(roles, emitter), script=paths.script(state))


def _idle_keys(loop: LoopPlan, paths: Paths, keys: dict[str, Handoff]) -> Iterator[Finding]:
    positions = {position for position, _ in paths.way}
    for key, _ in loop.handoff:
        if not any(matches(key, position) for position in positions) and not _may_be_meant(key, loop):
            message = f"nothing that can be emitted is {key!r}: this key of the handoff is never used"
            span = keys[key].span if key in keys else None
            yield Finding("idle-key", Severity.NOTE, message, span)


def _may_be_meant(key: str, loop: LoopPlan) -> bool:
    """Whether an event that the file does not name could match *key*: `emits` has patterns, or there are no roles."""
    return is_pattern(key) and (not loop.roles or any(any(map(is_pattern, role.emits)) for role in loop.roles))


def _span(roles: dict[str, Role], name: str) -> Span | None:
    return roles[name].span if name in roles else None
