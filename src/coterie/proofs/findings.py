"""Findings for the author of a flow: one generator for each kind.

A finding about a possible event shows the shortest run with it and without failures. An event is called impossible only
if it happens in no run, failures included.
"""

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

from msgspec.structs import replace

from coterie.base.diagnostics import Severity, Span
from coterie.proofs.flow import FlowProof, answered
from coterie.proofs.report import Finding, Join
from coterie.proofs.spans import Places
from coterie.proofs.state import Started, Step, bits
from coterie.proofs.witness import Play
from coterie.team.topology.model import ArrowGroup

_THEN = {"end": "the path ends", "fail": "the run fails", "human": "a human decides"}


class FlowFacts:
    """The facts that follow from the steps of a flow, collected once for all findings.

    Attributes:
        ran: The nodes that can run.
        fired: The groups that can fire.
    """

    def __init__(self, proof: FlowProof, places: Places) -> None:
        self.proof, self.places, self.shape = proof, places, proof.shape
        self.steps = list(proof.space.all_steps())
        self.starts = [*proof.space.begins, *(turn for step in self.steps for turn in step.started)]
        self.ran = {turn.node for turn in self.starts if turn.place == 0}
        self.fired = {i for step in self.steps for i in step.fired}
        self.held = [0] * len(self.shape.names)
        self.known = [0] * len(self.shape.names)
        for step in self.steps:
            if step.how in ("answer", "failure"):
                self.held[step.node] |= step.held
                self.known[step.node] |= ~step.unknown

    @cached_property
    def shown(self) -> dict[Any, Callable[[], Play]]:
        """The runs that show the effects of single steps."""
        return self.proof.showing(self._shows)

    def _shows(self, step: Step) -> Iterator[Any]:
        if step.exhausted and step.how == "answer":
            yield "exhausted", step.node, step.exhausted, step.fired
        for n in bits(step.unknown):
            yield "unknown", step.node, n
        if step.ended == "no_match":
            yield "ended", step.node
        for turn in step.started:
            if (sources := self.partial(turn)) is not None:
                yield "partial", turn.node, sources

    def branches(self, node: int) -> list[int]:
        """The sources of the forward arrows into *node*."""
        shape, name = self.shape, self.shape.names[node]
        into = [i for i, source in shape.graph.arrows_into(name) if source != name and not shape.graph.is_loop(i, name)]
        return list(dict.fromkeys(shape.rank[shape.groups[i].source] for i in into))

    def partial(self, turn: Started) -> tuple[int, ...] | None:
        """The branches that join in *turn* if some are missing; else None."""
        branches = self.branches(turn.node) if turn.place == 0 and turn.arrows else []
        marked = set(self.shape.sources(turn.arrows)) if branches else set()
        came = [source for source in branches if source in marked]
        return tuple(came) if 0 < len(came) < len(branches) else None

    def lasts(self) -> list[int]:
        """The nodes that can run and have no forward arrow that can fire."""
        is_loop = self.shape.graph.is_loop_group
        return [n for n in sorted(self.ran) if all(is_loop(i) or i not in self.fired for i in self.shape.out[n])]

    def name(self, node: int) -> str:
        """The name of *node*."""
        return self.shape.names[node]

    def group(self, i: int) -> str:
        """A group in words, with its condition."""
        group = self.shape.groups[i]
        return f"{group} [when {group.when}]" if group.when else str(group)


def findings(facts: FlowFacts) -> Iterator[Finding]:
    """All findings."""
    for find in _KINDS:
        yield from find(facts)


def joins(facts: FlowFacts) -> Iterator[Join]:
    """Every join, and whether it always waits for all its branches."""
    partial = {turn.node for turn in facts.starts if facts.partial(turn) is not None}
    for node in range(len(facts.shape.names)):
        branches = facts.branches(node)
        if len(branches) > 1 and node in facts.ran:
            names = tuple(facts.name(source) for source in branches)
            yield Join(node=facts.name(node), branches=names, whole=node not in partial)


def endless(proof: FlowProof, places: Places) -> Iterator[Finding]:
    """An error if a run, or a child run of it, can go on forever."""
    for each in proof.all():
        if each.space.endless is None:
            continue
        name = each.path + each.shape.names[each.space.endless[-1].node]
        message = f"a run can go on forever: after a turn of {name!r} the state can be the same as before"
        hint = "bound the way back with a max that counts per run"
        script = play.script() if each is proof and (play := each.endless()) is not None else None
        yield Finding("endless", Severity.ERROR, message, places.node(name.partition("/")[0]), hint, script)


def _more_rounds(facts: FlowFacts) -> Iterator[Finding]:
    asked = [each.path + each.shape.names[step.node] for each in facts.proof.all() for step, _ in each.space.again]
    for name in dict.fromkeys(asked):
        message = f"a human may grant {name!r} further rounds without end; the numbers do not include any"
        yield _warning("rounds-without-end", message, facts.places.node(name.partition("/")[0]))


def _never_runs(facts: FlowFacts) -> Iterator[Finding]:
    for node, name in enumerate(facts.shape.names):
        if node not in facts.ran:
            message = f"{name!r} can never run: no arrow into it ever fires"
            yield _warning("never-runs", message, facts.places.node(name))


