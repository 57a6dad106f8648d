"""`coterie submit`, `serve` and `cluster releases`, whose server is a stand-in: statuses, streams, last lines."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from cluster_answers import Answers, Nodes
from sealing import EXECUTION, raw
from temporalio.client import (
    WorkflowExecutionStatus,
)

from coterie.execution.cluster.address import ClusterAddress
from coterie.execution.cluster.keys import KeyRing
from coterie.execution.cluster.releases import QUEUE
from coterie.execution.cluster.seals import seal
from coterie.execution.cluster.wire import RunDone
from coterie.execution.kernel.run_exit import RunExit
from coterie.history.journal.export import FolderExport
from coterie.history.journal.records import RunStarted
from coterie.interfaces.cli.app import main
from coterie.interfaces.cli.team_file import plan_for_a_run
from coterie.team.planning.loop import LoopGiven
from coterie.team.planning.plan import from_json, to_json

TEAM = """topology team : [pipeline] {
  agent a { extensions { coterie { command: ["true"] } } }
  agent b { extensions { coterie { command: ["true"] queue: "gpu" } } }
  flow { a -> b }
}
"""


class Commands:
    """`coterie` in a folder, whose cluster is the stand-in *client*."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        client: Any = Answers()
        self.client, self.export, self._capsys = client, FolderExport(folder / "export"), capsys
        client.workflow_service = Nodes(["v1"], ["default", "gpu"])
        monkeypatch.chdir(folder)
        monkeypatch.setattr("coterie.execution.cluster.submit.LOOKS", 1)
        monkeypatch.setattr("coterie.execution.cluster.submit.LOOK_EVERY", 0.0)

        @asynccontextmanager
        async def connected(address: ClusterAddress, converter: Any = None) -> AsyncIterator[Any]:
            yield self.client, self.export

        monkeypatch.setattr("coterie.execution.cluster.address.connected", connected)
        self._cluster = f"--cluster=temporal://nowhere:7233/default?export={folder / 'export'}"

    def __call__(self, *words: str, status: int = 0) -> tuple[str, str]:
        assert main([*words, self._cluster]) == status
        said = self._capsys.readouterr()
        return said.out, said.err


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Commands:
    (tmp_path / "team.at").write_text(TEAM)
    return Commands(tmp_path, monkeypatch, capsys)


def test_a_submission_prints_the_id_alone(commands: Commands) -> None:
    """What else is worth a word is on standard error: no node, what was not sent, a second time."""
    commands.client.workflow_service = Nodes(queues=["default"])
    out, err = commands("submit", "team.at", "go", "--no-files", "--id", "one")
    assert out == "one\n"
    assert "no node drives runs or serves the queue 'gpu' now: run one waits for one" in err
    begun = commands.client.known["one"]
    assert (begun.given, begun.files, begun.limits.max_turns) == ({"prompt": "go"}, None, None)

    started = RunStarted(seq=1, run="one", engine="flow", input={"prompt": "go"})
    started = msgspec.structs.replace(started, plan_hash=from_json(begun.plan).content_hash())
    asyncio.run(commands.export.put([("one", started)]))
    commands.client.state = WorkflowExecutionStatus.RUNNING
    out, err = commands("submit", "team.at", "go", "--no-files", "--id", "one", "--json")
    assert msgspec.json.decode(out) == {"run": "one", "submitted": False}
    assert "run one was submitted before, and nothing was started; `coterie resume one` continues it" in err
    assert "no node" not in err


def test_nodes_of_another_release_drive_no_new_run(commands: Commands) -> None:
    """The line names the release that is missing, and the command that lists all."""
    commands.client.workflow_service = nodes = Nodes(["v1"], ["default", "gpu"])
    nodes.current = "v2"
    _, err = commands("submit", "team.at", "go", "--no-files", "--id", "one")
    assert "no node drives runs of the current release v2 (see `coterie cluster releases`) now" in err


def test_a_value_that_looks_secret_is_not_submitted(commands: Commands) -> None:
    """It would be stored on the cluster; the line names the field and says how a node fills it in."""
    Path("team.at").write_text(TEAM.replace('queue: "gpu"', 'env { API_KEY: "sk-ant-0123456789abcdef0123456789" }'))
    out, err = commands("submit", "team.at", "go", "--no-files", "--id", "one", status=2)
    assert "a value that looks secret" in err
    assert "API_KEY; write ${NAME}" in err
    assert (out, commands.client.known) == ("", {})


