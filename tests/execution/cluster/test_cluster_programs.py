"""Programs on a cluster: every word that they have, while nodes and the owner of the run are killed."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cluster_stage import WITHIN, Server, coterie, serving
from until import until

from coterie.history.journal.jsonl import JsonlStore
from coterie.history.journal.records import AttemptInterrupted, Record, SleepStarted, TurnFinished, TurnStarted

PLANS = '''
import os, pathlib, time
from dataclasses import dataclass
from coterie import AgentFailed, agent, first, note, now, program, random, sleep, together

HERE = pathlib.Path(__file__).parent

@dataclass
class Found:
    topics: list[str]

def ledger(text: str) -> None:
    with open(HERE / "ledger", "a") as file:
        file.write(text + "\\n")

def plan(topic: str) -> Found:
    """The topics."""
    ledger("plan")
    return Found([f"{topic} {n}" for n in range(4)])

def write(topic: str) -> str:
    """A text, once the test lets it."""
    ledger(f"write {topic}")
    while "again" not in topic and not (HERE / "writes").exists():
        time.sleep(0.01)
    return f"on {topic}"

def fail(topic: str) -> str:
    """Never a text."""
    ledger("fail")
    raise ValueError("no")

def wait(topic: str) -> str:
    """A text after an hour."""
    time.sleep(3600)
    return "late"

planner, writer, late = agent("planner", plan), agent("writer", write), agent("late", wait)
broken = agent("broken", fail, max_retries=0)

@program(agents=[planner, writer], max_turns=9)
async def chapter(topic: str) -> list[str]:
    """Two texts, at once."""
    found = await planner(topic)
    return await together([writer(f"{one} again") for one in found.topics[:2]])

part = agent("part", chapter)

@program(agents=[planner, writer, broken, late, part], max_turns=40)
async def report(topic: str) -> dict:
    """Everything that a program can say."""
    found = await planner(topic)
    texts = await together([writer(one) for one in found.topics], at_once=2)
    began, dice = now(), random().random()
    note("written")
    try:
        await broken(topic)
        failed = ""
    except AgentFailed as error:
        failed = error.kind
    await sleep(1)
    earliest = await first([late(topic), sleep(1)])
    some = await together([writer(f"again {n}") for n in range(3)], until=lambda known: known[0] is not None)
    below = await part(topic)
    ok = now() - began >= 2 and random().random() != dice
    return {"texts": texts, "failed": failed, "earliest": earliest, "some": some[0], "below": below, "ok": ok}
'''


class Watched:
    """The journal of a run in the export of a folder, and what the agents there wrote down."""

    def __init__(self, folder: Path, run: str) -> None:
        self._folder, self._run = folder, run

    def has(self, *kinds: type, where: Callable[[Any], object] = lambda record: True) -> bool:
        return any(isinstance(one, kinds) and where(one) for one in self.records())

    def records(self) -> list[Record]:
        store = JsonlStore(self._folder / "export")
        return list(store.read(self._run)) if self._run in store.list() else []

    def ledger(self) -> Counter[str]:
        path = self._folder / "ledger"
        return Counter(path.read_text().splitlines() if path.exists() else [])


@pytest.mark.slow
def test_a_program_goes_on_while_its_nodes_and_its_owner_are_killed(temporal_server: Server, tmp_path: Path) -> None:
    """The result is that of an undisturbed run; only turns that were under way on a killed node repeat."""
    (tmp_path / "plans.py").write_text(PLANS)
    cluster, run = f"{temporal_server.url}?export={tmp_path / 'export'}", "program-1"
    words, seen = ("submit", "plans.py:report", "tea", "--id", run), Watched(tmp_path, run)
    with serving(tmp_path, cluster, "--queue", "none", name="drives") as owner:
        with serving(tmp_path, cluster, "--no-drive", name="performs") as performer:
            assert coterie(*words, cwd=tmp_path, cluster=cluster).returncode == 0
            until(lambda: seen.ledger()["write tea 0"] and seen.ledger()["write tea 1"], WITHIN)
            performer.kill()
        with serving(tmp_path, cluster, "--no-drive", name="performs-2"):
            until(lambda: seen.ledger()["write tea 0"] == seen.ledger()["write tea 1"] == 2, WITHIN)
            owner.kill()
            (tmp_path / "writes").touch()
            with serving(tmp_path, cluster, "--queue", "none", name="drives-2") as owner:
                until(lambda: seen.has(SleepStarted), WITHIN)
                owner.kill()
            with serving(tmp_path, cluster, "--queue", "none", name="drives-3"):
                until(lambda: seen.has(TurnStarted, where=lambda one: one.turn == "part#1"), WITHIN)
                ended = coterie(*words, "--wait", cwd=tmp_path, cluster=cluster)
    shown = "\n".join(f"{one.at:.1f} {one}"[:300] for one in seen.records())
    assert ended.returncode == 0, ended.stdout + ended.stderr + shown
    assert json.loads(ended.stdout) == {
        "texts": [f"on tea {n}" for n in range(4)],
        "failed": "crashed",
        "earliest": None,
        "some": "on again 0",
        "below": ["on tea 0 again", "on tea 1 again"],
        "ok": True,
    }
    cut = {one.turn for one in seen.records() if isinstance(one, AttemptInterrupted)}
    assert cut == {"writer#1", "writer#2"}
    assert {text for text, count in seen.ledger().items() if count > 1} == {"plan", "write tea 0", "write tea 1"}
    assert seen.ledger()["plan"] == 2  # of the program, and of the one below it
    assert seen.ledger()["fail"] == 1
    turns = [one.turn for one in seen.records() if isinstance(one, TurnFinished)]
    assert len(turns) == len({*turns})
    agreed = coterie("replay", run, cwd=tmp_path, cluster=cluster)
    assert agreed.returncode == 0, agreed.stderr


MAPPED = """topology mapped : [pipeline] {
  agent scout {
    outputs { files: list of text }
    extensions { coterie { command: ["echo", "{\\"files\\": [\\"a\\", \\"b\\", \\"c\\"]}"] } }
  }
  agent reader { extensions { coterie { command: ["sh", "-c", "READ"] } } }
  agent writer { extensions { coterie { command: ["cat"] } } }
  flow {
    scout -> reader [each scout.files, at-most 5, at-once 2]
    reader -> writer
  }
}
"""
READ = "echo read $COTERIE_ITEM >> {0}/ledger; while [ ! -e {0}/go ]; do sleep 0.05; done; echo $COTERIE_ITEM"


@pytest.mark.slow
def test_a_set_goes_on_while_its_node_and_its_owner_are_killed(temporal_server: Server, tmp_path: Path) -> None:
    """Items that had ended are not asked again; those under way on the killed node are."""
    (tmp_path / "mapped.at").write_text(MAPPED.replace("READ", READ.format(tmp_path)))
    cluster, run = f"{temporal_server.url}?export={tmp_path / 'export'}", "mapped-1"
    words, seen = ("submit", "mapped.at", "go", "--id", run, "--no-files"), Watched(tmp_path, run)
    with serving(tmp_path, cluster, name="first") as node:
        assert coterie(*words, cwd=tmp_path, cluster=cluster).returncode == 0
        until(lambda: seen.ledger().total() == 2, WITHIN)
        node.kill()
    (tmp_path / "go").touch()
    with serving(tmp_path, cluster, name="second"):
        ended = coterie(*words, "--wait", cwd=tmp_path, cluster=cluster)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert sorted(seen.ledger().values()) == [1, 2, 2]
    reader = [one.turn for one in seen.records() if isinstance(one, TurnFinished) and one.turn.startswith("reader")]
    assert sorted(reader) == ["reader#1", "reader#2", "reader#3"]
