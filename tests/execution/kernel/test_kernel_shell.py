"""What a shell does with attempts, limits, humans and interruptions; in virtual time."""

import asyncio
import errno
import itertools
import random
from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from played import played
from protocol_engines import NESTED, engines
from stage import Cast, Part, Stage, Streamed, flow

from coterie.agents.backends.base import Answer, Failure, OnEvent, Request, Text
from coterie.agents.workspace.base import Workspace
from coterie.errors import Fenced, JournalFailed, ReplayMismatch, RunIsFinished
from coterie.execution.kernel.attempts import Attempts
from coterie.execution.kernel.driven_run import Attempt
from coterie.execution.kernel.owner import Observers, RunPorts
from coterie.execution.kernel.run_exit import RunExit
from coterie.execution.kernel.shell import Shell
from coterie.execution.kinds import kind_of
from coterie.execution.runs.messages import RunMessage
from coterie.execution.runs.messages.verdicts import Sender, take
from coterie.history.engines.generator import GeneratorEngine
from coterie.history.engines.questions import Conversation, Question, Together
from coterie.history.journal import commits, pace
from coterie.history.journal.jsonl import JsonlStore
from coterie.history.journal.lock import RunLock
from coterie.history.journal.memory import MemoryStore, MemoryWriter
from coterie.history.journal.records import (
    AttemptFailed,
    AttemptInterrupted,
    MessageRefused,
    OperatorSaid,
    Record,
    RunOwned,
    RunStopped,
    TreeMade,
    TurnCancelled,
    TurnFailed,
    TurnFinished,
    TurnStarted,
    Usage,
)
from coterie.team.planning.plan import AgentPlan, Limits, Plan, Wanted

VERDICT = Wanted(name="verdict", type="enum", values=("approve", "revise"))


def test_a_chain_runs_one_after_the_other() -> None:
    """A turn starts when what marks it has ended."""
    stage = Stage(flow("a -> b -> c"))
    ended = stage.start()

    assert ended.status == "completed"
    assert [(r.turn, r.at) for r in stage.records(TurnStarted)] == [("a#1", 0.0), ("b#1", 1.0), ("c#1", 2.0)]


def test_transient_failures_back_off_and_count_against_nothing() -> None:
    """Three transient failures wait 1, 2 and 4 seconds; the fourth attempt may succeed with `retry 0`."""
    transient = Failure(kind="rate_limited", reason="429")
    stage = Stage(flow("a -> b"), Cast({"a": [transient, transient, transient, Answer(text="ok")]}))

    assert stage.start().status == "completed"
    starts = [r.at for r in stage.records(TurnStarted) if r.turn == "a#1"]
    assert starts == [0.0, 2.0, 5.0, 10.0]


def test_a_clock_that_jumps_back_delays_nothing() -> None:
    """Waits count in the journal's time, which never goes back: an hour lost is not an hour waited."""
    plan = flow("a -> b", a=AgentPlan(name="a", retry=1))
    stage = Stage(plan, Cast({"a": [lambda _: back(), Answer(text="ok")]}))

    def back() -> Failure:
        stage.clock.advance(-3600)
        return Failure(kind="exit", reason="the clock was set")

    stage.clock.advance(7200)
    assert stage.start().status == "completed"
    assert stage.clock.now() < 7200
    assert [r.at for r in stage.records()] == sorted(r.at for r in stage.records())


def test_a_run_that_cannot_be_taken_over_is_given_up_again() -> None:
    """Whoever refuses it does not keep it owned."""
    stage = Stage(flow("a -> b"))
    stage.start()

    for _ in range(2):
        with pytest.raises(RunIsFinished):
            stage.resume()


def test_a_fourth_transient_failure_ends_the_turn() -> None:
    """At most three are tried again, whatever `retry` says."""
    plan = flow("a -> b", a=AgentPlan(name="a", retry=9))
    stage = Stage(plan, Cast({"a": [Failure(kind="transient", reason="503")]}))

    assert stage.start().status == "failed"
    assert len(stage.records(AttemptFailed)) == 4
    assert stage.records(TurnFailed)[0].reason == "503"