def test_files_that_look_secret_are_named_and_not_sent(commands: Commands) -> None:
    """Some by name, the others by number, with the option that sends one."""
    for n in range(7):
        Path(f"secret-{n}.pem").write_text("key")
    out, err = commands("submit", "team.at", "go", "--id", "two", "--max-turns", "9")
    assert out == "two\n"
    assert f"not sent, because it looks secret: {', '.join(f'secret-{n}.pem' for n in range(5))} and 2 more" in err
    assert "(--include secret-0.pem sends it)" in err
    assert commands.client.known["two"].files is not None
    assert commands.client.known["two"].limits.max_turns == 9
    _, err = commands("submit", "team.at", "go", "--id", "three", *(f"--include=secret-{n}.pem" for n in range(7)))
    assert "not sent" not in err


@pytest.mark.parametrize(
    ("ended", "reason", "status"), [("completed", "", 0), ("failed", "no", 1), ("stopped", "waiting", 4)]
)
def test_waiting_for_a_submission_ends_as_the_run(commands: Commands, ended: str, reason: str, status: int) -> None:
    """With its outcome, as a run here does; the result alone goes to standard output."""
    left = RunExit(run="one", status=ended, reason=reason, result={"text": "Fine."})

    async def result() -> Any:
        return raw(seal(RunDone(ended=left), KeyRing.of_user(), "end", "one", EXECUTION))

    commands.client.result, commands.client.state = result, WorkflowExecutionStatus.COMPLETED
    plan = plan_for_a_run("team.at", LoopGiven())[0]
    started = RunStarted(
        seq=1,
        run="one",
        engine="flow",
        plan=to_json(plan).decode(),
        plan_hash=plan.content_hash(),
        input={"prompt": "go"},
    )
    asyncio.run(commands.export.put([("one", started)]))
    out, err = commands("submit", "team.at", "go", "--no-files", "--id", "one", "--wait", status=status)
    lines = err.splitlines()

    assert out == ("" if ended == "failed" else "Fine.\n")
    assert "run one goes on on the cluster; Ctrl-C stops only this wait" in lines
    assert any(line.startswith(f"{ended} ({reason}): " if reason else "completed: ") for line in lines)
    assert ("--cluster" in err) == (ended != "completed")
    again = msgspec.json.decode(
        commands("submit", "team.at", "go", "--no-files", "--id", "one", "--wait", "--json", status=status)[0]
    )
    assert (again["outcome"], again["exit"]) == (ended, status)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("serve", "--keep", "7"), "--keep '7' is not an age such as 7d, 12h or 1d12h"),
        (("serve", "--keep", "soon"), "--keep 'soon' is not an age such as 7d, 12h or 1d12h"),
        (("cluster", "releases", "set"), "coterie cluster releases set RELEASE"),
        (("cluster", "releases", "get", "v1"), "coterie cluster releases set RELEASE"),
    ],
)
def test_what_a_node_cannot_take_is_refused_before_it_connects(
    commands: Commands, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], said: str
) -> None:
    """With status 2 and what to write."""
    monkeypatch.setattr("coterie.execution.cluster.node_secrets.hold_back", lambda command: None)
    assert said in commands(*words, status=2)[1]


def test_releases_are_listed_with_what_each_drives(commands: Commands) -> None:
    """The newest first; one can be set to take new runs."""
    commands.client.workflow_service = Nodes(["a", "b", "b"])

    async def count_workflows(query: str) -> Any:
        assert query.endswith("AND ExecutionStatus = 'Running'")
        return SimpleNamespace(count=3 if f"'{QUEUE}:a'" in query else 1)

    commands.client.count_workflows = count_workflows
    head, *rows = [line.split() for line in commands("cluster", "releases")[0].splitlines()]
    assert head == ["release", "nodes", "runs", "since"]
    assert [row[:3] for row in rows] == [["b", "2", "1"], ["b", "2", "1"], ["a", "current", "1"]]
    _, err = commands("cluster", "releases", "set", "c", status=2)
    assert "no node of the release 'c' has served; known: b" in err
    assert commands.client.workflow_service.current == "a"
    commands("cluster", "releases", "set", "b")
    found = msgspec.json.decode(commands("cluster", "releases", "--json")[0])
    assert [(one["name"], one["current"], one["nodes"], one["runs"]) for one in found][1:] == [
        ("b", True, 2, 1),
        ("a", False, 1, 3),
    ]
    commands.client.workflow_service = Nodes()
    assert commands("cluster", "releases")[0] == "no node has served yet\n"


def test_a_command_without_a_cluster_says_how_one_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By an option or the environment."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "team.at").write_text(TEAM)
    monkeypatch.delenv("COTERIE_CLUSTER", raising=False)
    assert main(["submit", "team.at", "go", "--no-files"]) == 2
    assert "which cluster? write --cluster temporal://" in capsys.readouterr().err
