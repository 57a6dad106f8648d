"""What the actions of the page do, without a server, a browser or a process that drives a run."""

import asyncio
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from bundles import bundle
from page_runs import FAILS, played
from stage import flow

from coterie.execution.runs.attention import open_in
from coterie.execution.runs.messages import RunMessage
from coterie.execution.runs.repository import Runs
from coterie.history.journal.records import RunStarted, TurnStarted
from coterie.interfaces.ui import actions
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
    preview,
)
from coterie.interfaces.ui.places import ServedRun


def sent(place: ServedRun) -> list[RunMessage]:
    """What waits in the inbox of a run, the oldest first, without ids and signatures."""
    found = sorted(place.runs.inbox(place.run).glob("*.json"), key=lambda file: file.stat().st_mtime_ns)
    return [msgspec.json.decode(file.read_bytes(), type=RunMessage).content for file in found]


def message(kind: str, **more: Any) -> RunMessage:
    return RunMessage(id="", kind=kind, **more)


def since(place: ServedRun) -> float:
    [asked] = open_in(place.runs, place.run)
    return asked.since


@contextmanager
def driven(place: ServedRun) -> Iterator[None]:
    """Own the run as the process does that drives it."""
    writer = Runs(place.runs.root).store.claim(place.run)
    try:
        yield
    finally:
        asyncio.run(writer.close())


QUEUED = "no process is running it; the message waits in its inbox for `coterie resume`"
SAID: list[tuple[Callable[[float], PageAction], RunMessage, str, str]] = [
    (
        lambda at: AnswerAction(id="boss#1", since=at, text="fine", outputs={"verdict": "yes"}),
        message("answer", turn="boss#1", text="fine", outputs={"verdict": "yes"}),
        "answers boss#1 with 'fine'",
        "coterie control respond r1 'boss#1' --output verdict=yes fine",
    ),
    (
        lambda at: AnswerAction(id="boss#1", since=at + 0.0005, outputs={"verdict": "no"}),
        message("answer", turn="boss#1", outputs={"verdict": "no"}),
        "answers boss#1",
        "coterie control respond r1 'boss#1' --output verdict=no ''",
    ),
    (
        lambda at: GuideAction(text="be brief"),
        message("guide", text="be brief"),
        "guides the run: at once if its agent can take it, else in its next attempt",
        "coterie control guide r1 'be brief'",
    ),
    (
        lambda at: GuideAction(text="be brief", turn="boss#1", interrupt=True),
        message("guide", turn="boss#1", text="be brief"),
        "guides boss#1: at once if its agent can take it, else in its next attempt, and interrupts its attempt",
        "coterie control guide r1 'boss#1' --interrupt 'be brief'",
    ),
    (
        lambda at: InterruptAction(),
        message("interrupt"),
        "interrupts all turns that run; no failure is counted, and the turn is tried again",
        "coterie control interrupt r1",
    ),
    (
        lambda at: InterruptAction(turn="boss#1", epoch=1),
        message("interrupt", turn="boss#1"),
        "interrupts boss#1; no failure is counted, and the turn is tried again",
        "coterie control interrupt r1 'boss#1'",
    ),
]


@pytest.mark.parametrize(("made", "wanted", "what", "command"), SAID, ids=range(len(SAID)))
def test_an_action_sends_what_its_command_would(
    asks: ServedRun, made: Callable[[float], PageAction], wanted: RunMessage, what: str, command: str
) -> None:
    """The page shows the effect and the command first; the run gets one message."""
    action = made(since(asks))
    shown = command + " --state-dir elsewhere"

    assert preview(asks, action) == {"what": what, "command": shown}
    assert sent(asks) == []
    assert act(asks, action, 1) == ActionResult(status="queued", detail=QUEUED, command=shown)
    assert sent(asks) == [wanted]


def test_an_answer_that_is_to_have_an_effect_resumes_a_run_that_nothing_drives(
    asks: ServedRun, coterie: Callable[[str], Path]
) -> None:
    """The command that is shown resumes it, too; not one that a process drives."""
    given = coterie("exit 0")
    action = AnswerAction(id="boss#1", since=since(asks), outputs={"verdict": "yes"}, go=True)
    answers = "coterie control respond r1 'boss#1' --output verdict=yes '' --state-dir elsewhere"
    with driven(asks):
        assert preview(asks, action)["command"] == answers
    assert action.what == "answers boss#1, and resumes the run if no process drives it"
    done = act(asks, action, 1)

    assert done.command == f"{answers} && coterie resume r1 --no-park --state-dir elsewhere"
    assert done.status == "accepted"
    assert sent(asks) == [message("answer", turn="boss#1", outputs={"verdict": "yes"})]
    assert given.read_text().splitlines()[3:6] == ["resume", "r1", "--no-park"]