def test_retry_counts_further_attempts() -> None:
    """`retry 2` gives three attempts in all, 1 and 2 seconds after the failures before them."""
    stage = Stage(flow("a -> b", a=AgentPlan(name="a", retry=2)), Cast({"a": [Failure(kind="exit", reason="1")]}))

    assert stage.start().status == "failed"
    assert [(r.attempt, r.at) for r in stage.records(TurnStarted)] == [(1, 0.0), (2, 2.0), (3, 5.0)]


@pytest.mark.parametrize("kind", ["auth", "quota", "not_found"])
def test_what_trying_again_cannot_mend_is_not_tried_again(kind: str) -> None:
    """A missing command is missing the second time too."""
    stage = Stage(flow("a -> b", a=AgentPlan(name="a", retry=5)), Cast({"a": [Failure(kind=kind, reason="no")]}))

    assert stage.start().status == "failed"
    assert len(stage.records(TurnStarted)) == 1


def test_an_invalid_reply_is_asked_again_and_told_what_was_expected() -> None:
    """Even with `retry 0`; the second question says what was wrong with the first answer."""
    plan = flow("a -> b", a=AgentPlan(name="a", outputs=(VERDICT,)))
    cast = Cast({"a": [Answer(text='{"verdict": "maybe"}'), Answer(text="verdict: approve")]})
    stage = Stage(plan, cast)

    assert stage.start().status == "completed"
    assert stage.records(AttemptFailed)[0].kind == "invalid_output"
    assert "maybe" in cast.asked[1].prompt
    assert stage.records(TurnFinished)[0].outputs == {"verdict": "approve"}


def test_a_failure_cancels_what_runs() -> None:
    """`on-fail: halt` calls the other branch off; nothing follows the end."""
    stage = Stage(flow("a -> [b, c]"), Cast({"b": [Failure(kind="exit", reason="broken")]}, seconds=1.0))
    stage.cast._parts = {**stage.cast._parts, "c": [Answer(text="late")]}
    ended = stage.start()

    assert ended.status == "failed"
    assert "broken" in ended.reason
    assert stage.cast.running == 0
    assert [r.turn for r in stage.records(TurnCancelled)] == ["c#1"]


def test_max_parallel_bounds_what_runs_and_keeps_the_order() -> None:
    """Intents are written at dispatch, in the order decided."""
    stage = Stage(flow("a -> [b, c, d, e]"))
    assert stage.start(Limits(max_parallel=2)).status == "completed"

    assert stage.cast.most == 2
    assert [r.turn for r in stage.records(TurnStarted)] == ["a#1", "b#1", "c#1", "d#1", "e#1"]
    assert [r.at for r in stage.records(TurnStarted)] == [0.0, 1.0, 1.0, 2.0, 2.0]


def test_a_run_takes_as_long_as_it_was_owned_whatever_its_turns_add_up_to() -> None:
    """Two that work side by side for a second each take one second of it; time without an owner does not count."""
    stage = Stage(flow("a -> [b, c] -> d"))
    assert stage.start(Limits(max_turns=3)).seconds == 2.0
    stage.clock.run(asyncio.sleep(50.0))
    ended = stage.resume(Limits(max_turns=-1))

    assert (ended.status, ended.seconds) == ("completed", 3.0)


def test_a_limit_stops_and_a_larger_one_carries_on() -> None:
    """Once `max_turns` is reached nothing new starts; what runs finishes; the run is stopped, not ended."""
    stage = Stage(flow("a -> [b, c, d] -> e"))
    ended = stage.start(Limits(max_turns=3))

    assert (ended.status, ended.reason) == ("stopped", "max_turns")
    assert len(stage.records(TurnFinished)) == 3
    assert stage.resume(Limits(max_turns=3)).reason == "max_turns"
    assert len(stage.records(TurnStarted)) == 3
    assert stage.resume(Limits(max_turns=-1)).status == "completed"
    assert len(stage.records(TurnStarted)) == 5
    assert [r.reason for r in stage.records(RunStopped)] == ["max_turns", "max_turns"]


