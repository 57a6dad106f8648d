"""What one part of a cluster hands to the next: an attempt to its run, a run to its readers, a stop to a resume."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from asking import Heard, agent, request
from sealing import orders, performance, raw
from stage import flow
from temporalio import workflow
from temporalio.client import WorkflowHandle
from temporalio.common import RawValue
from temporalio.exceptions import ActivityError, ApplicationError, CancelledError, RetryState, TimeoutError, TimeoutType

from coterie.agents.backends.base import Answer, Emitted, Failure, Result, Used
from coterie.agents.workspace.notes import Tasks
from coterie.errors import UsageError
from coterie.execution.cluster import activities, submit
from coterie.execution.cluster.activities import TurnActivities
from coterie.execution.cluster.files import Head, RunFiles
from coterie.execution.cluster.keys import KeyRing
from coterie.execution.cluster.notes import HeldEntries
from coterie.execution.cluster.seals import Sealed, unseal
from coterie.execution.cluster.turns import GIVEN_MOST, ActivityTurns
from coterie.execution.cluster.wire import RECORDS, Begin, TurnBeat, TurnDone, node_queue, read_begin, turn_queue
from coterie.execution.cluster.workflow import RunWorkflow, _ClusterFinalizers
from coterie.execution.kernel.run_exit import RunExit
from coterie.history.journal.export import FolderExport
from coterie.history.journal.memory import MemoryStore
from coterie.history.journal.records import NO_USAGE, RunNotified, RunReopened, RunStarted, TurnStarted, Usage
from coterie.team.planning.plan import Limits, Plan, from_json

SPENT = Usage(input_tokens=10, cost=0.25)
FILES = RunFiles(root="/home/ada", base="b", heads=(Head("c0", ()),))
TEAM, OTHER = flow("a -> b"), flow("b -> a")

# -- an attempt and its run -------------------------------------------------------------------------------------------


def lost(cause: BaseException | None) -> ActivityError:
    """The end of an activity without a result."""
    error = ActivityError(
        "x", scheduled_event_id=1, started_event_id=1, identity="", activity_type="turn", activity_id="a",
        retry_state=RetryState.TIMEOUT,
    )  # fmt: skip
    error.__cause__ = cause
    return error


def timed_out(*beats: TurnBeat) -> TimeoutError:
    """The end of an activity of an attempt that its node does not show alive any more; the node sealed *beats*."""
    details = [msgspec.to_builtins(performance("a#1.1").seal(beat, "beat")) for beat in beats]
    return TimeoutError("no sign of life", type=TimeoutType.HEARTBEAT, last_heartbeat_details=details)


ENDS: dict[str, tuple[Callable[[], TurnDone | ActivityError], Result, str, bool]] = {
    "answer": (
        lambda: TurnDone(
            answer=Answer(text="done", usage=SPENT), events=(Emitted(event="ready"),), head=Head("c1", ())
        ),
        Answer(text="done", usage=SPENT),
        "",
        True,
    ),
    "failure": (
        lambda: TurnDone(failure=Failure(kind="exit", reason="no", usage=SPENT)),
        Failure(kind="exit", reason="no", usage=SPENT),
        "",
        True,
    ),
    "interrupted": (
        lambda: TurnDone(failure=Failure(kind="interrupted", reason="no", text="so far", usage=SPENT)),
        Failure(kind="interrupted", reason="no", text="so far", usage=SPENT),
        "so far",
        True,
    ),
    "lost": (
        lambda: lost(timed_out(TurnBeat(said="so far", usage=SPENT))),
        Failure(kind="lost", reason="its worker was lost: no sign of life", usage=SPENT),
        "so far",
        True,
    ),
    "never begun": (
        lambda: lost(timed_out()),
        Failure(kind="lost", reason="its worker was lost: no sign of life"),
        "",
        True,
    ),
    "given back": (
        lambda: lost(ApplicationError("KeyError")),
        Failure(kind="lost", reason="a worker gave it back without a result that a node signed"),
        "",
        True,
    ),
    "cancelled": (
        lambda: lost(CancelledError()),
        Failure(kind="interrupted", reason="it was interrupted before a node began it"),
        "",
        False,
    ),
}


class Activities:
    """Starts activities that end as a test says; the last end counts for all further ones."""

    def __init__(self, patch: pytest.MonkeyPatch, *ends: TurnDone | BaseException) -> None:
        self._ends, self.ids, self.queues, self.cancelled = list(ends), list[str](), list[str](), 0
        patch.setattr(workflow, "start_activity", self._start)

    def _start(self, name: str, order: object, *, activity_id: str, **how: Any) -> Any:
        self.ids.append(activity_id)
        self.queues.append(how["task_queue"])
        handle: asyncio.Future[RawValue] = asyncio.get_running_loop().create_future()
        end = self._ends.pop(0) if len(self._ends) > 1 else self._ends[0]
        activities = self

        class Handle:
            def __await__(self) -> Any:
                return handle.__await__()

            def cancel(self) -> None:
                activities.cancelled += 1
                if isinstance(end, BaseException):
                    handle.set_exception(end)
                else:
                    handle.set_result(raw(performance(activity_id).seal(end, "result")))

        self.end_now = Handle().cancel
        return Handle()


@pytest.mark.parametrize("is_cut", [False, True], ids=["awaited", "cut off"])
@pytest.mark.parametrize("how", ENDS)
def test_what_an_attempt_used_and_said_reaches_its_run_however_it_ends(
    monkeypatch: pytest.MonkeyPatch, how: str, is_cut: bool
) -> None:
    """Also where nobody waits for the result any more; its files are taken up, and it cannot be spoken to."""
    end, wanted, said, began = ENDS[how]
    heard, given = Heard(), Activities(monkeypatch, end())
    turns = ActivityTurns({}, FILES, orders())

    async def main() -> Result | None:
        session = await turns.start(request(agent()), heard)
        result = asyncio.create_task(session.result())
        await asyncio.sleep(0)
        if is_cut:
            result.cancel()
            await asyncio.wait([result])
            assert result.cancelled()
        else:
            while not result.done():
                given.end_now()
                await asyncio.wait([result], timeout=0.01)
        assert await session.steer("go on") is False
        return None if is_cut else result.result()

    result = asyncio.run(main())
    name = request(agent()).ref.marker
    if is_cut:
        assert [event.usage for event in heard if isinstance(event, Used)] == [SPENT] * (wanted.usage != NO_USAGE)
    else:
        assert result == wanted
    assert turns.said.get(name, "") == said
    assert (Emitted(event="ready") in heard) is (how == "answer")
    assert (name in turns.kept) is began
    given_once = is_cut or how != "never begun"
    assert len(given.ids) == (1 if given_once else GIVEN_MOST)
    assert len({*given.ids}) == len(given.ids)
    assert turns.files is not None
    assert ("c1" in [head.commit for head in turns.files.heads]) is (how == "answer")


AGAIN = ("interrupted", "lost", "never begun", "given back")


@pytest.mark.parametrize("how", ENDS)
def test_a_gate_that_its_node_could_not_run_is_run_again(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """It runs on the node of the attempt that waits for it; only its own end is a verdict."""
    end, wanted, _, _ = ENDS[how]
    given = Activities(monkeypatch, end())
    turns = ActivityTurns({}, FILES, orders())

    async def main() -> Result:
        attempt = await turns.start(request(agent()), Heard())
        attempt.node = "n1"
        gate = await turns.start(request(agent(kind="gate"), clean=True), Heard())
        result = asyncio.create_task(gate.result())
        while not result.done():
            given.end_now()
            await asyncio.wait([result], timeout=0.01)
        await attempt.interrupt()
        return result.result()

    found = asyncio.run(main())
    assert getattr(found, "reason", "") == getattr(wanted, "reason", "")
    times = GIVEN_MOST if how in AGAIN else 1
    assert given.queues == [turn_queue(""), *[node_queue("n1")] * times]


@pytest.mark.parametrize(("attempt", "pauses"), [(1, 1), (3, 3), (10_000, activities.SHORT_MOST)])
def test_a_node_that_lacks_something_pauses_before_it_gives_a_turn_back(
    monkeypatch: pytest.MonkeyPatch, attempt: int, pauses: int
) -> None:
    """Longer each time, up to a limit; what the attempt used and said goes with it."""
    paused, told = list[float](), list[str]()

    async def sleep(seconds: float) -> None:
        paused.append(seconds)

    monkeypatch.setattr(activities.asyncio, "sleep", sleep)
    node: Any = SimpleNamespace(_tell=told.append)
    asked = request(agent(), attempt=attempt)
    found = asyncio.run(
        TurnActivities._short(node, asked, Failure(kind="shortage", reason="no space", text="so far", usage=SPENT))
    )
    assert found == Failure(kind="interrupted", reason="its node: no space", text="so far", usage=SPENT)
    assert paused == [activities.SHORT_PAUSE * pauses]
    assert [asked.marker in one and "no space" in one for one in told] == [True]


# -- a run and those who look at it -----------------------------------------------------------------------------------


def test_readers_get_each_record_that_they_do_not_have() -> None:
    """Of the runs that they name and that this workflow has."""
    store = MemoryStore()
    records = [
        RunStarted(seq=1, run="r", engine="flow"),
        *(TurnStarted(seq=n, turn=f"a#{n}", agent="a") for n in (2, 3)),
    ]
    store.fill("r", records)
    there: Any = SimpleNamespace(_store=store, _orders=orders(), _begin=Begin(run="r"))

    for known in range(4):
        found = RunWorkflow.newest(there, {"r": known, "none": 0})
        assert unseal(found, KeyRing.of_user().trusted, RECORDS, "newest", "r") == [
            ("r", one) for one in records[known:]
        ]


@pytest.mark.parametrize(
    ("command", "done", "calls"),
    [(("mail",), [], True), (("mail",), [RunNotified(status="completed")], False), ((), [], False)],
)
def test_the_command_of_an_end_is_called_once(
    monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], done: list[Any], calls: bool
) -> None:
    """Not again by the next link or owner, and not where there is none."""
    kind = SimpleNamespace(project=SimpleNamespace(notify=command))
    monkeypatch.setattr("coterie.execution.cluster.workflow.kind_of", lambda plan: kind)
    finalizers = _ClusterFinalizers(ActivityTurns({}, None, orders()))
    ended = RunExit(run="r", status="completed")

    assert finalizers.closes(TEAM) is bool(command)
    assert (asyncio.run(finalizers.next_step(TEAM, done, ended)) is not None) is calls


def test_entries_that_are_in_no_file_are_those_of_the_records() -> None:
    """Each time, since no file tells whether others came."""
    for n in range(3):
        run = tuple({"id": f"task-{k}", "status": "open", "text": "t"} for k in range(n))
        assert len(Tasks.of(HeldEntries(project=Path(), of_run=run)).of_run) == n


# -- a stop and a resume, an id and its run ---------------------------------------------------------------------------


class Starts:
    """A client that keeps how workflows were started; *is_running*: one with the id runs already."""

    namespace = "default"

    def __init__(self, patch: pytest.MonkeyPatch, *, is_running: bool = False) -> None:
        self.begun: list[Begin] = []
        self._is_running = is_running

        async def no_attributes(*given: object) -> None:
            return None

        patch.setattr(submit, "attributes", no_attributes)

    def get_workflow_handle(self, run: str) -> Any:
        async def events() -> AsyncIterator[Any]:
            for one in ():
                yield one

        return SimpleNamespace(fetch_history_events=events)

    async def start_workflow(self, name: str, sealed: Sealed, **how: Any) -> "WorkflowHandle[Any, Any]":
        begin, _ = read_begin(sealed, how["id"], KeyRing.of_user().trusted)
        if self._is_running:
            raise submit.WorkflowAlreadyStartedError(begin.run, name)
        self.begun.append(begin)
        self.policy = how["id_reuse_policy"]
        return self  # type: ignore[return-value]


def export_of(folder: Path, plan: Plan, given: dict[str, Any]) -> FolderExport:
    """An export with the first record of the run `r`."""
    export = FolderExport(folder / "export")
    first = RunStarted(
        seq=1,
        run="r",
        engine="flow",
        plan=submit.to_json(plan).decode(),
        plan_hash=plan.content_hash(),
        input=given,
    )
    asyncio.run(export.put([("r", first)]))
    return export


@pytest.mark.parametrize("reload", [None, OTHER], ids=["", "reload"])
@pytest.mark.parametrize("reopened", [None, RunReopened(turns=("a#1",))], ids=["", "retry"])
def test_a_resumed_run_gets_what_its_resume_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reload: Plan | None, reopened: RunReopened | None
) -> None:
    """Its limits, the plan that is to be taken, the turns that are to be retried; it goes on from its export."""
    client: Any = Starts(monkeypatch)
    export, limits = export_of(tmp_path, TEAM, {"prompt": "tea"}), Limits(max_turns=7)
    asyncio.run(submit.restart(client, export, "r", limits=limits, reload=reload, reopened=reopened, files=FILES))

    [begin] = client.begun
    assert (begin.run, begin.folds, begin.limits, begin.reopened, begin.files) == ("r", True, limits, reopened, FILES)
    assert begin.reloaded is (reload is not None)
    assert (from_json(begin.plan).name if begin.plan else "") == (reload.name if reload else "")
    assert begin.summary.endswith(": tea")
    assert client.policy is submit.WorkflowIDReusePolicy.ALLOW_DUPLICATE
    running: Any = Starts(monkeypatch, is_running=True)
    with pytest.raises(UsageError, match="run 'r' is running on the cluster"):
        asyncio.run(submit.restart(running, export, "r", files=FILES))


@pytest.mark.parametrize(
    ("plan", "given", "why"),
    [
        (TEAM, {"prompt": "tea"}, ""),
        (TEAM, {"prompt": "coffee"}, "another input"),
        (OTHER, {"prompt": "tea"}, "another plan"),
    ],
    ids=["the same", "another input", "another plan"],
)
def test_an_id_is_that_of_one_plan_and_one_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plan: Plan, given: dict[str, Any], why: str
) -> None:
    """The same again is no second run; another one is refused instead of given the old result."""
    client: Any = Starts(monkeypatch)
    export = export_of(tmp_path, TEAM, {"prompt": "tea"})
    if why:
        with pytest.raises(UsageError, match=why):
            asyncio.run(submit.submit(client, export, plan, given, run="r"))
    else:
        assert asyncio.run(submit.submit(client, export, plan, given, run="r")) == ("r", False, [])
    assert client.begun == []
    assert asyncio.run(submit.submit(client, export, plan, given, run="r-2")) == ("r-2", True, [])
    assert [one.run for one in client.begun] == ["r-2"]
    assert client.policy is submit.WorkflowIDReusePolicy.REJECT_DUPLICATE
