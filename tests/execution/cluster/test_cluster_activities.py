"""What nodes do for a workflow, without a server: what reaches its history, and what ends it."""

import asyncio
import errno
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from asking import agent, request
from bundles import bundle
from sealing import EXECUTION, message, orders, performance, raw
from stage import flow
from temporalio.client import WorkflowUpdateRPCTimeoutOrCancelledError
from temporalio.common import RawValue
from temporalio.converter import DataConverter
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode
from temporalio.testing import ActivityEnvironment
from until import soon

from coterie.agents.backends.base import (
    Answer,
    Event,
    Failure,
    Launched,
    Permission,
    Result,
    Text,
    Tool,
    Used,
)
from coterie.errors import ClusterFailed, ExportConflict
from coterie.execution.cluster.activities import TurnActivities, _Attempt, _interrupted, beats_after
from coterie.execution.cluster.arrivals import Arrivals
from coterie.execution.cluster.driver_activities import DriverActivities
from coterie.execution.cluster.files import Head, RunFiles, pack
from coterie.execution.cluster.keys import KeyRing
from coterie.execution.cluster.seals import Sealed, peek, unseal
from coterie.execution.cluster.turn_files import LeftFiles
from coterie.execution.cluster.wire import Begin, MsgspecConverter, TurnDone, TurnHeard
from coterie.execution.cluster.workflow import RunWorkflow, _TurnWorkspace
from coterie.execution.kernel.opening import RootOpening
from coterie.execution.kernel.run_exit import RunExit
from coterie.execution.runs.attempt_folders import AttemptFolders
from coterie.execution.runs.messages import RunMessage, Verdict, answer
from coterie.execution.runs.messages.verdicts import Sender
from coterie.execution.runs.repository import Runs
from coterie.history.journal.export import FolderExport
from coterie.history.journal.records import TreeSaved, Usage
from coterie.history.journal.runs import RunRecord
from coterie.team.planning.plan import Plan, to_json

SECRET = "s3cr3t-of-the-user"


class Heard:
    """A client of Temporal that keeps the signals and questions it is to send; *fails* are its first answers."""

    def __init__(self, *fails: RPCStatusCode) -> None:
        self.signals: list[TurnHeard] = []
        self.fails = list(fails)

    def get_workflow_handle(self, run: str) -> Any:
        async def signal(name: str, heard: Sealed) -> None:
            if self.fails:
                raise RPCError("no", self.fails.pop(0), b"")
            self.signals.append(unseal(heard, KeyRing.of_user().trusted, TurnHeard, "heard", EXECUTION, "a#1.1"))

        async def update(name: str, heard: Sealed, result_type: type) -> RawValue:
            await signal(name, heard)
            return raw(performance().seal(True, "affords", str(self.signals[-1].seq)))

        return SimpleNamespace(signal=signal, execute_update=update)


def attempted(
    folder: Path, events: Sequence[Event], result: Answer | Failure, *fails: RPCStatusCode
) -> tuple[list[TurnHeard], TurnDone]:
    """What a workflow hears of an attempt whose agent has a secret in its environment, and its end."""
    client: Any = Heard(*fails)

    async def main() -> TurnDone:
        asked = request(agent(env={"API_KEY": SECRET}))
        attempt = _Attempt(client, "node", asked, AttemptFolders(Runs(folder)), performance())
        for event in events:
            attempt(event)
        while attempt._telling:
            await attempt._telling.pop()
        return attempt.done(result, LeftFiles())

    return client.signals, asyncio.run(main())


@bundle(
    "result",
    [
        Answer(text=f"it is {SECRET}", outputs={"key": [SECRET]}),
        Failure(kind="exit", reason=SECRET, text=SECRET, log=SECRET),
    ],
    ids=["answer", "failure"],
)
def test_no_secret_of_an_attempt_reaches_the_history(tmp_path: Path, result: Answer | Failure) -> None:
    """In its events, its signals and its result; neither is it in the files of the node."""
    events = [
        Text(text=f"I know {SECRET}"),
        Tool(id="t1", name="sh", detail=f"echo {SECRET}", state="finished", result="ok"),
        Permission(id="p1", tool=f"sh {SECRET}", detail=SECRET),
    ]
    heard, done = attempted(tmp_path, events, result)

    assert [type(event) for one in heard for event in one.events] == [Permission]
    assert len(done.events) == 1
    found = done.answer if isinstance(result, Answer) else done.failure
    assert type(found) is type(result)
    assert (done.answer, done.failure).count(None) == 1
    for whole in (msgspec.json.encode(heard), msgspec.json.encode(done)):
        assert b"***" in whole
        assert SECRET.encode() not in whole
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and SECRET in path.read_text()]