def test_a_cost_limit_lets_what_runs_finish() -> None:
    """The overshoot is what was running."""
    paid = Answer(text="x", usage=Usage(cost=1.0))
    stage = Stage(flow("a -> [b, c] -> d"), Cast({name: [paid] for name in "abcd"}))
    ended = stage.start(Limits(max_cost=1.5))

    assert (ended.status, ended.reason, ended.usage.cost) == ("stopped", "max_cost", 3.0)


def test_one_ledger_for_the_whole_tree() -> None:
    """Turns of child runs count against the root's limit, and the child that was stopped carries on as itself."""
    stage = Stage(NESTED, make_kind=played(engines))
    ended = stage.start(Limits(max_turns=4))

    assert (ended.status, ended.reason, ended.usage.turns) == ("stopped", "max_turns", 4)
    assert all(stage.records(run=run)[-1].reason == "max_turns" for run in ("r", "r/debate#1.1", "r/loop#1.1"))


def test_a_team_answers_in_text_when_nobody_in_it_gives_outputs() -> None:
    """A child run without outputs has no structured output: those its parent wants are found in what it said."""
    inner = flow("x -> y")
    stage = Stage(
        flow("a -> team", team=AgentPlan(name="team", kind="topology", child=inner, outputs=(VERDICT,))),
        Cast({"y": [Answer(text='{"verdict": "revise"}')]}),
    )
    assert stage.start().status == "completed"

    assert [r.outputs for r in stage.records(TurnFinished) if r.turn == "team#1"] == [{"verdict": "revise"}]


def test_a_human_parks_the_run_and_the_answer_carries_it_on() -> None:
    """With nothing but humans left the owner lets go; the question stands for the next one, asked once."""
    human = AgentPlan(name="h", kind="human", backend="human", outputs=(VERDICT,))
    stage = _Spoken(flow("a -> h -> b", h=human), park=True)
    ended = stage.start()

    assert (ended.status, ended.reason) == ("stopped", "waiting")
    assert [(one.turn, one.agent) for one in ended.waiting] == [("h#1", "h")]
    stage.cast.say = RunMessage(id="m1", kind="answer", text="verdict: perhaps")
    assert stage.resume().reason == "waiting"
    assert "verdict" in stage.records(MessageRefused)[0].reason
    stage.cast.say = RunMessage(id="m2", kind="answer", turn="h#1", text="verdict: approve")
    assert stage.resume().status == "completed"
    assert [r.attempt for r in stage.records(TurnStarted) if r.turn == "h#1"] == [1]
    answer = next(r for r in stage.records(TurnFinished) if r.turn == "h#1")
    assert (answer.source, answer.message, answer.outputs) == ("operator", "m2", {"verdict": "approve"})


def test_a_human_who_is_asked_for_one_value_may_just_say_it() -> None:
    """`control respond RUN approve` is an answer; what does not fit still is none."""
    human = AgentPlan(name="h", kind="human", backend="human", outputs=(VERDICT,))
    stage = _Spoken(flow("h -> b", h=human), park=True)
    assert stage.start().reason == "waiting"
    stage.cast.say = RunMessage(id="m1", kind="answer", text="never")
    assert stage.resume().reason == "waiting"
    stage.cast.say = RunMessage(id="m2", kind="answer", text=" approve\n")
    assert stage.resume().status == "completed"

    assert [r.outputs for r in stage.records(TurnFinished) if r.turn == "h#1"] == [{"verdict": "approve"}]


def test_a_human_who_does_not_answer_in_time_fails_the_turn() -> None:
    """The time is the question's: it runs on while nobody owns the run."""
    human = AgentPlan(name="h", kind="human", backend="human", timeout=3600.0)
    stage = _Spoken(flow("h -> b", h=human), park=True)
    assert stage.start().reason == "waiting"
    stage.clock.advance(4000)
    ended = stage.resume()

    assert ended.status == "failed"
    assert "3600" in ended.reason


