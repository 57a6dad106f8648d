"""Prove a loop: where its events can lead, whether it can complete, and how many turns it takes at worst.

A state is the event that routes and what is still required; a step emits one event that is allowed there. A loop always
ends, by its iterations if by nothing else.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from math import isinf

from coterie.diagnostics import Severity, Span
from coterie.engines.loop.nearest import events_of
from coterie.planning.branches import BRANCH
from coterie.planning.loop import GLOBAL, REVIEW, LoopPlan
from coterie.planning.plan import AgentPlan, Plan
from coterie.proofs.bounds import at_most
from coterie.proofs.measures import Measures, attempts
from coterie.proofs.question import Question
from coterie.proofs.report import BOUND, EXACT, Case, Cost, Finding, Report
from coterie.proofs.ways import Amounts
from coterie.proofs.witness import Script
from coterie.topology.loop import Handoff, Role
from coterie.topology.routing import EXPLORE, JOINED, PARALLEL, START, allowed, is_pattern, matches, suggested

State = tuple[str, frozenset[str]]
"""The event that routes, and the required events that were not accepted yet."""


class Paths:
    """All states that a loop can reach, and the shortest way to each.

    Args:
        most: How many states may be looked at.

    Attributes:
        way: The state and the event from which each state was reached first; None at the start.
        whole: Whether these are all.
        teams: The roles for which teams answer, each with all that its outputs may choose.
    """

    def __init__(self, plan: LoopPlan, most: int) -> None:
        self.plan = plan
        self.ids = [role.id for role in plan.roles]
        self._emits = {role.id: role.emits for role in plan.roles}
        self.teams = {
            role.id: tuple(event for event, _ in role.events) for role in plan.roles if role.events is not None
        }
        self.start: State = (START, frozenset(plan.required))
        self.way: dict[State, tuple[State, str] | None] = {self.start: None}
        self.whole = True
        front = deque([self.start])
        while front:
            state = front.popleft()
            for event, follows in self.steps(state):
                if follows in self.way:
                    continue
                if len(self.way) >= most:
                    self.whole = False
                    return
                self.way[follows] = (state, event)
                front.append(follows)

    def roles(self, event: str) -> tuple[str, ...]:
        """The roles that *event* leads to."""
        return suggested(self.plan.handoff, self.ids, event)

    def asked(self, event: str) -> str:
        """The agent that is asked after *event*."""
        return next(iter(self.roles(event)), GLOBAL)

    def events(self, position: str) -> tuple[str, ...]:
        """What may be emitted in a turn that *position* leads to."""
        asked = self.asked(position)
        if asked in self.teams:
            return events_of(self.plan, self.teams[asked])
        return events_of(self.plan, allowed(self._emits, self.roles(position)), not self.ids)

    def completes(self, state: State) -> bool:
        """Whether a turn in *state* may emit the event that completes the loop."""
        return not state[1] and self.plan.completion in self.events(state[0])

    def steps(self, state: State) -> Iterator[tuple[str, State]]:
        """What a turn in *state* may emit to go on, and where that leads."""
        position, missing = state
        for event in self.events(position):
            if event == self.plan.completion:
                continue
            yield event, (event, missing - {event})
            joined = event + JOINED
            if self.plan.parallel is None or self.asked(position) in self.teams:
                continue  # what chooses among events opens no wave
            if any(matches(key, joined) for key, _ in self.plan.handoff):
                yield event + PARALLEL, (joined, missing - {event + PARALLEL})

    def events_to(self, state: State) -> list[tuple[str, str]]:
        """The agents that are asked on the shortest way to *state*, and what each emits."""
        found = []
        while (step := self.way[state]) is not None:
            state, event = step
            found.append((self.asked(state[0]), event))
        return found[::-1]

    def script(self, state: State) -> Script | None:
        """A rehearsal that goes to *state* by the shortest way; None when a team would have to choose it."""
        steps = self.events_to(state)
        return None if any(agent in self.teams for agent, _ in steps) else _script(steps)

    @cached_property
    def ends(self) -> list[State]:
        """The states in which the loop may complete by its event, nearest first."""
        return [state for state in self.way if self.completes(state)]

    @cached_property
    def hopeful(self) -> set[State]:
        """The states from which one is reached in which the loop may complete, by its event or its promise."""
        back: dict[State, list[State]] = {}
        for state in self.way:
            for _, follows in self.steps(state):
                back.setdefault(follows, []).append(state)
        front = [state for state in self.way if self.completes(state) or (self.plan.promise and not state[1])]
        found = set(front)
        while front:
            for before in back.get(front.pop(), ()):
                if before not in found:
                    found.add(before)
                    front.append(before)
        return found


def _script(steps: Iterable[tuple[str, str]]) -> Script:
    """A rehearsal in which each agent emits in turn what *steps* say."""
    script: Script = {}
    for agent, event in steps:
        emitted = {"topic": event, **({"payload": "- one part"} if event.endswith(PARALLEL) else {})}
        script.setdefault(agent, []).append({"emits": [emitted]})
    return script


def prove_loop(plan: Plan, question: Question) -> Report:
    """The proof of a loop."""
    loop = plan.coordination
    assert isinstance(loop, LoopPlan)
    paths = Paths(loop, question.states)
    teams = [name for name, agent in plan.agents.items() if agent.child is not None]
    measures = Measures(plan, question.prices)
    most = {name: _once(plan, name, measures) for name in paths.ids or [GLOBAL]}
    findings = [*_uncounted(most), *(_findings(loop, paths, question) if paths.whole else [_TOO_MANY])]
    return Report(
        plan=plan.name,
        method=EXACT if paths.whole and not teams else BOUND,
        states=len(paths.way),
        ends=True,
        worst=_worst_of_teams(loop, paths, measures, most) if teams else _worst(loop, paths),
        best=_best(loop, paths) if paths.whole and not teams else None,
        cost=_cost(plan, loop, paths, measures, question),
        findings=tuple(findings),
    )


_TOO_MANY = Finding(
    code="too-many-states",
    severity=Severity.NOTE,
    message="there are too many states to look at: the numbers are counted from the iterations, and nothing is said of "
    "what can or cannot happen",
)


# -- how many turns ---------------------------------------------------------------------------------------------------


def _reviews(loop: LoopPlan, iterations: int) -> int:
    """How many reviews come before as many iterations."""
    return max(0, iterations - 1) // max(1, loop.review.every) if loop.review is not None else 0


def _branches(loop: LoopPlan) -> int:
    return loop.parallel.most if loop.parallel is not None else 0


def _once(plan: Plan, name: str, measures: Measures, above: str = "") -> Amounts:
    """The most that one iteration of *name* counts: a turn, or the turns of its team; infinite if nothing bounds it."""
    agent = plan.agents.get(name) or AgentPlan(name=name)
    path = above + name
    return measures.turn(path, agent) if agent.child is None else at_most(agent.child, measures, f"{path}/")


def _uncounted(most: Mapping[str, Amounts]) -> Iterator[Finding]:
    """A note for each team whose turns nothing known bounds."""
    for name, amounts in most.items():
        if isinf(amounts[0]):
            message = f"nothing bounds the whole: how many turns the team of role {name!r} takes is not known here"
            yield Finding(code="not-proved", severity=Severity.NOTE, message=message, hint="check it by itself")


def _often(loop: LoopPlan, paths: Paths) -> dict[str, int]:
    """In how many iterations each agent may be asked at most."""
    iterations = max(0, loop.max_iterations)
    if not paths.whole:
        return dict.fromkeys(paths.ids or [GLOBAL], iterations)
    agents: dict[str, int] = {}
    for state in paths.way:
        agents.setdefault(paths.asked(state[0]), max(0, iterations - len(paths.events_to(state))))
    return agents


def _worst_of_teams(loop: LoopPlan, paths: Paths, measures: Measures, most: Mapping[str, Amounts]) -> Case | None:
    """The role that takes most in every iteration, and in every branch of a wave of each: no run takes more."""
    often = _often(loop, paths)
    if any(isinf(most[name][0]) for name in often):
        return None
    iterations, branches = max(0, loop.max_iterations), _branches(loop)
    if often.keys() <= paths.teams.keys():
        branches = 0  # nobody opens a wave
    reviews = _reviews(loop, iterations)
    agents = dict.fromkeys(measures.paths, 0)
    for name, times in often.items():
        for path, amount in zip(measures.paths, most[name][1:], strict=False):
            if amount:
                agents[path] += round(amount * times)
                if branches:
                    agents[f"{BRANCH}/{path}"] += round(amount * iterations * branches)
    if loop.review is not None:
        agents[REVIEW] = reviews
    dearest = max((most[name][0] for name in often), default=0.0)
    turns = round(dearest * iterations * (1 + branches)) + reviews
    return Case(turns=turns, agents={path: count for path, count in agents.items() if count})


def _worst(loop: LoopPlan, paths: Paths) -> Case:
    """Nobody completes it, and every iteration opens a wave as wide as it may be."""
    iterations, reviews, branches = max(0, loop.max_iterations), _reviews(loop, loop.max_iterations), _branches(loop)
    agents = _often(loop, paths)
    every = dict(agents)
    if branches:
        every |= {f"{BRANCH}/{name}": turns * branches for name, turns in agents.items()}
    if loop.review is not None:
        every[REVIEW] = reviews
    first = paths.asked(START)
    payload = "\n".join(f"- part {k}" for k in range(1, branches + 1))
    opens = {"emits": [{"topic": EXPLORE + PARALLEL, "payload": payload}]}
    script: Script = {first: [opens if branches else {"emits": []}]}
    turns = iterations * (1 + branches) + reviews
    return Case(turns=turns, agents=every, script=script if paths.whole else None)


def _best(loop: LoopPlan, paths: Paths) -> Case | None:
    """It completes as soon as it may; a wave on the way is one turn more."""
    if not paths.ends:
        return None
    fewest, way = 0, list[tuple[str, str]]()
    layer: dict[State, tuple[int, list[tuple[str, str]]]] = {paths.start: (0, [])}
    for iterations in range(1, loop.max_iterations + 1):
        least = iterations + _reviews(loop, iterations)
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
    return Case(turns=fewest, script=_script(way)) if fewest else None


def _cost(plan: Plan, loop: LoopPlan, paths: Paths, measures: Measures, question: Question) -> Cost | None:
    """The dearest role in every iteration and branch: no run costs more. Nothing where nothing bounds a team."""
    if question.prices is None:
        return None
    iterations, branches = max(0, loop.max_iterations), _branches(loop)
    names = list(_often(loop, paths))
    most = [_once(plan, name, measures) for name in names]
    apart = [_once(plan, name, measures, f"{BRANCH}/") for name in names] if loop.parallel is not None else []
    if any(isinf(amounts[0]) for amounts in most):
        return None
    reviews = _reviews(loop, iterations) * question.prices.of(REVIEW)
    again = attempts(plan.agents.get(REVIEW) or AgentPlan(name=REVIEW))
    once, often = (
        (max(one[k] for one in most) + max((one[k] for one in apart), default=0.0) * branches) * iterations
        for k in (-2, -1)
    )
    return Cost(turns=round(once + reviews, 6), attempts=round(often + reviews * again, 6))


# -- what is found ----------------------------------------------------------------------------------------------------


def _findings(loop: LoopPlan, paths: Paths, question: Question) -> Iterator[Finding]:
    written = question.topology.loop if question.topology is not None else None
    roles = {role.id: role for role in (written.roles if written is not None else ())}
    keys = {one.event: one for one in (written.handoff if written is not None else ())}
    yield from _completion(loop, paths, written.spans.get("completion") if written is not None else None)
    yield from _traps(loop, paths, roles)
    yield from _unreached(loop, paths, roles)
    yield from _unhandled(loop, paths, roles)
    yield from _idle_keys(loop, paths, keys)


def _completion(loop: LoopPlan, paths: Paths, span: Span | None) -> Iterator[Finding]:
    """Whether it can complete, and if not, what keeps it from that."""
    emitted = {event for state in paths.way for event in paths.events(state[0])}
    for event in loop.required:
        if event not in emitted:
            message = f"the required event {event!r} can never come, so the loop never completes"
            yield _finding("required-never-comes", Severity.WARNING, message)
    if not paths.ends:
        by_promise = bool(loop.promise) and any(not missing for _, missing in paths.way)
        how = f"; only the promise {loop.promise!r} can" if by_promise else "; it always stops by a limit"
        message = f"no way leads to {loop.completion!r} with all that is required before{how}"
        severity = Severity.NOTE if by_promise else Severity.WARNING
        yield _finding("cannot-complete", severity, message, span)
    elif len(paths.events_to(paths.ends[0])) + 1 > loop.max_iterations:
        needed = len(paths.events_to(paths.ends[0])) + 1
        message = f"the shortest way to {loop.completion!r} takes {needed} iterations; there are {loop.max_iterations}"
        yield _finding("too-few-iterations", Severity.WARNING, message, span)


def _traps(loop: LoopPlan, paths: Paths, roles: dict[str, Role]) -> Iterator[Finding]:
    """A state from which there is no completing any more, though there was before."""
    if paths.start not in paths.hopeful:
        return
    for state in paths.way:
        step = paths.way[state]
        if state not in paths.hopeful and step is not None and step[0] in paths.hopeful:
            agent = paths.asked(state[0])
            why = "may emit nothing" if not paths.events(state[0]) else "never comes to the end"
            message = f"after {state[0]!r} the loop cannot complete any more: {agent!r} {why}"
            yield _finding("no-way-back", Severity.WARNING, message, _span(roles, agent), paths.script(state))


def _unreached(loop: LoopPlan, paths: Paths, roles: dict[str, Role]) -> Iterator[Finding]:
    reached = {role for state in paths.way for role in paths.roles(state[0])}
    asked = {paths.asked(state[0]) for state in paths.way}
    for role in loop.roles:
        if role.id not in reached:
            message = f"no chain of events leads to role {role.id!r}"
            yield _finding("unreachable-role", Severity.WARNING, message, _span(roles, role.id))
        elif role.id not in asked:
            message = f"role {role.id!r} is only ever suggested beside others, so its own backend is never asked"
            yield _finding("never-first", Severity.NOTE, message, _span(roles, role.id))


def _unhandled(loop: LoopPlan, paths: Paths, roles: dict[str, Role]) -> Iterator[Finding]:
    """Events in no key: they lead to every role."""
    keys = [key for key, _ in loop.handoff]
    told = set[str]()
    for state in paths.way if keys else ():
        position = state[0]
        if position == START or position in told or any(matches(key, position) for key in keys):
            continue
        told.add(position)
        emitter = next((role.id for role in loop.roles if position in role.emits), "")
        message = f"{position!r} is in no key of the handoff, so it leads to all roles"
        yield _finding("unrouted-event", Severity.NOTE, message, _span(roles, emitter), paths.script(state))


def _idle_keys(loop: LoopPlan, paths: Paths, keys: dict[str, Handoff]) -> Iterator[Finding]:
    positions = {position for position, _ in paths.way}
    for key, _ in loop.handoff:
        if not any(matches(key, position) for position in positions) and not _may_be_meant(key, loop):
            message = f"nothing that can be emitted is {key!r}: this key of the handoff is never used"
            span = keys[key].span if key in keys else None
            yield _finding("idle-key", Severity.NOTE, message, span)


def _may_be_meant(key: str, loop: LoopPlan) -> bool:
    """Whether events that no file names could still fit *key*: patterns in emits, or no roles at all."""
    return is_pattern(key) and (not loop.roles or any(map(is_pattern, _emitted(loop))))


def _emitted(loop: LoopPlan) -> Iterable[str]:
    return (event for role in loop.roles for event in role.emits)


def _span(roles: dict[str, Role], name: str) -> Span | None:
    return roles[name].span if name in roles else None


def _finding(
    code: str, severity: Severity, message: str, span: Span | None = None, script: Script | None = None
) -> Finding:
    return Finding(code=code, severity=severity, message=message, span=span, script=script or None)