@pytest.mark.parametrize(
    ("status", "heard"), [(RPCStatusCode.UNKNOWN, 1), (RPCStatusCode.UNAVAILABLE, 1), (RPCStatusCode.NOT_FOUND, 0)]
)
def test_a_question_outlasts_a_server_that_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: RPCStatusCode, heard: int
) -> None:
    """It is asked for as long as the run goes on: without it no person would know of it."""
    monkeypatch.setattr("coterie.execution.cluster.activities.HEARTBEAT_EVERY", 0.0)
    assert len(attempted(tmp_path, [Permission(id="p1", tool="rm")], Answer(), status)[0]) == heard


def test_a_turn_begins_once_the_server_still_wants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """While it does not answer, the node asks on; a refusal means that another one has the turn."""
    monkeypatch.setattr("coterie.execution.cluster.activities.HEARTBEAT_EVERY", 0.0)
    answers = [RPCStatusCode.UNKNOWN, RPCStatusCode.CANCELLED, None, RPCStatusCode.NOT_FOUND]

    async def beat(asked: object, retry: bool) -> None:
        if (status := answers.pop(0)) is not None:
            raise RPCError("no", status, b"")

    service = SimpleNamespace(record_activity_task_heartbeat=beat)
    node: Any = SimpleNamespace(
        _client=SimpleNamespace(
            namespace="default",
            workflow_service=service,
            data_converter=DataConverter(payload_converter_class=MsgspecConverter),
        )
    )
    asyncio.run(ActivityEnvironment().run(TurnActivities._begin, node))
    assert answers == [RPCStatusCode.NOT_FOUND]
    with pytest.raises(ApplicationError, match="came too late"):
        asyncio.run(ActivityEnvironment().run(TurnActivities._begin, node))


@pytest.mark.parametrize(("most", "each_hour"), [(4.0, 915), (7.0, 535), (0.5, 7200)])
def test_a_long_turn_shows_few_signs_of_life(most: float, each_hour: int) -> None:
    """Each second in its first ten, then each tenth of its age, up to what its node says."""
    ages = [0.0]
    while ages[-1] < 3600:
        ages.append(ages[-1] + beats_after(ages[-1], most))

    assert [beats_after(age, most) for age in (0.0, 10.0, 30.0, 5000.0)] == [
        min(most, s) for s in (1.0, 1.0, 3.0, most)
    ]
    assert len(ages) - 1 == each_hour


def test_the_first_sign_of_life_is_the_question_whether_the_turn_is_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another one does not follow at once: each is a write of the server."""
    seen: list[str] = []

    def pause(age: float, most: float) -> float:
        seen.append(f"at most {most:g} s")
        return 0.0

    async def main() -> None:
        client: Any = Heard()
        attempt = _Attempt(client, "node", request(agent()), AttemptFolders(Runs(tmp_path)), performance())
        beating = asyncio.create_task(attempt.beat(7.0))
        await soon(lambda: len(seen) >= 4)
        beating.cancel()

    monkeypatch.setattr("coterie.execution.cluster.activities.beats_after", pause)
    activity = ActivityEnvironment()
    activity.on_heartbeat = lambda *details: seen.append("beat")
    asyncio.run(activity.run(main))
    assert seen[:4] == ["at most 7 s", "beat"] * 2


@pytest.mark.parametrize(
    ("reserved", "fails", "affords", "asked"),
    [
        (None, [], True, 0),
        (0.2, [], True, 0),
        (0.1, [], True, 1),
        (0.1, [RPCStatusCode.UNAVAILABLE], True, 1),
        (0.1, [RPCStatusCode.NOT_FOUND], False, 0),
    ],
    ids=["without a budget", "within what is reserved", "beyond it", "the server is away", "the run is over"],
)
def test_the_run_is_asked_before_a_request_beyond_the_reservation(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    reserved: float | None,
    fails: list[RPCStatusCode],
    affords: bool,
    asked: int,
) -> None:
    """The question says what the attempt has used, after everything that was told before."""
    monkeypatch.setattr("coterie.execution.cluster.activities.HEARTBEAT_EVERY", 0.0)
    client: Any = Heard()

    async def main() -> bool:
        attempt = _Attempt(client, "node", request(agent()), AttemptFolders(Runs(tmp_path)), performance(), reserved)
        attempt(Used(usage=Usage(cost=0.1)))
        attempt(used := Used(usage=Usage(cost=0.1001)))
        await soon(lambda: bool(client.signals))
        client.fails += fails
        found = await attempt.affords()
        assert [one.events for one in client.signals[1:]] == [(used,)] * asked
        return found

    assert asyncio.run(main()) is affords


def test_an_attempt_waits_for_a_person_until_its_last_question_is_decided(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only meanwhile it need not show signs of life."""
    waits: list[bool] = []
    asked, decided = Permission(id="p1", tool="rm"), Permission(id="p1", tool="rm", decision="allowed")
    other, other_decided = msgspec.structs.replace(asked, id="p2"), msgspec.structs.replace(decided, id="p2")

    async def main() -> None:
        attempt = _Attempt(heard, "node", request(agent()), AttemptFolders(Runs(tmp_path)), performance())

        async def watch(*signs: Any) -> None:
            waits.append(signs[4]())
            for event in (asked, other, decided, other_decided, asked):
                attempt(event)
                waits.append(signs[4]())

        monkeypatch.setattr("coterie.execution.cluster.activities.watch_signs", watch)
        await attempt.watch(SimpleNamespace(), tmp_path, 1.0)  # type: ignore[arg-type]

    heard: Any = Heard()
    asyncio.run(main())
    assert waits == [False, True, True, True, False, True]