def test_a_message_is_recorded_once_however_often_it_comes() -> None:
    """Its sender repeats it when the answer was lost."""
    stage = _Spoken(flow("a -> b"))
    stage.cast.say = stage.cast.again = RunMessage(id="m", kind="interrupt", turn="a#1")
    assert stage.start().status == "completed"

    assert len(stage.records(OperatorSaid)) == 1
    assert [v.status for v in stage.cast.verdicts] == ["accepted", "accepted"]


def test_an_operators_interrupt_ends_the_attempt_and_is_no_failure() -> None:
    """The same agent is asked again and told so; `retry 0` is not touched."""
    stage = _Spoken(flow("a -> b"))
    stage.cast.say = RunMessage(id="m", kind="interrupt", turn="a#1")
    assert stage.start().status == "completed"

    assert [r.reason for r in stage.records(AttemptInterrupted)] == ["interrupted"]
    assert [one.interrupted for one in stage.cast.asked if one.turn == "a#1"] == [0, 1]
    assert "interrupted" in stage.cast.asked[1].prompt


def test_an_operator_stops_a_run_and_resume_goes_on() -> None:
    """As Ctrl-C does: attempts are interrupted, which is no failure, and nothing starts any more."""
    stage = _Spoken(flow("a -> [b, c] -> d"))
    stage.cast.say = RunMessage(id="m", kind="stop")
    stopped = stage.start()

    assert (stopped.status, stopped.reason) == ("stopped", "by an operator")
    assert [v.status for v in stage.cast.verdicts] == ["accepted"]
    cut = [(r.turn, r.reason) for r in stage.records(AttemptInterrupted)]
    assert cut == [("a#1", "interrupted")]
    assert stage.records(RunStopped)[-1].reason == stopped.reason
    stage.cast.say = None
    assert stage.resume().status == "completed"


def test_a_stop_that_waited_in_the_inbox_does_not_stop_the_next_owner() -> None:
    stage = Stage(flow("a -> b", a=AgentPlan(name="a", on_interrupt="ask")))
    stage.start()
    crashed(stage, next(r.seq for r in stage.records(TurnStarted)))

    assert resumed(stage, RunMessage(id="m1", kind="stop"), late=True).reason == "waiting"
    assert [r.reason for r in stage.records(MessageRefused)] == ["no process drove the run when it was sent"]


@pytest.mark.parametrize(("word", "ends"), [("retry", ["finished", "finished"]), ("cancel", ["cancelled"])])
def test_with_on_interrupt_ask_a_human_decides_on_what_a_crash_cut_off(word: str, ends: list[str]) -> None:
    """The run lets go, at a terminal too, until somebody says `retry` or `cancel`; any other word is refused."""
    stage = Stage(flow("a -> b", a=AgentPlan(name="a", on_interrupt="ask")))
    stage.start()
    crashed(stage, next(r.seq for r in stage.records(TurnStarted)))

    ended = stage.resume()
    assert (ended.reason, [one.turn for one in ended.waiting]) == ("waiting", ["a#1"])
    assert ended.waiting[0].prompt.endswith("answer `retry` to run it again, or `cancel` to cancel it")
    assert resumed(stage, RunMessage(id="m1", kind="answer", turn="a#1", text="go on")).reason == "waiting"
    assert "answer `retry` to run it again" in stage.records(MessageRefused)[0].reason
    assert resumed(stage, RunMessage(id="m2", kind="answer", text=word)).status == "completed"
    assert [r.what for r in stage.records(OperatorSaid)] == [word]
    assert [type(r).__name__.removeprefix("Turn").lower() for r in stage.records(TurnFinished, TurnCancelled)] == ends


