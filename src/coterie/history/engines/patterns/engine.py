"""Run the pattern of a plan as an engine, once its input is valid."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import msgspec
from msgspec.structs import replace

from coterie.history.engines.commands import Ask, Command, Emit, Finish, Reply
from coterie.history.engines.generator import GeneratorEngine, PendingQuestion
from coterie.history.engines.patterns.registry import Calls, PatternDefinition, Team, definition
from coterie.history.engines.patterns.result import PatternResult
from coterie.history.engines.patterns.shown import request
from coterie.history.engines.questions import Conversation, PatternFailed, as_read_back
from coterie.history.engines.replies import judge_reply
from coterie.history.engines.versions import PATTERN, rules_of
from coterie.history.journal.records import AttemptFailed, GivenValues, Record, RunStarted
from coterie.team.planning.pattern import PatternPlan
from coterie.team.planning.plan import AgentPlan, Plan, Wanted
from coterie.team.topology.patterns.faults import Fault
from coterie.team.topology.patterns.inputs import ORIGINAL, task_of
from coterie.team.topology.patterns.kinds import KINDS, PatternSpec
from coterie.team.topology.typed.functions import PROMPT


class PatternEngine(GeneratorEngine):
    """The engine of a pattern.

    Raises:
        UsageError: If there is no pattern of the plan's type.
    """

    name: ClassVar[str] = "pattern"
    version: ClassVar[int] = PATTERN

    def __init__(self, plan: PatternPlan, agents: Mapping[str, AgentPlan]) -> None:
        budgets = {slot.name: slot for slot in plan.slots if slot.calls is not None or slot.cost is not None}
        super().__init__(self._play, agents, budgets)
        self.plan, self.definition = plan, definition(plan.type)
        self.team = team_of(plan, agents)
        self._above: GivenValues | None = None
        """The question of its node and the values before it, if functions may read them."""
        self._request = ""
        """The original request, if the pattern works on a result of it and its task does not contain the request."""

    def judge(self, said: Reply | Emit) -> Record:
        """Accept a reply that holds the outputs its agent declares; other missing JSON is the pattern's decision."""
        if not isinstance(said, Reply):
            return super().judge(said)
        wanted, declared = self._wanted.get(said.turn, ()), self._declared(said.turn)
        if wanted and declared:
            names = {one.name for one in wanted}
            wanted = (*wanted, *(one for one in declared if one.name not in names))
        return judge_reply(said, wanted or declared)

    def step(self, record: Record) -> Sequence[Command]:
        """Step like any generator, and count the failed attempts of each slot for the pattern."""
        if isinstance(record, RunStarted):
            self.team.rules = rules_of(self.name, record.engine_version)
            self._above = None if self.team.rules.takes_prompt else record.values
            given = self._asked_of_it(record.input)
            self._request = _request_behind(self.definition, given, record.input)
        if isinstance(record, AttemptFailed) and (slot := self._slots.get(record.turn)) is not None:
            self.team.failed[slot] = self.team.failed.get(slot, 0) + 1
        return super().step(record)

    def completed(self, value: Any) -> Finish:
        """The result for the caller of the pattern: its text, and its keys as outputs."""
        if isinstance(value, PatternResult):
            value = msgspec.structs.replace(value, usage=self.spent)
            text, output = value.text, value.to_dict()
        elif isinstance(value, dict):
            output = as_read_back(value)
            text = str(output.get("text") or "")
        elif isinstance(value, str | None):
            output = as_read_back({"text": value or ""})
            text = output["text"]
        else:
            raise TypeError(f"a pattern must return a text, a dict or a PatternResult, not {type(value).__name__}")
        if not text.strip():
            return Finish(outcome="failed", reason=f"{self.definition.kind.title} gave an empty answer")
        return Finish(outcome="completed", result={"text": text, "outputs": {self.definition.kind.name: output}})

    def _ask(self, place: PendingQuestion, agent: str) -> Ask:
        """Ask with the agent's own prompt, its role and the original request as system message."""
        ask, plan = super()._ask(place, agent), self._agents.get(agent)
        own = (plan.prompt, plan.role) if plan is not None else ()
        standing = "\n\n".join(filter(None, (*own, self._request)))
        return msgspec.structs.replace(ask, history=(("system", standing), *ask.history)) if standing else ask

    def _declared(self, turn: str) -> tuple[Wanted, ...]:
        """The outputs that the agent of *turn* declares."""
        place = self._at.get(turn)
        agent = self._agents.get(place.asked[-1]) if place is not None else None
        return agent.outputs if agent is not None else ()

    def _asked_of_it(self, given: dict[str, Any]) -> dict[str, Any]:
        """The input *given*, with its node's own question, if that is known, in place of the node's whole prompt."""
        return {**given, PROMPT: self._above.prompt} if self._above is not None and given.get(PROMPT) else given

    def _play(self, given: dict[str, Any]) -> Conversation:
        given = self._asked_of_it(given)
        if faults := _own_faults(self.definition.kind, self.team, given):
            raise PatternFailed("; ".join(fault.message for fault in faults))
        return self.definition.play(self.team, given)