def test_an_attempt_that_is_cancelled_asks_no_more(tmp_path: Path) -> None:
    """The client of the server answers a cancellation with an error of its own, as if it were away."""

    async def update(name: str, heard: TurnHeard, result_type: type) -> bool:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise WorkflowUpdateRPCTimeoutOrCancelledError from None
        raise AssertionError

    async def main() -> None:
        client: Any = SimpleNamespace(get_workflow_handle=lambda run: SimpleNamespace(execute_update=update))
        attempt = _Attempt(client, "node", request(agent()), AttemptFolders(Runs(tmp_path)), performance(), 0.0)
        asking = asyncio.create_task(attempt.affords())
        await asyncio.sleep(0)
        asking.cancel()
        await asyncio.wait([asking])
        assert asking.cancelled()

    asyncio.run(main())


def test_what_was_launched_is_in_the_result(tmp_path: Path) -> None:
    """So that the next owner can end it."""
    launched = Launched(pid=7, group=7, started="then")
    assert attempted(tmp_path, [launched], Answer())[1].events == (launched,)


def test_what_an_attempt_says_counts_also_where_it_cannot_be_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its program must not notice that the disk of the node is full."""

    def full(*words: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(AttemptFolders, "stream", full)
    launched = Launched(pid=7, group=7, started="then")
    assert attempted(tmp_path, [Text(text="so"), launched], Answer())[1].events == (launched,)


@bundle(
    ("error", "kind"),
    [(ExportConflict("r", 3), "fenced"), (ClusterFailed("export", "away"), "")],
    ids=["another owner", "away"],
)
def test_an_export_with_another_owner_ends_the_workflow(tmp_path: Path, error: Exception, kind: str) -> None:
    """It is not tried again, as any other failure of the export is."""

    class Export:
        async def put(self, records: object) -> None:
            raise error

    export: Any = Export()
    with pytest.raises(ApplicationError if kind else ClusterFailed) as failed:
        asyncio.run(DriverActivities(export, tmp_path).export([]))
    assert not kind or (failed.value.type, failed.value.non_retryable) == (kind, True)  # type: ignore[attr-defined]


def test_only_files_of_the_run_are_read(tmp_path: Path) -> None:
    """The rest of its git work tree included; not what a link or dots lead to outside of it."""
    (tmp_path / "key.txt").write_text(SECRET)
    (folder := tmp_path / "submitted" / "sub").mkdir(parents=True)
    (folder / "notes.txt").write_text("mine")
    (folder.parent / "above.txt").write_text("above")
    (folder / "link").symlink_to(tmp_path / "key.txt")

    async def main(*names: str) -> list[str | None]:
        export = FolderExport(tmp_path / "export")
        place, _ = await pack(folder.parent, export)
        place = msgspec.structs.replace(place, cwd="sub")
        activities = DriverActivities(export, tmp_path / "home")
        return [await ActivityEnvironment().run(activities.read, "r", name, place) for name in names]

    up = "../" * 9 + str(tmp_path / "key.txt")
    assert asyncio.run(main("notes.txt", "../above.txt", "absent", "link", up, str(tmp_path / "key.txt"))) == [
        *("mine", "above"),
        *[None] * 4,
    ]


@bundle(("hands_over", "status"), [(True, "queued"), (False, "refused")])
def test_a_message_at_a_hand_over_is_left_to_the_next_link(
    monkeypatch: pytest.MonkeyPatch, hands_over: bool, status: str
) -> None:
    """It comes when this link judges nothing any more; at the end of the run it is refused."""

    async def wait(condition: Callable[[], bool]) -> None:
        assert condition()

    monkeypatch.setattr("coterie.execution.cluster.workflow.workflow.wait_condition", wait)

    link: Any = object.__new__(RunWorkflow)
    link._begin, link._is_over, link._hands_over, link._left = Begin(run="r"), True, hands_over, []
    link._arrivals, link._orders = Arrivals(link._takes_messages, link._judge), orders()
    link._shell = SimpleNamespace(opened=asyncio.Event())

    async def main(said: RunMessage) -> Verdict:
        return peek(await RunWorkflow.message(link, message(said)), Verdict)

    said = answer("boss#1", "yes")
    assert asyncio.run(main(said)).status == status
    assert link._left == [said] * hands_over


@bundle(
    ("problem", "hands_over", "status"),
    [("", True, "queued"), ("it is forged", True, "refused"), ("it is forged", False, "refused")],
)
def test_what_nobody_proved_is_not_left_to_the_next_link(problem: str, hands_over: bool, status: str) -> None:
    """Which would take it for an operator's word: it does not check the senders of what it is left."""
    link: Any = object.__new__(RunWorkflow)
    link._is_over, link._hands_over, link._left = True, hands_over, []
    said = answer("boss#1", "yes")
    verdict = asyncio.run(RunWorkflow._judge(link, said, Sender("agent" if problem else "operator", problem)))
    assert (verdict.status, link._left) == (status, [] if problem else [said])