def test_cancelling_the_owner_interrupts_and_does_not_cancel_turns() -> None:
    """Ctrl-C: attempts are cut off, the run is stopped, and resume asks them again."""
    stage = Stage(flow("a -> [b, c] -> d"))

    async def owner() -> None:
        stage.shell = stage._shell(None)
        task = asyncio.ensure_future(stage.shell.start("r", stage.plan, {"prompt": "go"}))
        await asyncio.sleep(1.5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    stage.clock.run(owner())
    assert [r.turn for r in stage.records(AttemptInterrupted)] == ["b#1", "c#1"]
    assert stage.records()[-1].reason == "interrupted"
    assert stage.resume().status == "completed"
    assert [r.attempt for r in stage.records(TurnStarted) if r.turn == "b#1"] == [1, 2]
    assert [r.epoch for r in stage.records(RunOwned)] == [1, 2]


def test_a_finished_run_is_never_claimed() -> None:
    """It can be read."""
    stage = Stage(flow("a -> b"))
    stage.start()
    before = stage.records()

    with pytest.raises(RunIsFinished):
        stage.resume()
    assert stage.records() == before


def test_a_journal_that_another_engine_decided_is_refused() -> None:
    """Nothing is appended; the error names the record."""
    stage = Stage(flow("a -> b -> c"))
    stage.start(Limits(max_turns=2))
    before = stage.records()
    stage.plan = flow("a -> c -> b")

    with pytest.raises(ReplayMismatch, match="record 5"):
        stage.resume()
    assert stage.records() == before


def test_a_journal_that_cannot_be_written_ends_the_owner_at_once() -> None:
    """Every attempt is ended and nothing more leaves; one clear error."""
    stage = Stage(flow("a -> [b, c] -> d"), Cast({}, seconds=1.0))
    stage.store = _Full(full_after=4)
    with pytest.raises(JournalFailed, match="no space left"):
        stage.start()

    assert stage.cast.running == 0
    assert {one.turn for one in stage.cast.asked} == {"a#1"}


@pytest.mark.parametrize("nth", [1, 2, 3])
@pytest.mark.parametrize("how", ["fails", "fenced"])
def test_what_was_made_ready_while_the_disk_worked_does_not_start_if_it_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nth: int, how: str
) -> None:
    """Attempts are tasks before their intents are durable; none takes its first step, and all is given up."""
    monkeypatch.setattr(pace, "QUICK", 1e9)
    stage = Stage(flow("a -> [b, c] -> d"), _Closing({}))
    stage.store = JsonlStore(tmp_path)
    real, made, began, syncs = commits.sync_data, Attempts.start, list[str](), itertools.count(1)

    def sync(fd: int) -> None:
        if next(syncs) == nth:
            raise OSError(errno.EIO, "Input/output error")
        real(fd)

    def replaced(lock: RunLock) -> None:
        if next(syncs) == nth:
            raise Fenced("r")

    def start(attempts: Attempts, attempt: Attempt) -> None:
        began.append(attempt.name)
        assert not attempt.live.writer.is_durable(attempt.live.core.seq)
        made(attempts, attempt)

    monkeypatch.setattr(Attempts, "start", start)
    if how == "fails":
        monkeypatch.setattr(commits, "sync_data", sync)
    else:
        monkeypatch.setattr(RunLock, "check", replaced)
    with pytest.raises(JournalFailed if how == "fails" else Fenced):
        stage.start()

    ready = [["a#1"], ["a#1", "b#1", "c#1"], ["a#1", "b#1", "c#1", "d#1"]]
    assert began == ready[nth - 1]
    assert [one.turn for one in stage.cast.asked] == [[], *ready][nth - 1]
    assert stage.cast.closed
    assert not stage.store.owned("r")


