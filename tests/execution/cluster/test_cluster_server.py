"""How the server of a cluster is spoken to, by a stand-in of its client: messages, states, submissions, hand-overs."""

import asyncio
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from bundles import bundle
from cluster_answers import AWAY, GONE, Answers, Never, fails
from loop_projects import project
from repositories import put, repository
from sealing import EXECUTION, charter, orders, raw
from stage import flow
from temporalio.api.failure.v1 import Failure as TemporalFailure
from temporalio.api.history.v1 import (
    HistoryEvent,
    WorkflowTaskCompletedEventAttributes,
    WorkflowTaskFailedEventAttributes,
)
from temporalio.client import (
    WorkflowExecutionStatus,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCStatusCode

from coterie.agents.workspace.notes import NoteSettings
from coterie.errors import ClusterFailed, RunIsOwned, UsageError
from coterie.execution.cluster.address import ClusterAddress
from coterie.execution.cluster.files import Head, RunFiles
from coterie.execution.cluster.keys import KeyRing
from coterie.execution.cluster.relay import tell
from coterie.execution.cluster.runs import ClusterLocation, ClusterRuns, ClusterServer
from coterie.execution.cluster.seals import Sealed, seal, unseal
from coterie.execution.cluster.submit import restart, submit
from coterie.execution.cluster.wire import Begin, RunDone, read_begin
from coterie.execution.cluster.workflow import LEFT, RunWorkflow
from coterie.execution.kernel.run_exit import RunExit
from coterie.execution.runs.messages import RunMessage, Verdict, guidance
from coterie.history.journal.export import FolderExport
from coterie.history.journal.records import (
    ForkedFrom,
    MemoryChanged,
    RunFinished,
    RunOwned,
    RunReopened,
    RunStarted,
    TurnStarted,
)
from coterie.interfaces.cli.team_file import plan_for_a_run
from coterie.team.planning.loop import LoopGiven
from coterie.team.planning.plan import Plan, from_json, to_json

NOT_READY = "Unable to perform workflow execution update due to Workflow Task in failed state."


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ClusterServer]:
    """One whose client does as `Answers` has it: `server._client` is to be set."""
    monkeypatch.setattr("coterie.execution.cluster.runs.TELL_WITHIN", timedelta(milliseconds=1))
    monkeypatch.setattr("coterie.execution.cluster.runs.KNOWN_FOR", 0.0)
    monkeypatch.setattr("coterie.execution.cluster.runs.KNOWN_FOR_EACH", 0.0)
    one = ClusterServer(ClusterAddress.parse(f"temporal://nowhere:7233/default?export={tmp_path / 'export'}"))
    yield one
    one.close()


LATE = "no node has taken it within 0 s; it waits on the cluster for the next node that has the run"
STUCK = "its nodes fail to decide what comes next (`coterie runs` says why); it waits on the cluster for the next node"


@bundle(
    ("update", "signal", "status", "detail"),
    [
        (Verdict(status="accepted", detail="so"), None, "accepted", "so"),
        (None, None, "queued", LATE),
        (WorkflowUpdateRPCTimeoutOrCancelledError(), None, "queued", LATE),
        (fails(RPCStatusCode.FAILED_PRECONDITION, NOT_READY), None, "queued", STUCK),
        (GONE, None, "refused", "nothing on the cluster drives the run: `coterie resume r` goes on with it"),
        (None, GONE, "refused", "nothing on the cluster drives the run"),
        (WorkflowUpdateFailedError(ApplicationError("it completed")), None, "refused", "the run ended before it took"),
        (None, AWAY, "", "the server does not answer"),
        (AWAY, AWAY, "", "the server does not answer"),
    ],
    ids=["answered", "no node", "cut off", "stuck", "unknown", "ended meanwhile", "ended", "away late", "away"],
)
def test_a_message_has_its_effect_or_is_refused(
    server: ClusterServer, update: Any, signal: Exception | None, status: str, detail: str
) -> None:
    """What no node takes in time is left in the history, signed as before; the words are ours."""
    server._client = client = Answers(update, signal)  # type: ignore[assignment]
    message = guidance("be brief")
    if not status:
        with pytest.raises(ClusterFailed, match=detail):
            server.send("r", message)
    else:
        found = server.send("r", message)
        assert (found.status, found.detail[: len(detail)]) == (status, detail)
    assert all(said.content == message.content for _, said in client.done)
    was_left = status == "queued" or signal is not None
    assert [what for what, _ in client.done] == ["update", *([LEFT] if was_left else [])]


