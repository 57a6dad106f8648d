"""What a node says of its release, of its server, and of runs that do not go on."""

import asyncio
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from bundles import bundle
from cluster_stage import MemoryExport, Server, node_of
from stage import Cast, flow
from temporalio.api.workflowservice.v1 import DescribeWorkerDeploymentResponse
from temporalio.service import RPCError, RPCStatusCode

from coterie.execution.cluster import releases, runs, serve
from coterie.execution.cluster.address import ClusterAddress
from coterie.execution.cluster.labels import PROJECT, STATE, TEAM, RunDetails, attributes, summary
from coterie.execution.cluster.releases import build_id
from coterie.execution.cluster.runs import ClusterServer
from coterie.execution.cluster.submit import ended, submit
from coterie.execution.cluster.workflow import RunWorkflow
from coterie.history.journal.export import FolderExport
from coterie.history.journal.records import RunOwned, TurnFinished, TurnStarted


def test_a_release_is_its_version_and_its_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same code has the same name, wherever it lies; another line or another file has another one.

    So has another role of a preset, and what Python has compiled has none.
    """
    named: list[str] = []
    for at, text in (("a", "1"), ("b", "1"), ("c", "2"), ("d", "1"), ("e", "1")):
        (tmp_path / at / "sub" / "__pycache__").mkdir(parents=True)
        (tmp_path / at / "sub" / "role.md").write_text("other" if at == "e" else "same")
        (tmp_path / at / "sub" / "__pycache__" / "one.pyc").write_text(at)
        (tmp_path / at / "sub" / ("one.py" if at != "d" else "two.py")).write_text(text)
        monkeypatch.setattr("coterie.base.version.__file__", str(tmp_path / at / "base" / "version.py"))
        named.append(build_id.__wrapped__())
    assert named[0] == named[1]
    assert len({*named}) == 4
    assert all(name.startswith("0.") for name in named)


def test_a_node_that_the_server_cannot_answer_now_asks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where many start at once: it must not end, for runs would wait for it. A refusal for good is none of that."""
    monkeypatch.setattr(releases, "ASK_EVERY", 0.0)
    busy, lost, refused = (
        RPCError(said, status, b"")
        for said, status in (
            ("too many requests", RPCStatusCode.RESOURCE_EXHAUSTED),
            ("another node was first", RPCStatusCode.FAILED_PRECONDITION),
            ("not for you", RPCStatusCode.PERMISSION_DENIED),
        )
    )
    none, other = DescribeWorkerDeploymentResponse(conflict_token=b"1"), DescribeWorkerDeploymentResponse()
    other.worker_deployment_info.routing_config.current_deployment_version.build_id = "other"
    script: list[DescribeWorkerDeploymentResponse | RPCError] = [busy, busy, none, lost, other, refused, none, none]
    tokens, said = list[bytes](), list[str]()

    async def answers(asked: Any, retry: bool) -> Any:
        tokens.append(getattr(asked, "conflict_token", b""))
        if isinstance(found := script.pop(0), RPCError):
            raise found
        return found

    service = SimpleNamespace(describe_worker_deployment=answers, set_worker_deployment_current_version=answers)
    client: Any = SimpleNamespace(namespace="default", workflow_service=service)
    assert asyncio.run(releases.claim_current(client, "mine", said.append)) == "other"
    assert tokens == [b"", b"", b"", b"1", b""]
    assert len(said) == 1
    assert "too many requests" in said[0]
    with pytest.raises(RPCError, match="not for you"):
        asyncio.run(releases.claim_current(client, "mine"))
    assert asyncio.run(releases.claim_current(client, "mine")) == "mine"


