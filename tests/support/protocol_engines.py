"""Small teams that use the whole protocol: a debate, a loop with emits and reloads, and one inside the other."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import msgspec

from coterie.history.engines.commands import Ask, Command, Emit, Engine, Finish, Note, Reload, Reply, Stop
from coterie.history.engines.generator import GeneratorEngine
from coterie.history.engines.questions import AgentFailed, Conversation, Question, Together
from coterie.history.engines.replies import judge_reply
from coterie.history.journal.records import (
    ConfigChanged,
    ConfigRejected,
    EventEmitted,
    EventInvalid,
    IterationStarted,
    Record,
    RunOwned,
    RunStarted,
    TurnFailed,
    TurnFinished,
)
from coterie.team.planning.plan import AgentPlan, Plan


def debate(given: dict[str, Any]) -> Conversation:
    """Two rounds of pro and con, then three judges of whom two suffice, then a clerk who writes it up."""
    said: list[str] = []
    for _ in range(2):
        try:
            pro = (yield Question("pro", f"For: {given['prompt']}")).text
        except AgentFailed:
            pro = "(silent)"
        con = yield Question("con", f"Against: {pro}")
        said += [pro, con.text]
    votes = yield Together(
        *(Question("judge", "\n".join(said)) for _ in range(3)), until=lambda got: sum(g is not None for g in got) >= 2
    )
    heard = [vote.text for vote in votes if isinstance(vote, TurnFinished)]
    record = yield Question("clerk", "\n".join(said + heard))
    return {"said": said, "votes": heard, "text": record.text}


class LoopPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Which event leads to which role, and when it is over."""

    handoff: dict[str, str]
    emits: dict[str, list[str]]
    completion: str
    most: int


LOOP = LoopPlan(
    handoff={"loop.start": "planner", "ready": "builder", "broken": "planner"},
    emits={"planner": ["ready"], "builder": ["broken", "done"]},
    completion="done",
    most=40,
)


class Loop(Engine):
    """An event-routed loop: the last accepted event says who is next; the plan is read again before every iteration."""

    name: ClassVar[str] = "loop"
    version: ClassVar[int] = 1

    def __init__(self, plan: LoopPlan) -> None:
        self.plan, self.event, self.n, self.role = plan, "loop.start", 0, ""

    def judge(self, said: Reply | Emit) -> Record:
        if isinstance(said, Reply):
            return judge_reply(said, ())
        allowed = tuple(self.plan.emits.get(self.role, ()))
        if said.event in allowed:
            return EventEmitted(turn=said.turn, event=said.event, attempt=said.attempt, message=said.message)
        return EventInvalid(turn=said.turn, event=said.event, allowed=allowed, message=said.message)

    def step(self, record: Record) -> Sequence[Command]:
        match record:
            case EventEmitted():
                self.event = record.event
            case ConfigChanged():
                self.plan = msgspec.json.decode(record.plan, type=LoopPlan)
                return self._iterate()
            case ConfigRejected():
                return self._iterate()
            case RunOwned(epoch=epoch) if epoch > 1 and self.n >= self.plan.most:
                return [Reload()]
            case TurnFailed():
                return [Finish(outcome="failed", reason=record.reason)]
            case RunStarted() | TurnFinished():
                over = self.event == self.plan.completion
                return [Finish(outcome="completed", result=self.n)] if over else [Reload()]
        return []

    def _iterate(self) -> Sequence[Command]:
        if self.n >= self.plan.most:
            return [Stop(reason="max_iterations")]
        self.n += 1
        self.role = self.plan.handoff.get(self.event, "planner")
        began = Note(record=IterationStarted(n=self.n, role=self.role))
        return [began, Ask(turn=f"iteration#{self.n}", agent=self.role, prompt=f"after {self.event}")]


def agents(*names: str, **more: Any) -> dict[str, AgentPlan]:
    """Agents under default rules."""
    return {name: AgentPlan(name=name, **more) for name in names}


DEBATE = Plan(name="debate", agents=agents("pro", "con", "judge", "clerk", retry=1))
LOOPING = Plan(name="loop", agents=agents("planner", "builder", retry=2))


def outer(given: dict[str, Any]) -> Conversation:
    """A debate and two loops side by side, each a child run; the debate and one loop suffice. Then a writer."""
    runs = [Question(name, given["prompt"]) for name in ("debate", "loop", "loop")]
    got = yield Together(*runs, until=lambda got: got[0] is not None and (got[1] or got[2]) is not None)
    texts = [one.text if isinstance(one, TurnFinished) else one.kind if one else "called off" for one in got]
    return (yield Question("writer", " and ".join(texts))).text


NESTED = Plan(
    name="outer",
    agents={
        **agents("writer"),
        "debate": AgentPlan(name="debate", kind="topology", retry=1, child=DEBATE),
        "loop": AgentPlan(name="loop", kind="topology", retry=1, child=LOOPING),
    },
)


def engines(plan: Plan) -> tuple[Engine, Mapping[str, AgentPlan]]:
    """The engine of one of the plans above."""
    made: dict[str, Engine] = {
        "debate": GeneratorEngine(debate),
        "outer": GeneratorEngine(outer),
        "loop": Loop(LOOP),
    }
    return made[plan.name], plan.agents


def reload(run: str, plan: Plan) -> ConfigChanged:
    """The loop's plan, read again."""
    return ConfigChanged(plan=msgspec.json.encode(LOOP).decode())