def _never_fires(facts: FlowFacts) -> Iterator[Finding]:
    for i, group in enumerate(facts.shape.groups):
        source, place = facts.shape.rank[group.source], facts.shape.condition_of[i]
        if source not in facts.ran:
            continue  # reported by _never_runs
        if place >= 0 and not facts.held[source] >> place & 1:
            but = "; it fires only when nothing but a spent loop is left" if i in facts.fired else ""
            message = f"the condition of {facts.group(i)} can never hold: {_why(facts, source, place)}{but}"
            yield _warning("never-holds", message, facts.places.group(i, "when"))
        elif i not in facts.fired:
            yield _warning("never-fires", f"{facts.group(i)} can never fire", facts.places.group(i))


def _why(facts: FlowFacts, source: int, place: int) -> str:
    condition = facts.shape.conditions[place]
    agent = facts.shape.rank.get(condition.agent)
    if agent is None:
        return f"{condition.agent!r} is not in the flow"
    if agent not in facts.ran:
        return f"{condition.agent!r} never runs"
    answers = (ways for (node, _), ways in facts.proof.answers.items() if node == agent)
    if not any(answer.holds >> place & 1 for ways in answers for answer in ways):
        return f"{condition.agent}.{condition.field} takes no such value"
    if not facts.known[source] >> place & 1:
        return f"{condition.agent!r} has never answered by then"
    return f"{condition.agent!r} never answers so before {facts.name(source)!r} ends"


def _unset(facts: FlowFacts) -> Iterator[Finding]:
    for what, play in facts.shown.items():
        if what[0] == "unknown":
            _, node, place = what
            condition = facts.shape.conditions[place]
            i = next(i for i in facts.shape.out[node] if facts.shape.condition_of[i] == place)
            if facts.held[node] >> place & 1:  # else _never_fires reports it
                message = (
                    f"{facts.group(i)} can be judged before {condition.agent!r} has answered: then it does not fire"
                )
                yield _warning("read-too-early", message, facts.places.group(i, "when"), play)


def _ends_without(facts: FlowFacts) -> Iterator[Finding]:
    lasts = set(facts.lasts())
    if not lasts or any(turn.node in lasts for turn in facts.proof.space.begins):
        return

    def admit(step: Step) -> bool:
        return answered(step) and not any(turn.node in lasts for turn in step.started)

    turns, play = facts.proof.shortest(lambda step: step.over == "completed", admit)
    if turns < float("inf"):
        names = " or ".join(repr(facts.name(node)) for node in sorted(lasts))
        message = f"the run can complete without {names} having run"
        yield _warning("ends-early", message, facts.places.node(facts.name(min(lasts))), play)


def _path_ends(facts: FlowFacts) -> Iterator[Finding]:
    lasts = set(facts.lasts())
    for what, play in facts.shown.items():
        if what[0] == "ended" and what[1] not in lasts:
            name = facts.name(what[1])
            message = f"a path can end at {name!r}: none of its arrows fires"
            yield _note("path-ends", message, facts.places.node(name), play)


def _exhausted(facts: FlowFacts) -> Iterator[Finding]:
    for what, play in facts.shown.items():
        if what[0] == "exhausted":
            _, _, spent, fired = what
            first: ArrowGroup = facts.shape.groups[spent[0]]
            then = _THEN.get(first.on_max, "the path ends: there is no way forward")
            if fired:
                then = f"{facts.group(fired[0])} fires whatever its condition says"
            names = " and ".join(facts.group(i) for i in spent)
            message = f"{names} can be spent: once more its condition holds, and {then}"
            yield _note("spent", message, facts.places.group(spent[0]), play)


def _partial(facts: FlowFacts) -> Iterator[Finding]:
    reported = set[int]()
    for what, play in sorted(facts.shown.items(), key=lambda item: len(item[0])):
        if what[0] == "partial" and what[1] not in reported:
            _, node, came = what
            reported.add(node)
            missing = [facts.name(source) for source in facts.branches(node) if source not in came]
            with_ = ", ".join(facts.name(source) for source in came)
            message = f"{facts.name(node)!r} can start with {with_} alone, without {', '.join(missing)}"
            yield _note("join-in-part", message, facts.places.node(facts.name(node)), play)


def _unread(facts: FlowFacts) -> Iterator[Finding]:
    for node, name in enumerate(facts.shape.names):
        read = {facts.shape.conditions[n].field for n in bits(facts.shape.own[node])}
        unread = [w.name for w in facts.shape.agent(name).outputs if w.declared and w.name not in read]
        if unread:
            message = f"no condition reads {', '.join(f'{name}.{field}' for field in unread)}"
            yield _note("unread-output", message, facts.places.output(name, unread[0]))


def _warning(code: str, message: str, span: Span | None, play: Callable[[], Play] | None = None) -> Finding:
    script = play().script() if play is not None else None
    return Finding(code, Severity.WARNING, message, span, script=script)


def _note(code: str, message: str, span: Span | None, play: Callable[[], Play] | None = None) -> Finding:
    return replace(_warning(code, message, span, play), severity=Severity.NOTE)


_KINDS: tuple[Callable[[FlowFacts], Iterator[Finding]], ...] = (
    _more_rounds,
    _never_runs,
    _never_fires,
    _unset,
    _ends_without,
    _path_ends,
    _exhausted,
    _partial,
    _unread,
)
