"""The command that an action shows does what the action does, typed into a shell."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from command_line import Place, make

from coterie.execution.runs.attention import open_in
from coterie.execution.runs.repository import Runs
from coterie.history.journal.records import TurnFinished
from coterie.interfaces.ui.actions import (
    ActionResult,
    AnswerAction,
    ForkAction,
    GuideAction,
    InterruptAction,
    PageAction,
    ResumeAction,
    StopAction,
    act,
)
from coterie.interfaces.ui.places import ServedRun

pytestmark = pytest.mark.slow

HARD = 'it\'s "quoted" `id` $HOME \\ !x *\n--line two'
ACTIONS: dict[str, tuple[str, PageAction]] = {
    "an answer with its output": ("human", AnswerAction(id="boss#1", since=0, outputs={"verdict": "approve"})),
    "a comment like an option": (
        "human",
        AnswerAction(id="boss#1", since=0, text="--state-dir", outputs={"verdict": "revise"}),
    ),
    "a word of attention": ("human", AnswerAction(id="boss#1", since=0, text="approve")),
    "a word that no answer is": ("human", AnswerAction(id="boss#1", since=0, text="-h", outputs={"verdict": "no"})),
    "guidance": ("human", GuideAction(turn="writer#1", text=HARD)),
    "guidance like an option": ("human", GuideAction(text="-v is wrong")),
    "a dash": ("human", GuideAction(text="-")),
    "two dashes": ("human", GuideAction(text="--")),
    "an interruption": ("human", InterruptAction(turn="boss#1")),
    "a stop": ("human", StopAction()),
    "a resume of an ended run": ("loop", ResumeAction()),
    "a fork": ("loop", ForkAction(go=False)),
    "a fork at a record": ("loop", ForkAction(at=4, go=False)),
    "another prompt": (
        "loop",
        ForkAction(turn="reviewer#2", prompts={"writer": f"-{HARD}", "reviewer": "="}, go=False),
    ),
    "another model": ("human", ForkAction(models={"": "-small", "writer": "a=b"}, go=False)),
    "another input": ("loop", ForkAction(input={"prompt": HARD}, go=False)),
    "an input of another type": ("loop", ForkAction(turn="writer#1", input={"prompt": ["a", None]}, go=False)),
    "another output": ("loop", ForkAction(turn="reviewer#1", outputs={"reviewer#1": {"verdict": "approve"}}, go=False)),
    "another text": ("human", ForkAction(outputs={"writer#1": HARD}, go=False)),
    "an agent that there is not": ("loop", ForkAction(prompts={"nobody": "x"}, go=False)),
    "an input that there is not": ("loop", ForkAction(input={"nothing": "x"}, go=False)),
}


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A run that waits for a person, and one that has completed; and `coterie` for a shell."""
    place = make(tmp_path_factory.mktemp("commands"))
    place.call("run", "human.at", "one text", status=4)
    place.call("run", "loop.at", "one text")
    command = place.folder / "bin/coterie"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m coterie "$@"\n')
    command.chmod(0o755)
    return place


_OWN = ("at", "id", "run", "written", "token")


def contents(runs: Runs, known: str) -> list[Any]:
    """The records and the inboxes of all runs, without times, ids of new runs and of messages."""
    found = []
    for run in sorted(runs.list(), key=lambda one: one != known):
        records = [msgspec.to_builtins(one) for one in runs.read(run)]
        inbox = [msgspec.json.decode(one.read_bytes()) for one in sorted(runs.inbox(run).glob("*.json"))]
        found += [without_own(one) for one in (*records, *inbox)]
    return found


def without_own(values: dict[str, Any]) -> dict[str, Any]:
    left = {name: value for name, value in values.items() if name not in _OWN}
    if left.get("forked_from"):
        left["forked_from"] = {**left["forked_from"], "at": None}
    return left


@pytest.mark.parametrize("name", ACTIONS)
def test_the_command_of_an_action_does_the_same(played: Place, name: str, tmp_path: Path) -> None:
    """On copies of one run: the same records and messages, or a refusal by both."""
    team, action = ACTIONS[name]
    before = Runs(played.folder / ".coterie")
    [run] = [one for one in before.list() if before.plan(one).name == team]
    here, there = (tmp_path / "a b's", tmp_path / "there")
    for folder in (here, there):
        shutil.copytree(before.folder(run), folder / "runs" / before.folder(run).name, symlinks=True)
    if isinstance(action, AnswerAction):
        action = msgspec.structs.replace(action, since=open_in(before, run)[0].since)

    done = act(ServedRun(key=run, runs=Runs(there), run=run), action, epoch=1)
    option = f" --state-dir {shlex.quote(str(here))}"
    typed = action.command(ServedRun(key=run, runs=Runs(here), run=run, option=option))
    path = f"{played.folder / 'bin'}:{os.environ['PATH']}"
    said = subprocess.run(
        ["sh", "-c", typed],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )

    assert (done.status == "refused") == (said.returncode != 0), (typed, done, said)
    by_command, by_page = contents(Runs(here), run), contents(Runs(there), run)
    assert len(by_command) == len(by_page)
    for one, other in zip(by_command, by_page, strict=True):
        assert one == other, typed


def test_a_fork_with_an_input_that_no_function_reads_is_refused(tmp_path: Path) -> None:
    """The functions are those of the run's project, as they are now, though the server has other modules."""
    agents = tmp_path / "desk_agents.py"
    agents.write_text("def weighs(weight: int = 7) -> int:\n    return weight\n")
    begins = (
        "import asyncio, coterie, desk_agents; "
        'print(asyncio.run(coterie.run(coterie.flow("desk", [coterie.agent(desk_agents.weighs)]), "old")).run)'
    )
    began = subprocess.run([sys.executable, "-c", begins], cwd=tmp_path, capture_output=True, text=True, check=True)
    run = began.stdout.strip()
    place = ServedRun(key=run, runs=Runs(tmp_path / ".coterie"), run=run)

    def forked_with(name: str) -> ActionResult:
        return act(place, ForkAction(input={name: 2}, go=False), epoch=1)

    refused = forked_with("wieght")
    assert (refused.status, refused.run) == ("refused", "")
    assert refused.detail.startswith("the run has no input 'wieght'; did you mean 'weight'")
    assert forked_with("weight").run in Runs(tmp_path / ".coterie").list()
    agents.write_text(agents.read_text().replace("weight", "wieght"))
    assert forked_with("wieght").status == "accepted"


def test_a_fork_takes_texts_that_no_command_line_holds(played: Place, tmp_path: Path) -> None:
    """An answer of a megabyte, with quotes and line breaks, arrives as it is."""
    text = 'it\'s "long"\n' * 90_000
    before = Runs(played.folder / ".coterie")
    [run] = [one for one in before.list() if before.plan(one).name == "human"]
    shutil.copytree(before.folder(run), tmp_path / "runs" / run, symlinks=True)
    there = Runs(tmp_path)

    forked = act(ServedRun(key=run, runs=there, run=run), ForkAction(outputs={"writer#1": text}, go=False), epoch=1)

    assert forked.status == "accepted", forked.detail
    answers = [one.text for one in there.read(forked.run) if isinstance(one, TurnFinished)]
    assert answers == [text]
