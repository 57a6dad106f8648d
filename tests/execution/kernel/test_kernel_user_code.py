"""Whatever code of users raises in a turn or in a pattern is in the journal, and the owner of the run goes on."""

import asyncio
import signal
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from bundles import bundle
from played import played
from stage import Cast, Stage, flow

from coterie.agents.actors.message import Message
from coterie.agents.actors.process import LATER, AgentProcess
from coterie.agents.actors.turns import ActorBackend
from coterie.agents.backends.base import Answer, OnEvent, Request, Session
from coterie.base.clock import VirtualClock
from coterie.execution.kernel.owner import RunPorts
from coterie.execution.kernel.shell import Shell
from coterie.execution.kernel.turns import Turns, ask
from coterie.execution.kinds import kind_of
from coterie.history.engines.generator import GeneratorEngine
from coterie.history.engines.patterns.registry import Team, pattern
from coterie.history.engines.questions import Conversation, Question
from coterie.history.journal.memory import MemoryStore
from coterie.history.journal.records import AttemptFailed, AttemptInterrupted, OperatorSaid, RunFinished, TurnFailed
from coterie.history.views.timeline import sentence
from coterie.team.planning.pattern import PatternPlan, SlotPlan
from coterie.team.planning.plan import AgentPlan, Limits, Plan

RAISED: list[type[BaseException]] = [SystemExit, asyncio.CancelledError, KeyboardInterrupt, GeneratorExit, ValueError]