@pytest.mark.slow
def test_a_workflow_task_that_fails_is_reported(
    temporal_server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the node that it fails on, and in the status of the run, which `runs` and `attention` show."""
    monkeypatch.setattr(runs, "STUCK_AFTER", 0.0)
    said: list[str] = []

    def broken(self: RunWorkflow, *words: object) -> None:
        raise RuntimeError("decides otherwise")

    monkeypatch.setattr(RunWorkflow, "_appended", broken)
    export = FolderExport(tmp_path / "export")
    server = ClusterServer(ClusterAddress.parse(f"{temporal_server.url}?export={tmp_path / 'export'}"))

    async def main() -> str:
        async with node_of(temporal_server, export, Cast({}), tmp_path, tell=said.append) as client:
            await submit(client, export, flow("a -> b"), {"prompt": "go"}, run=tmp_path.name)
            async with asyncio.timeout(60):
                found = None
                while found is None or "failed" not in found.reason:
                    found = await server.wait(server._status(tmp_path.name))
            await client.get_workflow_handle(tmp_path.name).terminate()
            return found.reason

    reason = asyncio.run(main())
    server.close()
    assert "decides otherwise" in reason
    assert [one for one in said if "a workflow task failed" in one and "decides otherwise" in one]


def test_what_goes_on_is_told_when_a_turn_begins_or_ends() -> None:
    """Each text is an event of the server's history, so no other record brings one."""
    details = RunDetails("two agents")

    assert [details.take("r", TurnStarted(turn=name, agent=name[0])) for name in ("a#1", "b#1")] == [True, True]
    assert str(details).endswith("0 turns ended here; running: a#1, b#1")
    assert details.take("r", TurnFinished(turn="a#1", attempt=1))
    assert not details.take("r", RunOwned(epoch=2))
    assert str(details).endswith("1 turns ended here; running: b#1")


def test_names_that_the_server_would_refuse_are_cut(tmp_path: Path) -> None:
    """Long ones, and those that are no text: a run must not fail for its label."""
    plan, given = msgspec.structs.replace(flow("a -> b"), name="é\n" * 300), {"prompt": "x\n\ud800" + "ü" * 500}
    said = summary(plan, given)
    assert said.startswith("é é")
    assert ": x ?üü" in said
    assert len(said.encode()) <= 400

    class Knows:
        namespace = "default"

        async def list_search_attributes(self, asked: object) -> Any:
            return SimpleNamespace(custom_attributes=dict.fromkeys([TEAM.name, PROJECT.name, STATE.name]))

    client: Any = SimpleNamespace(namespace="default", operator_service=Knows())
    found = asyncio.run(attributes(client, plan, tmp_path / "p\udcff"))
    assert found is not None
    assert len(str(found[TEAM]).encode()) <= 200
    assert found[PROJECT] == "p?"


@pytest.mark.slow
def test_the_page_of_the_server_shows_team_prompt_and_state(temporal_server: Server, tmp_path: Path) -> None:
    """A prompt of many lines is one short line; runs are found by team, project and state, in any link."""
    export, run, cast = MemoryExport(), tmp_path.name, Cast({}, seconds=0.0)

    async def main() -> None:
        async with node_of(temporal_server, export, cast, tmp_path) as client:
            given = {"prompt": "write\nit \ud800 " + "long " * 100}
            plan = flow("a -> b -> c -> d -> e")
            await submit(client, export, plan, given, run=run, folder=tmp_path, link_events=20)
            assert (await asyncio.wait_for(ended(client, run), 60)).status == "completed"
            handle = client.get_workflow_handle(run)
            found = await handle.describe()
            shown = found.typed_search_attributes
            assert [shown.get(key) for key in (TEAM, PROJECT, STATE)] == ["test", tmp_path.name, "completed"]
            metadata = await handle.query("__temporal_workflow_metadata")
            said = str(metadata)
            assert "test: write it ? long" in said
            assert "long " * 20 not in said
            assert "running: none" in said

    asyncio.run(main())


@bundle(
    ("logger", "said", "error", "told"),
    [
        (
            "temporalio.worker",
            "Failed",
            RuntimeError("it broke"),
            "a workflow task failed and is tried again: Failed: ",
        ),
        ("temporalio.activity", "Failed", RuntimeError("no"), "an activity failed and is tried again: Failed: Runtime"),
        ("temporalio.worker", "Failed", asyncio.CancelledError(), ""),
        (
            "temporalio.worker",
            "Evicting: Nondeterminism",
            None,
            "a workflow task failed and is tried again: Evicting: ",
        ),
        ("temporalio.worker", "Nondeterminism", asyncio.CancelledError(), "a workflow task failed and is tried again"),
        ("temporalio.worker", "Worker started", None, ""),
    ],
    ids=["a task", "an activity", "cancelled", "evicted", "evicted while it ends", "other words"],
)
def test_a_failed_task_is_reported_in_one_line(logger: str, said: str, error: BaseException | None, told: str) -> None:
    """Its run does not go on: a replay that differs is only logged as an eviction."""
    heard: list[str] = []
    with (report := serve.Failures(heard.append)).listens():
        given = (type(error), error, None) if error is not None else None
        logging.getLogger(logger).log(logging.WARNING, said, exc_info=given)
    assert [one[: len(told)] for one in heard] == [told] * bool(told)
    assert report not in logging.getLogger(logger).handlers
    assert logging.getLogger(logger).propagate


@pytest.mark.parametrize(("silent", "within", "cuts"), [(1, 0.0, 0), (3, 60.0, 0), (5, 0.0, 1)])
def test_a_node_says_once_that_its_server_is_away_and_once_that_it_is_back(
    monkeypatch: pytest.MonkeyPatch, silent: int, within: float, cuts: int
) -> None:
    """Not for a short silence; its turns are given up after the time without an answer, once."""
    monkeypatch.setattr(serve, "LOOK_EVERY", 0.001)
    left, said, over = iter([True] * silent), list[str](), asyncio.Event()

    async def info(*_: object, **options: object) -> None:
        if next(left, False):
            raise RPCError("away", RPCStatusCode.UNAVAILABLE, b"")
        over.set()

    def cut_off() -> bool:
        turns.is_cut_off = True
        return True

    client: Any = SimpleNamespace(workflow_service=SimpleNamespace(get_system_info=info))
    turns: Any = SimpleNamespace(is_cut_off=False, cut_off=cut_off)

    async def main() -> None:
        keeping = asyncio.create_task(serve.keep_contact(client, turns, said.append, within))
        await over.wait()
        await asyncio.sleep(0)
        keeping.cancel()
        await asyncio.wait([keeping])

    asyncio.run(main())
    whole = ["the server does not answer; this node waits for it"]
    whole += ["its turns are interrupted: other nodes may have them by now"] * cuts + ["the server answers again"]
    assert said == (whole if silent >= serve.SAID_AFTER else [])
    assert not turns.is_cut_off