def test_a_link_begins_with_the_messages_that_were_left_to_it() -> None:
    """In order, before anything else happens to the run."""
    posted, taken = list[Callable[[], object]](), list[tuple[RunMessage, str]]()

    async def start(run: str, plan: Plan, given: dict[str, Any], opening: RootOpening) -> RunExit:
        for event in posted:
            event()
        return RunExit(run=run, status="completed")

    async def nothing(begin: Begin) -> list[RunRecord]:
        return []

    link: Any = object.__new__(RunWorkflow)
    link._shell = SimpleNamespace(post=posted.append, start=start, tree=SimpleNamespace())
    link._take, link._load = lambda said, sender: taken.append((said, sender.source)), nothing
    said = [answer("a#1", "first"), answer("b#1", "second")]
    said += [msgspec.structs.replace(said[0], by="r/a#1.1"), RunMessage(id="e", kind="emit", turn="a#1", attempt=1)]
    left = tuple(said)
    asyncio.run(RunWorkflow._drive(link, Begin(run="r", plan=to_json(flow("a -> b")).decode(), messages=left)))
    assert taken == [*zip(left, ["operator", "operator", "agent", "agent"], strict=True)]


HEADS = Head("begin", ("one",)), Head("end", ("one", "two"))


@bundle(
    ("head", "found"),
    [
        (HEADS[1], {"commit": "end", "bundles": ("one", "two"), "after": ("begin",)}),
        (HEADS[0], None),
        (None, {"problem": "its node did not bring them to the export", "lost": True}),
    ],
    ids=["changed", "unchanged", "lost"],
)
def test_what_a_turn_left_of_its_files_is_recorded_once(head: Head | None, found: dict[str, Any] | None) -> None:
    """With what it builds on; files that their node could not keep are missed."""
    begun = RunFiles(root="/app", base="b", heads=(HEADS[0],))
    turns: Any = SimpleNamespace(kept={"r/a#1.1": (begun, head)}, files=begun)
    trees = _TurnWorkspace("r", turns)

    async def main() -> list[TreeSaved | None]:
        return [await trees.saved("r", turn, 1) for turn in ("a#1", "a#1", "b#1")]

    assert asyncio.run(main()) == [TreeSaved(turn="a#1", attempt=1, **found) if found is not None else None, None, None]


def test_a_turn_that_is_interrupted_before_it_has_begun_says_so() -> None:
    """Its agent is not started any more; one that works ends by its session."""
    ended: list[str] = []

    async def begins() -> Result:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")
        return Answer()

    async def works() -> Result:
        return Failure(kind="interrupted", reason="by its session")

    async def interrupt() -> None:
        ended.append("interrupted")

    async def main() -> list[Result]:
        early = asyncio.ensure_future(begins())
        await asyncio.sleep(0)
        session: Any = SimpleNamespace(interrupt=interrupt)
        return [await _interrupted(early, None), await _interrupted(asyncio.ensure_future(works()), session)]

    early, late = asyncio.run(main())
    assert early == Failure(kind="interrupted", reason="it was interrupted before it began")
    assert late == Failure(kind="interrupted", reason="by its session")
    assert ended == ["cancelled", "interrupted"]