@bundle(
    ("update", "status", "detail"),
    [
        (Verdict(status="accepted"), "accepted", ""),
        (GONE, "refused", "the run is over"),
        (WorkflowUpdateFailedError(ApplicationError("it completed")), "refused", "the run ended before it took"),
        (fails(RPCStatusCode.UNAVAILABLE, "Deadline Exceeded"), "queued", "the server does not answer; it is sent"),
        (fails(RPCStatusCode.FAILED_PRECONDITION, NOT_READY), "queued", "its nodes fail to decide what comes next"),
    ],
    ids=["answered", "over", "ended", "away", "stuck"],
)
def test_what_an_agent_says_is_sent_again_until_there_is_a_verdict(
    tmp_path: Path, update: Any, status: str, detail: str
) -> None:
    """Its node keeps it, so nothing is left in the history."""
    client: Any = Answers(update)
    emit = RunMessage(id="e", kind="emit", turn="a#1", attempt=1, event="done")
    found = asyncio.run(tell(client, KeyRing.of_user(), "r", emit))
    assert (found.status, found.detail[: len(detail)]) == (status, detail)
    assert [what for what, _ in client.done] == ["update"]


@bundle(
    ("state", "driven", "known"),
    [
        (WorkflowExecutionStatus.RUNNING, True, "running"),
        (WorkflowExecutionStatus.COMPLETED, False, "failed"),
        (WorkflowExecutionStatus.TERMINATED, False, "failed"),
        (GONE, False, "failed"),
        (AWAY, None, "failed"),
    ],
    ids=["running", "completed", "terminated", "unknown", "away"],
)
def test_a_run_is_driven_while_its_workflow_runs(
    server: ClusterServer, tmp_path: Path, state: Any, driven: bool | None, known: str
) -> None:
    """Of a server that is away nothing is known: then the export tells."""
    records = RunStarted(seq=1, run="r", engine="flow"), RunOwned(seq=2, epoch=1), RunFinished(seq=3, outcome="failed")
    server.background.call(server.export.put([("r", one) for one in records]))
    server._client = Answers(state=state)  # type: ignore[assignment]
    runs = ClusterRuns(server, tmp_path / "state")

    assert runs._is_driven("r") is driven
    assert runs.is_owned("r") is (driven is True)
    assert runs.status("r") == known
    if driven is None:
        with pytest.raises(ClusterFailed):
            server.is_driven("r")


# -- submissions ------------------------------------------------------------------------------------------------------


def test_a_run_that_the_cluster_drives_is_not_driven_here_too(server: ClusterServer, tmp_path: Path) -> None:
    """Neither brought to this machine nor resumed; the reason names the cluster."""
    server._client = Answers(state=WorkflowExecutionStatus.RUNNING)  # type: ignore[assignment]
    runs = ClusterRuns(server, tmp_path / "state")
    export, started = FolderExport(tmp_path / "export"), RunStarted(seq=1, run="r", engine="flow")
    asyncio.run(export.put([("r", started)]))

    async def nothing(run: str) -> None:
        return None

    server.catch_up = nothing  # type: ignore[method-assign]
    for work in (lambda: runs.here("r", str), lambda: asyncio.run(runs.resume("r"))):
        with pytest.raises(RunIsOwned, match="nowhere:7233"):
            work()
    assert not (tmp_path / "state" / "runs").exists()


def test_a_fork_on_a_cluster_began_when_it_was_made(tmp_path: Path) -> None:
    """Not with the records that it shares."""
    export = FolderExport(tmp_path / "export")
    first = RunStarted(seq=1, run="r", engine="flow", topology="team", at=10.0)
    shared = [
        msgspec.structs.replace(first, run="f", forked_from=ForkedFrom(run="r", seq=2)),
        RunOwned(seq=2, epoch=1, at=20.0),
    ]
    asyncio.run(export.put([("r", first), *(("f", one) for one in (*shared, RunOwned(seq=3, epoch=2, at=50.0)))]))
    address = ClusterAddress.parse(f"temporal://nowhere:7233/default?export={tmp_path / 'export'}")
    location = ClusterLocation(address, tmp_path / "state")
    try:
        assert {entry.run: (entry.started, entry.topology) for entry in location.newest()} == {
            "r": (10.0, "team"),
            "f": (50.0, "team"),
        }
    finally:
        location.close()


def submitted(client: Any, keep: Path, plan: Plan, prompt: str, folder: Path | None = None) -> bool:
    return asyncio.run(submit(client, FolderExport(keep), plan, {"prompt": prompt}, run="one", folder=folder))[1]


