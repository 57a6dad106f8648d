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
from stage import flow
from temporalio.converter import DataConverter
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode
from temporalio.testing import ActivityEnvironment
from until import soon

from coterie.backends.base import Answer, Event, Failure, Launched, Permission, Text, Tool
from coterie.cluster.activities import DriverActivities, TurnActivities, _Attempt, beats_after
from coterie.cluster.files import pack
from coterie.cluster.wire import Begin, MsgspecConverter, TurnDone, TurnHeard
from coterie.cluster.workflow import RunWorkflow
from coterie.errors import ClusterFailed, ExportConflict
from coterie.journal.export import FolderExport
from coterie.kernel.opening import RootOpening
from coterie.kernel.run_exit import RunExit
from coterie.planning.plan import Plan, to_json
from coterie.runs.attempt_folders import AttemptFolders
from coterie.runs.messages import RunMessage, Verdict, answer
from coterie.runs.messages.verdicts import Sender
from coterie.runs.repository import Runs

SECRET = "s3cr3t-of-the-user"


class Heard:
    """A client of Temporal that keeps the signals it is to send."""

    def __init__(self) -> None:
        self.signals: list[TurnHeard] = []
        self.fails: list[RPCStatusCode] = []

    def get_workflow_handle(self, run: str) -> Any:
        async def signal(name: str, heard: TurnHeard) -> None:
            if self.fails:
                raise RPCError("no", self.fails.pop(0), b"")
            self.signals.append(heard)

        return SimpleNamespace(signal=signal)


def attempted(
    folder: Path, events: Sequence[Event], result: Answer | Failure, *fails: RPCStatusCode
) -> tuple[list[TurnHeard], TurnDone]:
    """What a workflow hears of an attempt whose agent has a secret in its environment, and its end."""
    client: Any = Heard()
    client.fails += fails

    async def main() -> TurnDone:
        asked = request(agent(env={"API_KEY": SECRET}))
        attempt = _Attempt(client, "node", asked, AttemptFolders(Runs(folder)))
        for event in events:
            attempt.on_event(event)
        while attempt._telling:
            await attempt._telling.pop()
        return attempt.done(result, None)

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
    monkeypatch.setattr("coterie.cluster.activities.HEARTBEAT_EVERY", 0.0)
    assert len(attempted(tmp_path, [Permission(id="p1", tool="rm")], Answer(), status)[0]) == heard


def test_a_turn_begins_once_the_server_still_wants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """While it does not answer, the node asks on; a refusal means that another one has the turn."""
    monkeypatch.setattr("coterie.cluster.activities.HEARTBEAT_EVERY", 0.0)
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
        attempt = _Attempt(client, "node", request(agent()), AttemptFolders(Runs(tmp_path)))
        beating = asyncio.create_task(attempt.beat(7.0))
        await soon(lambda: len(seen) >= 4)
        beating.cancel()

    monkeypatch.setattr("coterie.cluster.activities.beats_after", pause)
    activity = ActivityEnvironment()
    activity.on_heartbeat = lambda *details: seen.append("beat")
    asyncio.run(activity.run(main))
    assert seen[:4] == ["at most 7 s", "beat"] * 2


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

    monkeypatch.setattr("coterie.cluster.workflow.workflow.wait_condition", wait)

    async def proved(name: str, *, args: object, **options: object) -> Sender:
        return Sender("operator")

    monkeypatch.setattr("coterie.cluster.workflow.workflow.execute_activity", proved)
    link: Any = object.__new__(RunWorkflow)
    link._begin, link._is_over, link._hands_over, link._left = Begin(run="r"), True, hands_over, []
    link._shell = SimpleNamespace(opened=asyncio.Event())

    async def main(said: RunMessage) -> Verdict:
        verdict: Verdict = await RunWorkflow.message(link, said)
        return verdict

    said = answer("boss#1", "yes")
    assert asyncio.run(main(said)).status == status
    assert link._left == [said] * hands_over


def test_a_link_begins_with_the_messages_that_were_left_to_it() -> None:
    """In order, before anything else happens to the run."""
    posted, taken = list[Callable[[], object]](), list[RunMessage]()

    async def start(run: str, plan: Plan, given: dict[str, Any], opening: RootOpening) -> RunExit:
        for event in posted:
            event()
        return RunExit(run=run, status="completed")

    link: Any = object.__new__(RunWorkflow)
    link._shell = SimpleNamespace(post=posted.append, start=start, tree=SimpleNamespace())
    link._take = lambda said, sender: taken.append(said)
    left = (answer("a#1", "first"), answer("b#1", "second"))
    asyncio.run(RunWorkflow._drive(link, Begin(run="r", plan=to_json(flow("a -> b")).decode(), messages=left)))
    assert taken == [*left]