def test_in_a_tree_some_of_whose_journals_are_slow_nothing_starts_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each attempt finds its intent durable, whether its own journal, or another, is synced here or in the thread."""
    dice, started = random.Random(7), list[str]()
    monkeypatch.setattr(pace.Pace, "on_loop", lambda pace: dice.random() < 0.6)

    class Watching(Cast):
        async def start(self, request: Request, on_event: OnEvent) -> Part:
            writer = stage.shell.runs[request.run].writer
            intents = [record for record in stage.store.read(request.run) if isinstance(record, TurnStarted)]
            assert writer.is_durable(next(record.seq for record in intents if record.turn == request.turn))
            started.append(request.turn)
            return await super().start(request, on_event)

    inner = flow("x -> [y, z]")
    teams = {name: AgentPlan(name=name, kind="topology", child=inner) for name in "tu"}
    for n in range(5):
        stage = Stage(flow("a -> [b, c, t, u] -> d", **teams), Watching({}, seconds=0.001))
        stage.store = JsonlStore(tmp_path / str(n))
        stage.shell = stage._shell(None)
        assert asyncio.run(stage.shell.start("r", stage.plan, {"prompt": "go"})).status == "completed"
    assert len(started) == 50


def test_a_work_tree_is_made_for_a_run_whose_beginning_is_durable(tmp_path: Path) -> None:
    """A branch and a folder of a run that nobody knows would stay for ever."""
    durable = list[bool]()

    class WithTree(Workspace):
        def lacks_tree(self, made: Collection[str]) -> bool:
            return not made

        async def make_tree(self) -> TreeMade | None:
            root = stage.shell.runs["r"]
            durable.append(root.writer.is_durable(root.core.seq))
            return TreeMade(run="r", path="/tree", branch="b", base="c")

    stage = Stage(flow("a -> b"), workspace=WithTree())
    stage.store = JsonlStore(tmp_path)
    stage.shell = stage._shell(None)

    assert asyncio.run(stage.shell.start("r", stage.plan, {"prompt": "go"})).status == "completed"
    assert durable == [True]


def test_a_loop_that_begins_tasks_at_once_starts_nothing_early() -> None:
    """Who embeds a run may have set `asyncio.eager_task_factory`: an attempt still waits for the disk."""
    begun = list[str]()
    stage = Stage(flow("a -> [b, c] -> d"))

    def at_once(loop: asyncio.AbstractEventLoop, work: Any, **kwargs: Any) -> asyncio.Future[Any]:
        begun.append(work.__qualname__)
        return asyncio.Task(work, loop=loop, **kwargs)

    async def owner() -> RunExit:
        asyncio.get_running_loop().set_task_factory(at_once)
        await asyncio.create_task(asyncio.sleep(0))
        stage.shell = stage._shell(None)
        return await stage.shell.start("r", stage.plan, {"prompt": "go"})

    assert stage.clock.run(owner()).status == "completed"
    assert len(stage.cast.asked) == 4
    assert begun[:1] == ["sleep"]
    assert "Attempts._attempt" not in begun


def test_whatever_ends_the_owner_all_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """An observer that raises again and again, or something said to an owner who cannot write it, keeps none open."""

    def observe(run: str, record: Record) -> None:
        if record.seq > 3:
            raise BrokenPipeError("nobody reads any more")

    stage = Stage(flow("a -> b"), _Closing({}))
    shell = Shell(
        RunPorts(store=stage.store, turns=stage.cast, clock=stage.clock, make_kind=kind_of),
        observers=Observers(observe=[observe]),
    )
    with pytest.raises(BrokenPipeError):
        stage.clock.run(shell.start("r", stage.plan, {"prompt": "go"}))
    assert stage.cast.closed
    stage.store.claim("r")

    async def end(attempts: Attempts) -> None:
        await real(attempts)
        stage.shell.post(lambda: stage.shell.runs["r"].core.write(99.0, OperatorSaid(message="m", what="guide")))

    def append(writer: MemoryWriter, records: Sequence[Record]) -> int:
        if writer.last == 4:
            raise JournalFailed("r", "no space left on device")
        return written(writer, records)

    real, written = Attempts.end, MemoryWriter.append
    monkeypatch.setattr(Attempts, "end", end)
    monkeypatch.setattr(MemoryWriter, "append", append)
    stage = Stage(flow("a -> [b, c] -> d"), _Closing({}))
    with pytest.raises(JournalFailed, match="no space left"):
        stage.start()
    assert stage.cast.closed
    stage.store.claim("r")


def test_the_time_of_what_a_dead_owner_waited_for_never_comes() -> None:
    """In a program that lives on, a human's time and a retry's are forgotten, not tried on a journal given up."""

    class Silent(Cast):
        async def start(self, request: Request, on_event: OnEvent) -> Part:
            part = await super().start(request, on_event)
            if request.agent.kind == "human":
                part._seconds = 10**9
            return part

    human = AgentPlan(name="h", kind="human", timeout=50.0)
    again = AgentPlan(name="x", retry=3)
    plan = flow("a -> [b, h, x]", h=human, x=again)
    stage = Stage(plan, Silent({"x": [Failure(kind="transient", reason="busy")]}, seconds=1.0))
    stage.store = _Full(full_after=10)
    complaints = list[object]()

    async def program() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: complaints.append(context))
        stage.shell = stage._shell(None)
        with pytest.raises(JournalFailed):
            await stage.shell.start("r", plan, {"prompt": "go"})
        await asyncio.sleep(1000.0)

    stage.clock.run(program())
    assert {one.turn for one in stage.cast.asked} >= {"h#1", "x#1"}
    assert complaints == []


def test_an_attempt_that_is_called_off_before_its_first_step_keeps_nothing_waiting() -> None:
    """The first of two answers suffices; the second attempt was started and called off at one instant."""

    def team(given: dict[str, object]) -> Conversation:
        both = yield Together(Question("a", "?"), Question("b", "?"), until=lambda got: got[0] is not None)
        last = yield Question("c", f"{both[1]}")
        return last.text

    plan = Plan(name="team", agents={name: AgentPlan(name=name) for name in "abc"})
    stage = Stage(plan, make_kind=played(lambda plan: (GeneratorEngine(team), plan.agents)))
    real = Attempts.start

    def start(attempts: Attempts, attempt: Attempt) -> None:
        real(attempts, attempt)
        if attempt.agent.name == "b":
            attempt.live.halt(attempt.name)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Attempts, "start", start)
        assert stage.start().status == "completed"
    assert {one.agent.name for one in stage.cast.asked} == {"a", "c"}


def test_an_observer_of_one_type_gets_its_records_before_those_that_get_all() -> None:
    """What wants one type of record costs nothing for the others."""
    seen: list[tuple[str, str, int]] = []
    stage = Stage(
        flow("a -> b"),
        observe=[lambda run, record: seen.append(("all", run, record.seq))],
        of={TurnFinished: lambda run, record: seen.append(("finished", run, record.seq))},
    )
    stage.start()

    records = stage.records()
    ends = [record.seq for record in records if isinstance(record, TurnFinished)]
    assert [seq for who, _, seq in seen if who == "all"] == [record.seq for record in records]
    assert [seq for who, _, seq in seen if who == "finished"] == ends
    assert all(seen.index(("finished", "r", seq)) < seen.index(("all", "r", seq)) for seq in ends)


def test_of_turns_that_end_together_the_one_that_began_first_counts_first() -> None:
    """Also if it is its second attempt, which began after the other turn."""
    seen = Text(text="so far")
    parts: dict[str, Any] = {
        "a": [Failure(kind="exit", reason="no"), Answer(text="a")],  # ends at 1 s, and again at 3 s
        "b": [Streamed([(2.0, seen)], Answer(text="b"))],
    }
    stage = Stage(flow("a -> c", "b -> c", a=AgentPlan(name="a", retry=1)), Cast(parts))

    assert stage.start().status == "completed"
    ends = stage.records(TurnFinished)
    assert [one.turn for one in ends] == ["a#1", "b#1", "c#1"]
    assert ends[0].at == ends[1].at


def test_an_exception_in_a_backend_is_a_failed_attempt() -> None:
    """A defect of one agent does not take the run down."""

    def broken(request: object) -> Answer:
        raise ZeroDivisionError("oops")

    stage = Stage(flow("a -> b"), Cast({"a": [broken]}))
    ended = stage.start()

    assert ended.status == "failed"
    assert stage.records(AttemptFailed)[0].kind == "crashed"
    assert "ZeroDivisionError: oops" in ended.reason


def test_what_a_fallback_answered_is_read_as_the_result_of_the_agent_it_replaced() -> None:
    """A later agent that reads the one that failed has it in its prompt."""
    plan = flow(
        "a -> c -> b",
        a=AgentPlan(name="a", on_fail="fallback", fallback="f"),
        f=AgentPlan(name="f"),
        b=AgentPlan(name="b", reads=("a",)),
    )
    stage = Stage(plan, Cast({"a": [Failure(kind="exit", reason="no")], "f": [Answer(text="instead")]}))
    assert stage.start().status == "completed"

    [asked] = [one.prompt for one in stage.cast.asked if one.turn == "b#1"]
    assert "# Result of a (f#1)\n\n~~~text\ninstead\n~~~" in asked


def resumed(stage: Stage, message: RunMessage, *, late: bool = False) -> RunExit:
    """Resume the run of *stage*, whose inbox holds *message*; *late*: it was sent before."""

    def deliver() -> None:
        take(stage.shell, message, stage.clock.now(), Sender("operator"), late=late)
        stage.shell.arrived()

    async def owner() -> RunExit:
        stage.shell = stage._shell(None)
        stage.shell.expect()
        asyncio.get_running_loop().call_later(0.5, stage.shell.post, deliver)
        return await stage.shell.resume("r", stage.plan)

    return stage.clock.run(owner())


def crashed(stage: Stage, seq: int) -> None:
    """Leave of the journal what there was when its owner died, after the record *seq*."""
    kept = [record for record in stage.records() if record.seq <= seq]
    stage.store = MemoryStore()
    writer = stage.store.claim("r")
    writer.append(kept)
    stage.clock.run(writer.close())


class _Spoken(Stage):
    """Humans never answer by themselves; what the cast is to *say* arrives half a second after an attempt started."""

    def __init__(self, plan: Plan, **options: bool) -> None:
        super().__init__(plan, _Patient({}), **options)
        self.cast.stage = self

    def _shell(self, limits: Limits | None) -> Shell:
        made = super()._shell(limits)
        for _ in filter(None, (self.cast.say, self.cast.again)):
            made.expect()
        return made


class _Patient(Cast):
    say: RunMessage | None = None
    again: RunMessage | None = None
    stage: Stage

    def __init__(self, parts: object) -> None:
        super().__init__({})
        self.verdicts: list[object] = []

    async def start(self, request, on_event):  # type: ignore[no-untyped-def]
        for message in filter(None, (self.say, self.again)):
            asyncio.get_running_loop().call_later(0.5, self.stage.shell.post, partial(self._deliver, message))
        self.say = self.again = None
        part = await super().start(request, on_event)
        if request.agent.kind == "human":
            part._seconds = 10**9
        return part

    def _deliver(self, message: RunMessage) -> None:
        _, verdict = take(self.stage.shell, message, self.stage.clock.now(), Sender("operator"))
        self.verdicts.append(verdict)
        self.stage.shell.arrived()


class _Closing(Cast):
    """Knows whether it was closed."""

    closed = False

    async def close(self) -> None:
        self.closed = True


class _Full:
    """A store whose disk is full after so many records."""

    def __init__(self, full_after: int) -> None:
        self._left = full_after

    def claim(self, run: str) -> "_FullWriter":
        return _FullWriter(self._left)


class _FullWriter:
    repaired = None

    def __init__(self, most: int) -> None:
        self.last, self._most, self._safe, self._failed = 0, most, 0, False

    def append(self, records):  # type: ignore[no-untyped-def]
        if self._failed:
            raise JournalFailed("r", "no space left on device")
        self.last += len(records)
        return self.last

    def is_durable(self, seq: int) -> bool:
        return seq <= self._safe

    def begin(self) -> bool:
        return False

    def sync(self) -> bool:
        return False

    async def durable(self, seq: int) -> None:
        await asyncio.sleep(0)
        if seq > self._most:
            self._failed = True
            raise JournalFailed("r", "no space left on device")
        self._safe = seq

    async def close(self) -> None:
        """Nothing to close."""


def test_an_observer_of_one_type_sees_its_records_and_no_others() -> None:
    """Though nothing observes all records."""
    seen: list[tuple[str, Record]] = []
    stage = Stage(flow("a -> b"), of={TurnFinished: lambda run, record: seen.append((run, record))})
    stage.start()

    assert seen == [("r", record) for record in stage.records(TurnFinished)]
    assert len(seen) == 2