def _request_behind(pattern: PatternDefinition, given: Mapping[str, Any], recorded: Mapping[str, Any]) -> str:
    """The original request, in words; empty if the task of *pattern* in *given* contains it.

    It is in *given*, unless the *recorded* prompt has more than its node's question: the results before it, for models.
    """
    kind, behind = pattern.kind, str(recorded.get(PROMPT) or "")
    if pattern.program is None and behind.replace("# Task\n\n", "", 1) != given.get(PROMPT) != recorded.get(PROMPT):
        return f"Your task is part of this request:\n\n{behind}"
    if ORIGINAL not in given or not kind.keys:
        return ""  # without a key for a task, all of the input is passed on
    asked = request(given[ORIGINAL])
    keys = ("question",) if kind.config.checks_answers and "answer" in given else kind.keys
    return "" if asked in task_of(keys, given) else f"Your task is part of this request:\n\n{asked}"


def team_of(plan: PatternPlan, agents: Mapping[str, AgentPlan]) -> Team:
    """Build the team that the pattern's generator gets from *plan*."""
    config = msgspec.convert(plan.config, definition(plan.type).kind.config)
    keys, subs = dict[str, tuple[str, ...]](), dict[str, Team]()
    for slot in plan.slots:
        agent = agents.get(slot.name)
        if agent is not None and agent.child is not None and isinstance(agent.child.coordination, PatternPlan):
            child = agent.child.coordination
            subs[slot.name] = team_of(child, agent.child.agents)
            kind = KINDS[child.type] if child.type in KINDS else definition(child.type).kind
            keys[slot.name] = kind.keys or ("prompt",)
    return Team(
        [slot.name for slot in plan.slots],
        config,
        capabilities={slot.name: slot.capabilities for slot in plan.slots},
        keys=keys,
        subs=subs,
    )


def input_faults(plan: Plan, given: Mapping[str, Any]) -> Iterator[Fault]:
    """Find what *given* lacks for the pattern of *plan*, and for the teams of a compound that get the same input.

    Nothing is checked for plans that are not coordinated by a pattern.
    """
    if not isinstance(plan.coordination, PatternPlan):
        return
    team = team_of(plan.coordination, plan.agents)
    found = _own_faults(definition(plan.coordination.type).kind, team, given)
    yield from found
    for name in () if found else team.config.same_input(team.slots, given):
        child = plan.agents[name].child
        for fault in input_faults(child, given) if child is not None else ():
            yield replace(fault, message=f"{name}: {fault.message}")


def _own_faults(kind: PatternSpec, team: Team, given: Mapping[str, Any]) -> list[Fault]:
    capabilities = {slot: team.capabilities(slot) for slot in team.slots}
    return list(team.config.input_faults(kind.title, kind.keys, capabilities, given))


def calls_of(plan: PatternPlan, agents: Mapping[str, AgentPlan], **numbers: Any) -> Calls | None:
    """The turns of each slot of *plan*, given *numbers* of its run; None if the pattern does not define them."""
    count = definition(plan.type).calls
    return count(team_of(plan, agents), **numbers) if count is not None else None