def refusals(at: float) -> dict[str, tuple[PageAction, str]]:
    """Actions on a run that asks a person, with the reason why each is refused."""
    answer = AnswerAction(id="boss#1", since=at, outputs={"verdict": "yes"})
    replace = msgspec.structs.replace
    return {
        "asked anew": (replace(answer, since=at - 1), "boss#1 is not open any more: it was answered, or asked anew"),
        "asked later": (replace(answer, since=at + 1), "boss#1 is not open any more: it was answered, or asked anew"),
        "unknown": (replace(answer, id="boss#2"), "boss#2 is not open any more: it was answered, or asked anew"),
        "invalid": (replace(answer, outputs={"verdict": "maybe"}), "verdict"),
        "not driven": (StopAction(), "nothing drives it (stopped: waiting)"),
        "no text": (GuideAction(text=" \n"), "there is no text to guide with"),
        "other owner": (
            InterruptAction(epoch=2),
            "the page shows owner 2 of the run, and it has owner 1 by now: look again",
        ),
        "no such turn": (ForkAction(turn="chief#1"), "there is no turn 'chief#1'"),
        "below": (ForkAction(turn="boss#1.1/x#1"), "a turn of a child run is forked with its root"),
        "no such agent": (ForkAction(models={"nobody": "m"}, go=False), "nobody"),
    }


@pytest.mark.parametrize("name", refusals(0.0))
def test_an_action_that_cannot_be_done_is_refused_with_the_reason(asks: ServedRun, name: str) -> None:
    """Nothing is sent, nothing is made."""
    action, why = refusals(since(asks))[name]
    done = act(asks, action, 1)

    assert (done.status, why in done.detail) == ("refused", True), done
    assert sent(asks) == []
    assert asks.runs.list() == ["r1"]


def test_only_resume_and_fork_are_for_runs_that_have_ended(failed: ServedRun) -> None:
    """And of these, a resume without a retry is not."""
    for action in (GuideAction(text="x"), InterruptAction(), StopAction(), AnswerAction(id="b#1", since=0.0)):
        done = act(failed, action, 1)
        assert (done.status, "failed" in done.detail) == ("refused", True), done
    again = act(failed, ResumeAction(), 1)
    assert (again.status, "failed" in again.detail) == ("refused", True)
    assert act(failed, ForkAction(turn="b#1", go=False), 1).status == "accepted"


def test_a_fork_begins_before_its_turn_with_the_changes(failed: ServedRun) -> None:
    """Its model and its prompt are in the new run's plan; the run it came from stays as it is."""
    records = list(failed.runs.read("r2"))
    action = ForkAction(turn="b#1", prompts={"b": "Be brief"}, models={"": "all", "b": "m"}, go=False)
    begin = next(record.seq for record in records if isinstance(record, TurnStarted) and record.turn == "b#1") - 1
    changes = "--set model=all --set b.model=m --set 'b.prompt=Be brief'"
    shown = f"coterie fork r2 --at={begin} {changes} --no-resume --state-dir elsewhere"

    what = "makes a new run that shares this one up to the start of b#1, which `coterie resume` continues; "
    assert preview(failed, action) == {"what": what + "this one does not change", "command": shown}
    done = act(failed, action, 1)

    assert (done.status, done.command) == ("accepted", shown)
    assert done.detail.startswith(f"forked r2 at record {begin} as {done.run}")
    [first, *_] = made = list(failed.runs.read(done.run))
    assert isinstance(first, RunStarted)
    assert first.forked_from is not None
    assert (first.forked_from.run, first.forked_from.seq) == ("r2", begin)
    assert not any(isinstance(record, TurnStarted) and record.turn == "b#1" for record in made)
    plan = failed.runs.journal(done.run).plan_now()
    assert {name: (agent.model, agent.prompt) for name, agent in plan.agents.items()} == {
        "a": ("all", ""),
        "b": ("m", "Be brief"),
    }
    assert list(failed.runs.read("r2")) == records


@bundle(
    ("action", "what"),
    [
        (ForkAction(at=3, go=False), "up to record 3"),
        (ForkAction(at=3, turn="b#1", go=False), "up to the start of b#1"),
        (ForkAction(go=False), "as it is"),
    ],
    ids=["record", "record before turn", "all"],
)
def test_a_fork_is_described_by_where_it_begins(tmp_path: Path, action: ForkAction, what: str) -> None:
    """A record that is named goes before a turn."""
    place = played(tmp_path / "state", flow("a -> b"), "r2", FAILS)
    done = act(place, action, 1)

    assert what in action.what
    assert ("--at=3" in done.command, "at record 3 as" in done.detail) == (action.at == 3, action.at == 3), done


