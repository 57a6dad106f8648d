"""The runs of a cluster are shown, controlled, resumed and forked as those of this machine."""

import asyncio
import json
import os
import re
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from subprocess import CompletedProcess

import preforked
import pytest
from cluster_stage import WITHIN, Server, serving
from command_line import Place, make
from until import until

from coterie.execution.cluster.address import ClusterAddress, connected
from coterie.execution.cluster.runs import ClusterLocation
from coterie.execution.runs.repository import find
from coterie.history.journal.records import RunFinished

_TIMES = (
    (r"\b\d+:\d\d\.\d\b", "00:00.0"),
    (r"(\d+ min )?\d+(\.\d+)? (s|ms)\b", "0 s"),
    (r"process \d+", "process 0"),
    (r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d", "then"),
    (r"\b\d+\.\d\n", "0.0\n"),
    (r" {2,}", "  "),
)


_TOOL = 'extensions { coterie { command: ["sh", "-c", "DOES"] } }'
HEALS = f"""
topology heals : [pipeline] {{
  agent first {{ {_TOOL.replace("DOES", "echo first")} }}
  agent second {{ {_TOOL.replace("DOES", "HEALS")} }}
  flow {{ first -> second }}
}}
"""
AROUND = f"""
topology around : [pipeline] {{
  agent go {{ {_TOOL.replace("DOES", "echo go")} }}
  agent ill {{ extensions {{ coterie {{ topology: "heals.at" }} }} }}
  agent last {{ {_TOOL.replace("DOES", "sleep 1 && echo last")} }}
  flow {{ go -> ill -> last }}
}}
"""


@dataclass
class Stage:
    """A cluster with one node, and `coterie` called beside it and for it."""

    place: Place
    url: str
    patch: pytest.MonkeyPatch
    pool: ThreadPoolExecutor

    def there(self, *words: str, status: int = 0) -> str:
        """What a command says of the cluster."""
        with self.patch.context() as patch:
            patch.setenv("COTERIE_CLUSTER", self.url)
            return self.place.call(*words, status=status).out

    def complaint(self, *words: str, status: int = 1) -> str:
        with self.patch.context() as patch:
            patch.setenv("COTERIE_CLUSTER", self.url)
            return self.place.call(*words, status=status).err

    def beside(self, *words: str) -> "Future[CompletedProcess[str]]":
        """What a command says that goes on meanwhile."""
        return self.pool.submit(preforked.run, *words, cwd=self.place.folder, env=self.env)

    @property
    def env(self) -> dict[str, str]:
        """The environment of a command for the cluster."""
        return os.environ | {"COTERIE_CLUSTER": self.url}

    def until(self, word: str, *words: str) -> str:
        """What the command says once *word* is in it."""
        until(lambda: word in self.there(*words), WITHIN)
        return self.there(*words)

    def end(self, run: str) -> None:
        """Terminate the workflow of *run*, as an operator does when it is stuck."""

        async def main() -> None:
            async with connected(ClusterAddress.parse(self.url)) as (client, _):
                await client.get_workflow_handle(run).terminate()

        asyncio.run(main())


@pytest.fixture(scope="module")
def stage(
    temporal_server: Server, new_export: Callable[[], str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("cluster")
    url = f"{temporal_server.url}?export={new_export()}"
    place = make(folder)
    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor() as pool:
        patch.setenv("COLUMNS", "200")
        patch.setenv("COTERIE_CLUSTER_KEY", str(folder / "cluster.key"))  # each test has a home of its own
        with serving(folder, url):
            yield Stage(place, url, patch, pool)


def plain(text: str, run: str) -> str:
    for pattern, word in _TIMES:
        text = re.sub(pattern, word, text.replace(run, "RUN"))
    return text


@pytest.mark.slow
def test_every_view_of_a_run_is_that_of_a_run_of_this_machine(stage: Stage) -> None:
    """Nested teams, too: timeline, turns, causes, usage, plan, replay, statistics; only ids and times differ."""
    stage.place.call("run", "nested.at", "do it")
    [local] = json.loads(stage.place.call("runs", "--json").out)
    stage.there("submit", "nested.at", "--no-files", "do it", "--id", "far", "--wait")
    [far] = json.loads(stage.there("runs", "--json"))

    for key in ("topology", "state", "reason", "prompt", "turns", "iterations", "cost"):
        assert far[key] == local[key], key
    assert far["folder"] == str(ClusterAddress.parse(stage.url))
    inner = "inner#1.1"
    for words in (
        ["inspect", "RUN"],
        ["inspect", f"RUN/{inner}"],
        ["inspect", "RUN", "turn", "publisher#1"],
        ["inspect", f"RUN/{inner}", "prompt", "reviewer#2"],
        ["inspect", f"RUN/{inner}", "output", "reviewer#2"],
        ["inspect", f"RUN/{inner}", "why", "writer#2"],
        ["inspect", "RUN", "usage", "--by", "role"],
        ["inspect", "RUN", "topology"],
        ["logs", "RUN"],
        ["logs", f"RUN/{inner}", "writer#2"],
        ["replay", "RUN"],
        ["stats"],
    ):
        here = stage.place.call(*[word.replace("RUN", local["run"]) for word in words]).out
        there = stage.there(*[word.replace("RUN", "far") for word in words])
        assert plain(there, "far") == plain(here, local["run"]), words
    records = [json.loads(line) for line in stage.there("inspect", "far", "journal").splitlines()]
    assert {"run.started", "run.finished"} < {record["topic"] for record in records}
    assert "completed" in stage.there("watch", "far")


def test_an_export_is_read_while_the_server_is_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that stopped is listed and watched by its last record; only what changes it needs the server."""
    place = make(tmp_path)
    place.call("run", "human.at", "decide", status=4)
    [run] = json.loads(place.call("runs", "--json").out)
    monkeypatch.setenv("COTERIE_CLUSTER", f"temporal://127.0.0.1:9/default?export={tmp_path / '.coterie'}")
    [there] = json.loads(place.call("runs", "--json").out)
    assert there["state"] == run["state"] == "stopped: waiting"
    assert "boss#1 asks" in place.call("attention").out
    assert "boss#1 started" in place.call("watch", run["run"]).out
    assert "cannot be reached" in place.call("resume", run["run"], status=1).err


@pytest.mark.slow
def test_what_a_run_asks_is_listed_and_answered(stage: Stage) -> None:
    """A message is an update of the workflow: its verdict is that of a local run; what is too late is refused."""
    assert "finished" not in stage.there("submit", "human.at", "--no-files", "decide", "--id", "asks")
    assert "boss#1 asks" in stage.until("boss#1", "attention")
    assert "boss#1 asks" in stage.there("attention", "asks")
    assert "refused" in stage.complaint("control", "respond", "asks", "perhaps")
    watching = stage.beside("watch", "asks", "--json")
    assert "accepted" in stage.there("attention", "asks", "boss#1", '{"verdict": "approve"}')
    shown = [json.loads(line) for line in watching.result().stdout.splitlines()]
    assert [one["record"]["topic"] for one in shown][-1] == "run.finished"
    assert "has completed" in stage.complaint("control", "respond", "asks", "again")
    assert stage.there("attention") == stage.place.call("attention").out
    assert "has completed" in stage.complaint("resume", "asks")


@pytest.mark.slow
def test_a_terminated_run_goes_on_from_its_export(stage: Stage) -> None:
    """Here, with a copy of its journal, and on the cluster; nothing finished is repeated, and both journals replay."""
    stage.there("submit", "human.at", "--no-files", "decide", "--id", "stuck")
    stage.until("boss#1", "inspect", "stuck")
    assert "is driven by the cluster" in stage.complaint("resume", "stuck", "--here")
    assert "is driven by the cluster" in stage.complaint("resume", "stuck")
    stage.end("stuck")

    assert "cut off" in stage.until("cut off", "runs")
    assert "nothing on the cluster drives" in stage.complaint("control", "respond", "stuck", "approve")
    printed = stage.there("logs", "stuck")
    assert stage.complaint("resume", "stuck", "--here", "--park", status=4)
    assert stage.place.call("logs", "stuck").out.startswith(printed)
    stage.place.call("control", "respond", "stuck", "--output", "verdict=approve", "as I said")
    stage.place.call("resume", "stuck")
    assert "agrees" in stage.place.call("replay", "stuck").out
    starts = [word for word in stage.place.started() if word == "writer#1"]

    resumed = stage.beside("resume", "stuck")
    stage.until("running", "runs")
    assert "accepted" in stage.there("control", "respond", "stuck", "--output", "verdict=approve", "as I said")
    assert resumed.result().returncode == 0, resumed.result()
    assert "agrees" in stage.there("replay", "stuck")
    assert [word for word in stage.place.started() if word == "writer#1"] == starts


@pytest.mark.slow
def test_a_failed_run_is_retried_on_the_cluster(stage: Stage) -> None:
    """Its team in place; its views, statistics and followers have it as it is now; here it is retried likewise."""
    heals = f"test -e {stage.place.folder}/healed && echo fine"
    (stage.place.folder / "heals.at").write_text(HEALS.replace("HEALS", heals))
    (stage.place.folder / "around.at").write_text(AROUND)
    said = preforked.run(
        "submit", "around.at", "--no-files", "do it", "--id", "sick", "--wait", cwd=stage.place.folder, env=stage.env
    )
    assert said.returncode == 1, said
    assert "coterie resume sick --retry" in said.stderr
    assert "`coterie resume sick --retry` retries what failed it" in stage.complaint("resume", "sick")
    assert "it has no turn 'x#1'" in stage.complaint("resume", "sick", "--retry", "x#1")
    assert stage.complaint("resume", "sick", "--retry")  # still not healed
    assert "failed" in stage.there("runs")
    (stage.place.folder / "healed").touch()

    retried = stage.beside("resume", "sick", "--retry")
    stage.until("running", "runs")
    watching = stage.beside("watch", "sick", "--json")
    assert retried.result().returncode == 0, retried.result()
    shown = [json.loads(line) for line in watching.result().stdout.splitlines()]
    log = json.loads(stage.there("inspect", "sick", "journal", "--json"))
    assert [one["record"]["seq"] for one in shown if one["run"] == "sick"] == [one["seq"] for one in log]
    topics = [one["topic"] for one in log]
    assert (topics.count("run.finished"), topics.count("run.reopened"), topics.count("turn.started")) == (3, 2, 3)
    inner = json.loads(stage.there("inspect", "sick/ill#1.1", "journal", "--json"))
    assert [one["turn"] for one in inner if one["topic"] == "turn.finished"] == ["first#1", "second#1"]
    assert "agrees" in stage.there("replay", "sick")
    [listed] = [one for one in json.loads(stage.there("runs", "--json")) if one["run"] == "sick"]
    assert (listed["state"], listed["turns"]) == ("completed", 4)
    assert "it has completed" in stage.complaint("resume", "sick", "--retry")


@pytest.mark.slow
@pytest.mark.parametrize("files", [["--no-files"], pytest.param([], marks=pytest.mark.long)])
def test_a_fork_goes_on_on_the_cluster(stage: Stage, files: list[str]) -> None:
    """It shares the records up to a number, and runs with other words from there; the origin stays as it is."""
    origin = f"origin-{len(files)}"
    stage.there("submit", "loop.at", "write", "--id", origin, "--wait", *files)
    before = stage.there("inspect", origin, "journal")
    said = stage.complaint("fork", origin, "--at", "5", "--cluster", stage.url, status=0)
    fork = re.search(r"as ([\w-]+)", said)
    assert fork is not None
    assert "completed" in said
    assert stage.there("inspect", origin, "journal") == before
    records = [json.loads(line) for line in stage.there("inspect", fork[1], "journal").splitlines()]
    [first] = [record for record in records if record["topic"] == "run.started"]
    assert first["forked_from"].pop("at") > first["at"]
    assert first["forked_from"] == {"run": origin, "seq": 5}
    assert "agrees" in stage.there("replay", fork[1])
    assert not (stage.place.folder / ".coterie" / "runs" / fork[1]).exists()
    assert json.loads(stage.there("runs", "--json", "--limit", "1"))[0]["run"] == fork[1]


@pytest.mark.slow
def test_newest_records_are_read_before_they_are_exported(stage: Stage, tmp_path: Path) -> None:
    """What a workflow has written since its last export comes by a query; without the server the export is read."""
    stage.there("submit", "human.at", "--no-files", "decide", "--id", "new")
    stage.until("boss#1", "attention")
    home = ClusterLocation(ClusterAddress.parse(stage.url), tmp_path)
    runs, run = find("new", home)
    whole = list(runs.read(run))
    exported = runs.store.read
    runs.store.read = lambda name, seq=1: iter([one for one in exported(name, seq) if one.seq <= 2])  # type: ignore[method-assign]
    assert list(runs.read(run)) == whole
    home.close()
    stage.there("control", "respond", "new", "--output", "verdict=approve", "yes")
    stage.until("run.finished", "inspect", "new", "journal")

    away = ClusterLocation(ClusterAddress.parse(re.sub(r":\d+/", ":9/", stage.url, count=1)), tmp_path)
    runs, run = find("new", away)
    assert isinstance(list(runs.read(run))[-1], RunFinished)
    away.close()