@pytest.fixture(autouse=True)
def handled() -> Iterator[None]:
    """A signal handler takes Ctrl-C, as on the command line."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGINT, before)


@bundle("where", ["start", "result"])
@bundle("raised", RAISED, ids=lambda raised: raised.__name__)
def test_what_a_backend_raises_fails_its_attempt(raised: type[BaseException], where: str) -> None:
    """It is a crash of that attempt, and the flow goes on as `on-fail` says."""

    class Raises(Cast):
        async def start(self, request: Request, on_event: OnEvent) -> Any:
            session = await super().start(request, on_event)
            if request.agent.name != "bad":
                return session
            if where == "start":
                raise raised("no")
            return Broken(raised)

    bad = AgentPlan(name="bad", on_fail="continue")
    stage = Stage(flow("go -> bad -> last", bad=bad), Raises({"last": [Answer(text="done")]}))
    ended = stage.start()

    assert (ended.status, ended.reason) == ("completed", "")
    [failed] = stage.records(AttemptFailed)
    assert (failed.turn, failed.kind) == ("bad#1", "crashed")
    assert raised.__name__ in failed.reason or raised is asyncio.CancelledError
    assert len(stage.records(TurnFailed)) == 1


class Broken(Session):
    """A session whose result raises."""

    def __init__(self, raised: type[BaseException]) -> None:
        self._raised = raised

    async def result(self) -> Any:
        raise self._raised("no")

    async def interrupt(self) -> None:
        return

    async def steer(self, text: str) -> bool:
        return False


@bundle("raised", RAISED, ids=lambda raised: raised.__name__)
def test_what_a_pattern_raises_is_the_end_of_its_run(raised: type[BaseException]) -> None:
    """With a record; a resume does not raise it again."""

    def conversation(given: dict[str, Any]) -> Conversation:
        yield Question("a", "first")
        raise raised("no")

    store, plan = MemoryStore(), Plan(name="p", agents={"a": AgentPlan(name="a")})
    make = played(lambda plan: (GeneratorEngine(conversation, plan.agents), plan.agents))
    clock = VirtualClock()
    shell = Shell(RunPorts(store=store, turns=Cast({}), make_kind=make, clock=clock))
    ended = clock.run(shell.start("r", plan, {"prompt": "go"}))
    *_, last = store.read("r")

    assert ended.status == "failed"
    assert isinstance(last, RunFinished)
    assert last.reason.startswith(f"the pattern raised {raised.__name__}")


def test_a_pattern_is_closed_when_its_owner_lets_go_of_the_run() -> None:
    """Its `finally` runs then, once, and not whenever its memory is freed; what it asks there is not asked."""
    closed: list[str] = []

    def play(team: Team, given: Mapping[str, Any]) -> Conversation:
        try:
            yield Question("a", "first")
            yield Question("a", "second")
        finally:
            closed.append("closed")
            yield Question("a", "too late")

    pattern("test-closed")(play)
    coordination = PatternPlan(type="test-closed", slots=(SlotPlan(name="a"),))
    stage = Stage(Plan(name="p", agents={"a": AgentPlan(name="a")}, coordination=coordination))
    ended = stage.start(Limits(max_turns=1))

    assert (ended.status, ended.reason) == ("stopped", "max_turns")
    assert stage.shell.runs["r"].core.engine is not None
    assert closed == ["closed"]
    assert [one.prompt for one in stage.cast.asked] == ["first"]


@bundle("code", [":clings_first", ".Clings"])
def test_code_that_ignores_an_interrupt_is_abandoned_with_a_record(code: str) -> None:
    """The turn is retried at once, and the timeline says what was left behind."""

    def interrupt(shell: Shell, run: "asyncio.Future[Any]") -> None:
        said = OperatorSaid(message="m", what="interrupt", turn="a#1")
        shell.post(lambda: shell.approvals.interrupt(shell.runs["r"], said))

    cut = cut_off(code, interrupt)
    assert (cut.reason, cut.abandoned) == ("interrupted", True)
    assert sentence(cut).endswith("interrupted; its code ignored that and was abandoned")
    assert len(CALLS) == 2


@bundle(
    ("code", "is_left"),
    [
        (":clings_first", True),
        (":ends_in_time", False),
        (".Clings", True),
        (".EndsInTime", False),
        (".AnswersLater", False),
    ],
)
@bundle(
    "end",
    [
        lambda shell, run: run.cancel(),
        lambda shell, run: shell.stop("enough"),
        lambda shell, run: [run.cancel(), *(run.get_loop().call_later(n / 10, run.cancel) for n in (1, 2))],
        lambda shell, run: [shell.stop("enough"), run.get_loop().call_later(0.1, run.cancel)],
    ],
    ids=["cancel", "stop", "cancel again", "stop and cancel"],
)
def test_the_end_of_a_run_says_whether_code_was_abandoned(
    end: Callable[[Shell, "asyncio.Future[Any]"], object], code: str, is_left: bool
) -> None:
    """Whoever reads the journal of a run that was cancelled or stopped learns what may still run."""
    cut = cut_off(code, end)
    assert (cut.reason, cut.abandoned, len(CALLS)) == ("interrupted", is_left, 1)


def test_an_interrupt_ends_a_turn_that_an_actor_would_answer_later() -> None:
    """It is retried at once."""

    def interrupt(shell: Shell, run: "asyncio.Future[Any]") -> None:
        said = OperatorSaid(message="m", what="interrupt", turn="a#1")
        shell.post(lambda: shell.approvals.interrupt(shell.runs["r"], said))

    cut = cut_off(".AnswersLater", interrupt)
    assert (cut.reason, cut.abandoned, len(CALLS)) == ("interrupted", False, 2)


def cut_off(code: str, how: Callable[[Shell, "asyncio.Future[Any]"], object]) -> AttemptInterrupted:
    """The record of an attempt of *code*, a function or a class, that is cut off while it works."""
    CALLS.clear()
    store, clock = MemoryStore(), VirtualClock()
    plan = flow("a -> last", a=AgentPlan(name="a", backend="actor", options={"type": f"{__name__}{code}"}))
    turns = Functions(Cast({"last": [Answer(text="done")]}))
    shell = Shell(RunPorts(store=store, turns=turns, make_kind=kind_of, clock=clock))

    async def main() -> None:
        run = asyncio.ensure_future(shell.start("r", plan, {"prompt": "go"}))
        BEGAN.append(began := asyncio.Event())
        await began.wait()
        how(shell, run)
        await asyncio.wait([run])

    clock.run(main())
    [cut] = [record for record in store.read("r") if isinstance(record, AttemptInterrupted)]
    return cut


CALLS: list[int] = []
BEGAN: list[asyncio.Event] = []


async def clings_first() -> str:
    CALLS.append(1)
    BEGAN[-1].set()
    while len(CALLS) == 1:
        try:
            await asyncio.sleep(60)
        except BaseException:
            continue
    return "second"


async def ends_in_time() -> None:
    CALLS.append(1)
    BEGAN[-1].set()
    await asyncio.sleep(60)


class Clings(AgentProcess):
    async def handle(self, message: Message) -> Message | None:
        return self.reply(await clings_first())


class EndsInTime(AgentProcess):
    async def handle(self, message: Message) -> Message | None:
        await ends_in_time()
        return None


class AnswersLater(AgentProcess):
    async def handle(self, message: Message) -> Message | None:
        CALLS.append(1)
        BEGAN[-1].set()
        return LATER if len(CALLS) == 1 else self.reply("second")


class Functions(Turns):
    """Functions are called, and *cast* plays all other agents."""

    def __init__(self, cast: Cast) -> None:
        self._cast, self._functions = cast, ActorBackend()

    async def start(self, request: Request, on_event: OnEvent) -> Any:
        where = self._functions if request.agent.backend == "actor" else self._cast
        return await where.start(request, on_event)

    async def close(self) -> None:
        await self._functions.close()


def test_a_coroutine_that_is_dropped_is_no_failure_of_its_attempt() -> None:
    """It ends as its loop does, and nothing is written about it any more."""

    async def start() -> Session:
        await asyncio.sleep(0)
        raise AssertionError("it goes on")

    dropped = ask(start(), lambda session: None)
    dropped.send(None)
    with pytest.raises(GeneratorExit):
        dropped.throw(GeneratorExit)