@pytest.fixture
def coterie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Make a program take the place of the `coterie` that an action starts; the words it got are in a file."""

    def install(script: str) -> Path:
        program, given = tmp_path / "python", tmp_path / "given"
        program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > "{given}"\n{script}\n')
        program.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(program))
        return given

    return install


RESUMED: list[tuple[ResumeAction, list[str]]] = [
    (ResumeAction(retry=True), ["--retry"]),
    (ResumeAction(retry=True, turn="b#1"), ["--retry", "b#1"]),
    (ResumeAction(retry=True, try_now=True, max_cost=2.5, max_turns=9), ["--retry", "--try-now", "--max-cost=2.5"]),
    (ResumeAction(retry=True, max_cost=0.0, max_turns=0), ["--retry", "--max-cost=0", "--max-turns=0"]),
]


@pytest.mark.parametrize(("action", "words"), RESUMED, ids=range(len(RESUMED)))
def test_a_resume_starts_the_command_that_it_shows(
    failed: ServedRun, coterie: Callable[[str], Path], action: ResumeAction, words: list[str]
) -> None:
    """In a process of its own, which finds the run wherever it is started."""
    given = coterie("exit 0")
    words += [f"--max-turns={action.max_turns}"] if action.max_turns and action.max_turns > 0 else []
    done = act(failed, action, 1)

    assert done.status == "accepted"
    assert shlex.split(done.command) == ["coterie", "resume", "r2", "--no-park", *words, "--state-dir", "elsewhere"]
    state_dir = ["--state-dir", str(failed.runs.root.resolve())]
    assert given.read_text().splitlines() == ["-P", "-m", "coterie", "resume", "r2", "--no-park", *words, *state_dir]
    again = f"tries {action.turn or 'what failed'} again and goes on, in a process that does not depend on this page"
    assert preview(failed, action)["what"] == f"{again}; finished turns are not repeated"


@pytest.mark.parametrize("status", [0, 1, 2, 3, 4])
def test_a_process_that_ends_at_once_has_failed_unless_it_drove_the_run(
    asks: ServedRun, coterie: Callable[[str], Path], status: int
) -> None:
    """By its status; what it printed is shown."""
    coterie(f"echo out; echo 'it is so' >&2; exit {status}")
    done = act(asks, ResumeAction(), 1)

    assert (done.status, done.detail) == ("accepted" if status in (0, 3, 4) else "refused", "out\nit is so")


def test_a_process_that_drove_the_run_has_started_whatever_its_status(
    asks: ServedRun, coterie: Callable[[str], Path]
) -> None:
    """A run that fails at once was resumed, too."""
    journal = asks.runs.file("r1").resolve()
    coterie(f"sed '$d' '{journal}' > '{journal}.new'; mv '{journal}.new' '{journal}'; echo failed; exit 1")
    done = act(asks, ResumeAction(), 1)

    assert (done.status, done.detail) == ("accepted", "failed")


def test_a_run_that_is_driven_is_not_resumed(asks: ServedRun, coterie: Callable[[str], Path]) -> None:
    """Its owner is another process, or this one."""
    given = coterie("exit 0")
    with driven(asks):
        done = act(asks, ResumeAction(), 1)
    assert (done.status, done.detail) == ("refused", "a process drives it already")
    assert not given.exists()


def test_a_process_that_owns_the_run_has_started(asks: ServedRun, coterie: Callable[[str], Path]) -> None:
    """It is not waited for any longer."""
    coterie("exec sleep 600")
    with driven(asks):
        done = actions.start(asks, ["resume", "r1"])
    assert (done.status, "drives it" in done.detail) == ("accepted", True)
    [process] = [one for one in actions._processes if one.poll() is None]
    assert f"process {process.pid} drives it" == done.detail
    process.kill()
    process.wait()


def test_a_process_that_takes_long_to_begin_counts_as_started(
    asks: ServedRun, coterie: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page says where it prints."""
    monkeypatch.setattr(actions, "BEGINS_WITHIN", 0.0)
    coterie("exec sleep 600")
    done = act(asks, ResumeAction(), 1)
    [process] = [one for one in actions._processes if one.poll() is None]
    process.kill()
    process.wait()

    assert done.status == "accepted"
    assert done.detail.startswith(f"process {process.pid} was started; it prints to ")
    assert Path(done.detail.rpartition(" ")[2]).name == "r1.log"