def test_the_same_submission_is_the_same_run(tmp_path: Path) -> None:
    """Another input or another team is an error, whether its journal has begun or ended."""
    client, plan = Answers(state=WorkflowExecutionStatus.RUNNING), flow("a -> b")
    assert submitted(client, tmp_path, plan, "go")
    begin = client.known["one"]
    assert (from_json(begin.plan), begin.given, begin.files) == (plan, {"prompt": "go"}, None)
    started = RunStarted(seq=1, run="one", engine="flow", plan_hash=plan.content_hash(), input={"prompt": "go"})
    asyncio.run(FolderExport(tmp_path).put([("one", started)]))

    assert not submitted(client, tmp_path, plan, "go")
    with pytest.raises(UsageError, match="with another input"):
        submitted(client, tmp_path, plan, "stay")
    with pytest.raises(UsageError, match="of another plan"):
        submitted(client, tmp_path, flow("a -> c"), "go")
    assert [what for what, _ in client.done] == ["new"]


def test_a_loop_is_submitted_and_reloaded_with_texts_for_the_copies_of_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without files its nodes have them where they are, and its texts say so."""
    home = repository(tmp_path / "home")
    monkeypatch.chdir(home)
    put(project(home / "loop", ""), "harness.md", "{{STATE_DIR}}")
    plan, client, export = plan_for_a_run("loop", LoopGiven())[0], Answers(), FolderExport(tmp_path / "export")

    def harness(begin: Begin) -> str:
        found: str = from_json(begin.plan).coordination.harness
        return found

    assert submitted(client, tmp_path / "export", plan, "go", home)
    begun = client.known["one"]
    assert harness(begun) == ".autoloop"
    assert begun.files is not None
    assert asyncio.run(submit(client, export, plan, {"prompt": "go"}, run="two"))[1]  # type: ignore[arg-type]
    assert harness(client.known["two"]) == f"{home}/.autoloop"
    recorded = RunStarted(seq=1, run="one", engine="loop", plan=to_json(plan).decode())
    asyncio.run(export.put([("one", recorded)]))
    asyncio.run(restart(client, export, "one", reload=plan, files=begun.files))  # type: ignore[arg-type]
    assert [what for what, _ in client.done] == ["new", "new", "again"]
    again = client.known["one"]
    assert (harness(again), again.reloaded, again.folds) == (".autoloop", True, True)


# -- hand-overs -------------------------------------------------------------------------------------------------------


class NextLink(Exception):
    """The next link is begun; *begin* is what it gets."""

    def __init__(self, begin: Begin, **how: object) -> None:
        self.begin = begin


@bundle(
    ("hands_over", "ended", "goes_on"),
    [
        (True, RunExit(run="r", status="stopped"), True),
        (True, RunExit(run="r", status="stopped", reason="by an operator"), False),
        (True, RunExit(run="r", status="completed"), False),
        (False, RunExit(run="r", status="stopped"), False),
    ],
    ids=["at rest", "stopped meanwhile", "ended meanwhile", "not handed over"],
)
def test_a_run_that_came_to_rest_is_handed_over_with_all_it_has(
    monkeypatch: pytest.MonkeyPatch, hands_over: bool, ended: RunExit, goes_on: bool
) -> None:
    """The next link folds the journal; what was to happen once, at its beginning, does not happen again."""

    async def at_once(condition: Callable[[], bool]) -> None:
        return

    def next_link(sealed: Sealed, **how: object) -> None:
        raise NextLink(read_begin(sealed, "r")[0])

    info = SimpleNamespace(typed_search_attributes={})
    stand_in = {"wait_condition": at_once, "continue_as_new": next_link, "info": lambda: info}
    for name, one in (stand_in | {"set_current_details": str}).items():
        monkeypatch.setattr(f"coterie.execution.cluster.workflow.workflow.{name}", one)
    begin = Begin(
        run="r", plan="{}", given={"prompt": "go"}, reopened=RunReopened(), reloaded=True, summary="s", link_events=9
    )
    begin = msgspec.structs.replace(begin, charter=charter()[0])
    left, files = guidance("be brief"), RunFiles(root="/app", base="b", heads=(Head("c", ("d",)),))
    link: Any = object.__new__(RunWorkflow)
    link._begin, link._details, link._left, link._hands_over, link._is_over = begin, "", [left], hands_over, False
    link._turns, link._orders = SimpleNamespace(files=files), orders()
    link._arrivals = SimpleNamespace(spent=["w"])

    async def drive(begin: Begin) -> RunExit:
        return ended

    async def export() -> None:
        await exported.wait()

    async def main() -> Any:
        link._drive, link._exporter = drive, SimpleNamespace(run=export, end=lambda: exported.set())
        return await RunWorkflow.run(link, raw(begin))

    exported = asyncio.Event()
    if not goes_on:
        done = unseal(asyncio.run(main()), KeyRing.of_user().trusted, RunDone, "end", "r", EXECUTION)
        assert (done.ended, done.files) == (ended, files)
    else:
        with pytest.raises(NextLink) as found:
            asyncio.run(main())
        kept = {"plan": "", "folds": True, "reloaded": False, "reopened": None, "messages": (left,), "files": files}
        kept |= {"after": EXECUTION, "withdrawals": ("w",)}
        assert found.value.begin == msgspec.structs.replace(begin, **kept)
    assert link._is_over
    assert exported.is_set()


@pytest.mark.parametrize(
    ("suggested", "events", "most", "over"),
    [(False, 10, 0, False), (True, 10, 0, True), (False, 9, 10, False), (False, 10, 10, True)],
)
def test_a_link_ends_when_its_history_is_long(
    monkeypatch: pytest.MonkeyPatch, suggested: bool, events: int, most: int, over: bool
) -> None:
    """As the server suggests, or a test; once it is decided the run comes to rest at each further record."""
    info = SimpleNamespace(is_continue_as_new_suggested=lambda: suggested, get_current_history_length=lambda: events)
    monkeypatch.setattr("coterie.execution.cluster.workflow.workflow.info", lambda: info)
    link: Any = object.__new__(RunWorkflow)
    rests: list[int] = []
    link._begin, link._hands_over = Begin(run="r", link_events=most), False
    link._exporter, link._details = SimpleNamespace(lines=[]), SimpleNamespace(take=lambda run, record: False)
    link._shell = SimpleNamespace(hand_over=lambda: rests.append(1))
    link._appended("r", record := RunOwned(seq=2, epoch=1))
    assert (link._hands_over, len(rests), link._exporter.lines) == (over, int(over), [("r", record)])
    suggested, events = False, 0
    link._appended("r", RunOwned(seq=3, epoch=2))
    assert len(rests) == 2 * over


# -- reading ----------------------------------------------------------------------------------------------------------


def test_notes_of_a_run_are_those_of_its_records_and_of_its_parent(server: ClusterServer, tmp_path: Path) -> None:
    """A child run shares those of its parent only where its settings say so."""

    def entry(text: str) -> dict[str, Any]:
        return {"id": text}

    records = [
        ("r", RunStarted(seq=1, run="r", engine="flow")),
        ("r", TurnStarted(seq=2, turn="a#1", agent="a")),
        ("r", MemoryChanged(seq=3, message="m", entries=(entry("of the root"),), project=(entry("of all"),))),
        ("r/a#1.1", RunStarted(seq=1, run="r/a#1.1", engine="loop")),
        ("r/a#1.1", MemoryChanged(seq=2, message="m", entries=(entry("of the child"),))),
        ("r", RunFinished(seq=4, outcome="completed")),
    ]
    server.background.call(server.export.put(records))
    server._client = Answers(state=GONE)  # type: ignore[assignment]
    runs = ClusterRuns(server, tmp_path / "state")
    (tmp_path / "memory.jsonl").write_bytes(b"")
    settings = NoteSettings(memory=tmp_path / "memory.jsonl", tasks=tmp_path / "tasks.jsonl")

    def own(run: str, settings: NoteSettings | None) -> tuple[list[str], list[str]]:
        project, of_run = runs.notes(run, settings, "memory").read()
        return [one["id"] for one in project], [one["id"] for one in of_run or []]

    assert own("r", settings) == (["of all"], ["of the root"])
    assert own("r/a#1.1", settings) == (["of all"], ["of the child"])
    assert own("r/a#1.1", msgspec.structs.replace(settings, of_parent=True)) == (["of all"], ["of the root"])
    assert own("r", None) == (["of all"], ["of the root"])


def workflow(since: float, attempt: int, release: str = "") -> Any:
    """How the server describes a workflow whose task was scheduled then, and is tried for the n-th time."""
    at = SimpleNamespace(ToNanoseconds=lambda: int(since * 1e9))
    task = SimpleNamespace(original_scheduled_time=Never(), scheduled_time=at, attempt=attempt)
    version = SimpleNamespace(deployment_version=SimpleNamespace(build_id=release))
    raw = SimpleNamespace(pending_workflow_task=task, workflow_execution_info=SimpleNamespace(versioning_info=version))
    return SimpleNamespace(status=WorkflowExecutionStatus.RUNNING, raw_description=raw)


def failed_with(message: str) -> HistoryEvent:
    return HistoryEvent(
        workflow_task_failed_event_attributes=WorkflowTaskFailedEventAttributes(
            failure=TemporalFailure(message=message)
        )
    )


DONE = HistoryEvent(workflow_task_completed_event_attributes=WorkflowTaskCompletedEventAttributes())


@bundle(
    ("age", "attempt", "release", "events", "reason"),
    [
        (0.0, 9, "v1", [failed_with("it broke")], ""),
        (1000.0, 1, "", [failed_with("of before")], "no node takes it up"),
        (1000.0, 1, "v1", [], "no node takes it up (release v1)"),
        (1000.0, 3, "v1", [failed_with("it\n  broke")], "its workflow task failed 2 times: it broke (release v1)"),
        (1000.0, 3, "", [DONE, failed_with("of before")], "no node takes it up"),
        (1000.0, 3, "", [], "no node takes it up"),
    ],
    ids=["young", "first try", "of a release", "failing", "went on since", "died"],
)
def test_a_run_that_does_not_go_on_says_why(
    server: ClusterServer, age: float, attempt: int, release: str, events: list[HistoryEvent], reason: str
) -> None:
    """After a time: its nodes fail, or there is none; what failed before the last success does not count."""
    since = time.time() - age
    client: Any = Answers(state=None)

    async def describe() -> Any:
        return workflow(since, attempt, release)

    async def history(asked: Any) -> Any:
        assert (asked.namespace, asked.execution.workflow_id) == ("default", "r")
        return SimpleNamespace(history=SimpleNamespace(events=events))

    client.describe, client.workflow_service = describe, SimpleNamespace(get_workflow_execution_history_reverse=history)
    server._client = client
    found = server.status("r")

    assert found is not None
    assert (found.state, found.reason) == ("running", reason)


def test_what_is_not_exported_yet_is_asked_of_the_workflow(server: ClusterServer) -> None:
    """Of a run that is driven; a server that did not answer once is not asked for each run of a list."""
    asked: list[dict[str, int]] = []
    client: Any = Answers(state=WorkflowExecutionStatus.RUNNING)
    newest = [("r", RunOwned(seq=2, epoch=1))]

    async def query(name: str, known: dict[str, int], **how: Any) -> Any:
        assert name == "newest"
        asked.append(known)
        if isinstance(newest, Exception):
            raise newest
        return raw(seal(newest, KeyRing.of_user(), "newest", "r"))

    client.query = query
    server._client = client
    assert server.newest("r", 1) == [RunOwned(seq=2, epoch=1)]
    assert server.newest("r/a#1.1", 7) == [RunOwned(seq=2, epoch=1)]
    assert asked == [{"r": 1}, {"r/a#1.1": 7}]
    client.state = WorkflowExecutionStatus.COMPLETED
    assert server.newest("r", 1) == []
    client.state, newest = WorkflowExecutionStatus.RUNNING, AWAY  # type: ignore[assignment]
    assert server.newest("r", 1) == []
    client.state, newest = WorkflowExecutionStatus.RUNNING, [("r", RunOwned(seq=2, epoch=1))]
    assert server.newest("r", 1) == []
    assert len(asked) == 3


def test_what_a_terminated_workflow_has_written_is_exported_before_the_run_goes_on(server: ClusterServer) -> None:
    """Until nothing is new, child runs that began meanwhile included."""
    more = [
        [("r", TurnStarted(seq=3, turn="a#1", agent="a", attempt=1))],
        [("r/a#1.1", RunStarted(seq=1, run="r/a#1.1", engine="flow"))],
        [],
    ]
    asked: list[dict[str, int]] = []
    client: Any = Answers()

    async def query(name: str, known: dict[str, int], **how: Any) -> Any:
        asked.append(dict(known))
        return raw(seal(more.pop(0), KeyRing.of_user(), "newest", "r"))

    client.query = query
    server._client = client
    begun = [("r", RunStarted(seq=1, run="r", engine="flow")), ("r", RunOwned(seq=2, epoch=1))]
    server.background.call(server.export.put(begun))
    server.background.call(server.catch_up("r"))

    assert asked == [{"r": 2}, {"r": 3, "r/a#1.1": 0}, {"r": 3, "r/a#1.1": 1}]
    assert [(run, one.seq) for run, one in server.background.call(server.export.load("r"))] == [
        ("r", 1),
        ("r", 2),
        ("r", 3),
        ("r/a#1.1", 1),
    ]
