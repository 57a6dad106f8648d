"""Plays a loop without a shell: the real engine and core, replies by hand, time by hand."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from coterie.execution.kernel.commands import Effect, ReadPlan, Start, Wait
from coterie.execution.kernel.core import Core, CoreDuties
from coterie.execution.kernel.takeover_records import take_over
from coterie.execution.kinds import kind_of
from coterie.history.engines.commands import Emit, Reply
from coterie.history.engines.loop import LoopEngine
from coterie.history.journal import records as r
from coterie.history.journal.jsonl import JsonlStore
from coterie.team.planning.loop import LoopPlan, ParallelPlan, ReviewPlan, RolePlan
from coterie.team.planning.plan import AgentPlan, Limits, Plan, to_json

HANDOFF = (
    ("loop.start", ("planner",)),
    ("queue.advance", ("planner",)),
    ("build.blocked", ("planner",)),
    ("tasks.ready", ("builder",)),
    ("review.ready", ("critic",)),
    ("review.rejected", ("builder",)),
    ("review.passed", ("finalizer",)),
)
ROLES = (
    RolePlan(id="planner", emits=("tasks.ready", "task.complete"), prompt="You are the planner.\nPlan small steps."),
    RolePlan(id="builder", emits=("review.ready", "build.blocked"), prompt="\nYou are the builder."),
    RolePlan(id="critic", emits=("review.passed", "review.rejected"), prompt="You are the critic."),
    RolePlan(id="finalizer", emits=("queue.advance", "task.complete")),
)
ROUND = ("tasks.ready", "review.ready", "review.passed", "task.complete")
"""The events of the shortest way through, one a turn."""


def loop_plan(**fields: Any) -> LoopPlan:
    """Four roles that build, review and finish; *fields* say otherwise."""
    plan: dict[str, Any] = {"roles": ROLES, "handoff": HANDOFF, "max_iterations": 20}
    return LoopPlan(**plan | fields)


def plan_of(loop: LoopPlan, **agents: Any) -> Plan:
    """The plan of a run of *loop*, each agent under the rules that *agents* gives to all."""
    names = [*(role.id for role in loop.roles), "@loop", "@review"]
    return Plan(name="autocode", agents={name: AgentPlan(name=name, **agents) for name in names}, coordination=loop)


def review(every: int = 1) -> ReviewPlan:
    return ReviewPlan(every=every, prompt="Look at the whole.")


def waves(most: int = 3) -> ParallelPlan:
    return ParallelPlan(most=most)


class Play:
    """One run, played by hand.

    Attributes:
        log: Its journal.
        running: The attempts that run, `turn.attempt`.
        config: What answers when the plan is read again.
        waits: The retries that wait for their time.
    """

    def __init__(self, loop: LoopPlan, *, given: str = "Do it", limits: Limits | None = None, **agents: Any) -> None:
        self.plan = plan_of(loop, **agents)
        self.now = 1000.0
        self.log: list[r.Record] = []
        self.running: list[str] = []
        self.config: r.ConfigAnswer = r.ConfigKept()
        self.waits: list[Wait] = []
        self.core = self._core()
        started = r.RunStarted(run="r", engine="loop", engine_version=LoopEngine.version, input={"prompt": given})
        self.core.begin(self.now, started, limits or Limits(max_parallel=None))
        self._pump()

    @property
    def engine(self) -> LoopEngine:
        assert isinstance(self.core.engine, LoopEngine)
        return self.core.engine

    @property
    def turn(self) -> str:
        """The one turn that runs."""
        [one] = self.running
        return one.rpartition(".")[0]

    def emit(self, event: str, payload: str = "", turn: str = "", open_tasks: tuple[str, ...] = ()) -> r.Record | None:
        """Have a turn emit *event*; the verdict."""
        name = turn or self.turn
        attempt = self.core.turns[name].attempt
        emit = Emit(turn=name, attempt=attempt, event=event, payload=payload, open_tasks=open_tasks)
        return self._said(self.core.accept(self.now, emit))

    def answer(self, text: str = "", turn: str = "", **more: Any) -> None:
        """End a turn with a reply."""
        name = turn or self.turn
        reply = Reply(turn=name, attempt=self.core.turns[name].attempt, text=text, **more)
        self._said(self.core.accept(self.now, reply))

    def fail(self, kind: str = "exit", turn: str = "", **more: Any) -> None:
        """End an attempt with a failure."""
        name = turn or self.turn
        attempt = self.core.turns[name].attempt
        if kind in ("interrupted", "lost"):
            cut = r.AttemptInterrupted(turn=name, attempt=attempt, reason=kind, **more)
            self._said(self.core.accept(self.now, cut))
        else:
            failed = r.AttemptFailed(turn=name, attempt=attempt, kind=kind, reason=f"{kind}!", **more)
            self._said(self.core.accept(self.now, failed))

    def end_owner(self, reason: str) -> None:
        """The owner ends during an attempt for *reason*, by a `crash` or with a record; another takes over."""
        if reason != "crash":
            self.core.cut_off(self.now, self.turn, reason)
            self.core.stop(self.now, reason)
        self.crash()

    def does(self, *events: str) -> None:
        """Play a turn for each of *events*: it emits that, and ends."""
        for event in events:
            self.emit(event)
            self.answer(f"did {event}")

    def guide(self, text: str) -> None:
        """An operator says something."""
        said = r.OperatorSaid(message=f"m{len(self.log)}", what="guide", text=text)
        self.core.write(self.now, said, source="operator")
        self._pump()

    def crash(self, limits: Limits | None = None, after: float = 0.0, upto: int | None = None) -> None:
        """The owner dies, with what it wrote behind record *upto* lost; another takes over."""
        self.now += after
        self.log[:] = self.log[:upto]
        self.core = self._core()
        self.core.fold(list(self.log))
        self.running, self.waits = [], []
        take_over(self.core, self.now, limits or Limits(max_parallel=None))
        self._pump()

    def stop(self) -> None:
        """Let go of the run for the reason that the engine has."""
        self.core.stop(self.now, self.core.wants_stop)

    def due(self) -> None:
        """The time of every retry that waits has come."""
        waits, self.waits = self.waits, []
        for wait in waits:
            self.core.due(wait.cause)
        self._pump()

    def read_again(self, loop: LoopPlan) -> None:
        """From the next iteration on the files say *loop*."""
        self.config = r.ConfigChanged(plan=to_json(plan_of(loop)).decode())

    def all(self, kind: type[r.Record]) -> list[Any]:
        """The records of one kind."""
        return [record for record in self.log if type(record) is kind]

    @property
    def end(self) -> tuple[str, str]:
        """How the run ended or why it wants to stop: `completed`, `failed` or `stop`, and the reason."""
        if self.core.finished is not None:
            return self.core.finished.outcome, self.core.finished.result["reason"]
        return "stop", self.core.wants_stop

    def _core(self) -> Core:
        return Core("r", kind_of(self.plan), CoreDuties(self.log.append))

    def _said(self, record: r.Record | None) -> r.Record | None:
        self._pump()
        return record

    def _pump(self) -> None:
        effects: Sequence[Effect] = self.core.pump(self.now, lambda core, ask, again: True)
        for effect in effects:
            match effect:
                case ReadPlan(cause=cause):
                    self.core.reloaded(self.now, cause, self.config)
                    self.config = r.ConfigKept()
                case Wait() if effect.again.due <= self.now:
                    self.core.due(effect.cause)
                case Wait():
                    self.waits.append(effect)
                case Start(ask=ask, attempt=attempt):
                    self.running.append(f"{ask.turn}.{attempt}")
        self.running = [
            name
            for name in self.running
            if self.core.accepts(name.rpartition(".")[0], int(name.rpartition(".")[2])) and self.core.is_live
        ]
        if effects:
            self._pump()


def killed(folder: Path, plan: LoopPlan, *said: r.Record) -> Path:
    """In the state directory *folder*, a run whose owner was killed in its first turn, after *said*; its folder."""
    store, whole = JsonlStore(folder), plan_of(plan)
    begun = [
        r.RunStarted(run="r", engine="loop", plan=to_json(whole).decode(), input={"prompt": "go"}),
        r.RunOwned(epoch=1),
        r.ConfigKept(cause=(1, 0)),
        r.IterationStarted(
            cause=(3, 0), n=1, role="planner", event="loop.start", roles=("planner",), allowed=ROLES[0].emits
        ),
        r.TurnStarted(cause=(3, 1), turn="iteration#1", agent="planner"),
    ]
    writer = store.claim("r")
    for n, record in enumerate((*begun, *said), 1):
        writer.append([msgspec.structs.replace(record, seq=n, at=1000.0 + n)])
    asyncio.run(writer.close())
    return store.folder("r")
