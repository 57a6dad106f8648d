"""`coterie attention`: what needs a person is listed, followed and answered from another process."""

import asyncio
import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import aclosing, chdir, contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

import msgspec
import pytest
from asking_team import make_asking
from command_line import Place
from screen import Screen

from coterie.agents.workspace.trees import worktree
from coterie.agents.workspace.trees.worktree import WorkTree
from coterie.execution.runs import attention, run_stream
from coterie.execution.runs.attention import follow
from coterie.execution.runs.repository import Runs, find
from coterie.history.journal.base import Writer
from coterie.history.journal.jsonl import JsonlStore
from coterie.history.journal.records import (
    AttentionAsked,
    OperatorSaid,
    Record,
    RunFinished,
    RunOwned,
    RunStarted,
    TreeMerged,
    TurnStarted,
)
from coterie.history.journal.status import RunStatus
from coterie.interfaces.cli.app import main
from coterie.team.formats.settings_locations import own_file

DEEP = "/".join(["inner#1.1"] * 4)
ASK = f"{DEEP}/coder#1?1"


@contextmanager
def ending(process: "subprocess.Popen[str]") -> "Iterator[subprocess.Popen[str]]":
    """*process*, which does not outlive the test."""
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def changes(place: Place) -> Any:
    """What `coterie attention --watch` says, line by line."""
    return place.start("attention", "--watch", "--json", env=os.environ | {"PYTHONUNBUFFERED": "1"})


def next_change(watching: "subprocess.Popen[str]") -> dict[str, Any]:
    assert watching.stdout is not None
    found: dict[str, Any] = json.loads(watching.stdout.readline())
    return found


@pytest.mark.extras("acp")
def test_a_permission_five_teams_deep_is_seen_and_answered_from_elsewhere(place: Place) -> None:
    """Real processes: one runs the teams, one follows them, one answers."""
    file = make_asking(place.folder, 5)
    with ending(changes(place)) as watching, ending(place.start("run", file, "go")) as running:
        opened = next_change(watching)
        assert opened["open"]
        one = opened["attention"]
        assert (one["kind"], one["id"], one["policy"]) == ("permission", ASK, "deny")
        run = one["run"].partition("/")[0]
        assert one["command"] == f"coterie attention {run} '{ASK}' allow|always|project|deny|park|fail"
        assert json.loads(place.look("attention", "--json").out) == [one]

        assert place.call("attention", "last", ASK, "perhaps", status=1).err.startswith(
            f"run {run}: refused: 'perhaps'"
        )
        assert place.call("attention", "last", ASK, "allow").out == f"run {run}: accepted\n"
        assert not next_change(watching)["open"]
        _, err = running.communicate(timeout=60)
    assert running.returncode == 0, err
    assert "coder#1 answered “allowed”" in err
    asks = f"{DEEP}: coder#1 asks for permission: Bash (make test); answer with: {one['command']}\n"
    assert asks in err
    assert f"{DEEP}: coder#1?1 was answered by an operator: allow\n" in err
    assert "asks for permission" in place.look("inspect", f"{run}/{DEEP}").out
    said = place.look("logs", run).out.splitlines()
    assert f"{DEEP}/coder#1 > Bash needs permission: make test" in said
    assert f"{DEEP}/coder#1 ? coder#1?1 was answered by an operator: allow" in said
    assert "coder#1?1 was answered" in place.look("inspect", f"{run}/{DEEP}", "why", "end#1").out
    assert place.look("attention").out.startswith("nothing needs a person")


@pytest.mark.extras("acp")
def test_a_permission_of_a_run_that_was_killed_is_void(place: Place) -> None:
    """It cannot be answered, and the attempt that is tried again asks anew."""
    file = make_asking(place.folder, 2)
    with ending(changes(place)) as watching, ending(place.start("run", file, "go")) as running:
        one = next_change(watching)["attention"]
        running.kill()
        assert next_change(watching) == {"open": False, "attention": one}
        assert place.look("attention").out.startswith("nothing needs a person")
        refused = place.look("attention", "last", one["id"], "allow", status=1)
        assert "nothing in 2" in refused.err
        assert "needs a person" in refused.err
        assert "''" not in place.look("attention", "last", "allow", status=1).err
        with ending(place.start("resume", "last")) as resumed:
            again = next_change(watching)["attention"]
            assert again["id"] == "inner#1.1/coder#1?2"
            place.call("attention", "last", "deny")
            _, err = resumed.communicate(timeout=60)
    assert "coder#1 answered “denied”" in err
    runs, run = find("last", place.folder / ".coterie")
    asked = [one.id for _, one in runs.history(run) if isinstance(one, AttentionAsked)]
    assert asked == ["coder#1?1", "coder#1?2"]


@pytest.mark.extras("acp")
@pytest.mark.slow
def test_what_is_allowed_for_the_project_is_not_asked_again(place: Place) -> None:
    """Written to the operator's own settings, outside of the project; coterie's own commands are never asked."""
    asks = ["coterie emit done x", "make test", "make test", "coterie emit x; make test", "make lint"]
    more = f"env {{ FAKE_ASKS: {json.dumps(json.dumps(asks))} }}"
    file = make_asking(place.folder, 1)
    leaf = (place.folder / file).read_text().replace('env { FAKE_TURN: "asks" }', f'{more[:-1]} FAKE_TURN: "asks" }}')
    (place.folder / file).write_text(leaf)
    with ending(changes(place)) as watching, ending(place.start("run", file, "go")) as running:
        for detail, words in (
            ("make test", ["project"]),
            ("coterie emit x; make test", ["deny", "-m", "use make"]),
            ("make lint", ["always"]),
        ):
            one = next_change(watching)["attention"]
            assert one["text"] == f"coder#1 asks for permission: Bash ({detail})"
            assert place.call("attention", "last", *words).out.endswith(": accepted\n")
            assert not next_change(watching)["open"]
        _, err = running.communicate(timeout=60)
        assert running.returncode == 0, err
        assert "coder#1 answered “allowed allowed allowed denied allowed”" in err
        settings = own_file(place.folder, os.environ)
        assert not settings.is_relative_to(place.folder)
        assert f"# your settings for {place.folder}\n" in settings.read_text()
        assert 'allow = ["Bash(make test)"]' in settings.read_text()

        with ending(place.start("run", file, "go")) as again:
            assert next_change(watching)["attention"]["text"].endswith("Bash (coterie emit x; make test)")
            place.call("attention", "last", "allow")
            assert not next_change(watching)["open"]
            assert next_change(watching)["attention"]["text"].endswith("Bash (make lint)")
            place.call("attention", "last", "deny")
            _, err = again.communicate(timeout=60)
        assert "coder#1 answered “allowed allowed allowed allowed denied”" in err
    refused = place.look("attention", "last", "allow", "-m", "x", status=2)
    assert "--message goes with the answer `deny`" in refused.err


@pytest.mark.extras("acp")
@pytest.mark.slow
def test_the_terminal_of_the_run_shows_the_permission(place: Place) -> None:
    """And takes the answer; the live tree continues below."""
    screen = Screen(place.folder, 100, "run", make_asking(place.folder, 3), "go")
    try:
        screen.until("coder#1 asks for permission: Bash (make test)")
        screen.until("> ")
        screen.type("y")
        screen.until("completed: 4 turns")
        assert screen.process.wait(timeout=60) == 0
    finally:
        screen.close()
    assert "allowed" in place.look("logs", "last").out


@pytest.mark.extras("acp")
@pytest.mark.slow
def test_a_permission_is_named_while_another_question_is_on_the_terminal(place: Place) -> None:
    """It may have a deadline, so it does not wait unseen for the answer to the other."""
    file = make_asking(place.folder, 1)
    leaf = (
        (place.folder / file)
        .read_text()
        .replace("  flow { coder -> end }", "  human boss { }\n  flow { boss -> end\n coder -> end }")
    )
    (place.folder / file).write_text(leaf)
    screen = Screen(place.folder, 200, "run", file, "go")
    try:
        screen.until("boss#1 asks you")
        screen.until("(coder#1 asks for permission: Bash (make test); `deny` in")
        screen.type("well")
        screen.until("coder#1?1 needs you")
        screen.until("> ")
        screen.type("y")
        assert screen.process.wait(timeout=60) == 0
    finally:
        screen.close()
    assert "allowed" in place.look("logs", "last").out


@pytest.mark.extras("acp")
@pytest.mark.slow
def test_an_answer_from_elsewhere_takes_the_permission_off_the_terminal(place: Place) -> None:
    """The run goes on, and the terminal says why it no longer asks."""
    screen = Screen(place.folder, 100, "run", make_asking(place.folder, 3), "go")
    try:
        screen.until("> ")
        place.call("attention", "last", "deny")
        screen.until("coder#1?1 no longer waits for an answer here)")
        screen.until("completed: 4 turns")
        assert screen.process.wait(timeout=60) == 0
    finally:
        screen.close()
    assert "denied" in place.look("logs", "last").out


def test_a_question_is_listed_and_answered(place: Place) -> None:
    """With its text; the answer is that of `control respond`, and an output that does not fit is refused."""
    place.call("run", "human.at", "go", "--park", status=4)
    [one] = json.loads(place.look("attention", "--json").out)
    assert (one["kind"], one["id"]) == ("question", "boss#1")
    assert "writer#1 read True" in one["text"]
    text = place.look("attention", "last").out
    assert text.startswith(f"question  {one['run']}  for ")
    assert text.endswith(f"\n  coterie control respond {one['run']} 'boss#1' TEXT\n")
    assert "verdict" in place.look("attention", "last", "boss#1", "perhaps", status=1).err
    assert "queued" in place.look("attention", "last", "verdict: approve").out
    assert place.look("attention", "--json").out == place.look("attention", "last", "--json").out == "[]\n"
    assert "has an answer already" in place.look("attention", "last", "verdict: revise", status=1).err
    place.call("resume", "last")


def test_an_answer_that_waits_closes_the_question_for_followers(place: Place) -> None:
    """Although no process drives the run, which says the same as before."""
    place.call("run", "human.at", "go", "--park", status=4)

    async def main() -> list[bool]:
        async with aclosing(attention.follow(place.folder / ".coterie")) as changes, asyncio.timeout(60):
            seen = [(await anext(changes)).is_open]
            place.look("control", "respond", "last", "verdict: approve")
            return [*seen, (await anext(changes)).is_open]

    assert asyncio.run(main()) == [True, False]


def test_an_id_is_needed_where_several_are_open(place: Place) -> None:
    """The refusal names them."""
    two = (place.folder / "human.at").read_text().replace("boss -> publisher", "[boss, chief] -> publisher")
    two = two.replace("human boss", "human chief { }\nhuman boss").replace("[pipeline]", "[pipeline, fan-out]")
    (place.folder / "human.at").write_text(two)
    place.call("run", "human.at", "go", "--park", status=4)
    refused = place.look("attention", "last", "approve", status=1)
    assert "say which one the answer is for; open: " in refused.err
    assert "boss#1" in refused.err
    assert "give RUN" in place.look("attention", "last", "boss#1", "too", "many", status=2).err
    assert "--watch lists only" in place.look("attention", "last", "approve", "--watch", status=2).err


def test_a_parked_turn_is_decided(place: Place) -> None:
    """A crash cut it off, and its agent asks then."""
    slow = (place.folder / "slow.at").read_text()
    (place.folder / "slow.at").write_text(slow.replace('"] }', '"] on-interrupt: ask }'))
    process = place.start_slow()
    process.kill()
    process.communicate()
    place.call("resume", "last", status=4)
    [one] = json.loads(place.look("attention", "--json").out)
    assert (one["kind"], one["id"], one["answers"]) == ("parked", "slow#1", ["retry", "cancel"])
    assert "(not 'allow')" in place.look("attention", "last", "allow", status=1).err
    place.look("attention", "last", "slow#1?1", "cancel")
    assert place.look("attention", "--json").out == "[]\n"
    place.call("resume", "last")
    runs, run = find("last", place.folder / ".coterie")
    assert [one.what for one in runs.read(run) if isinstance(one, OperatorSaid)] == ["cancel"]
    assert "has completed" in place.look("attention", "last", "cancel", status=1).err


def test_a_permission_is_not_open_again_while_a_new_owner_takes_the_run(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who follows the run may look between the new owner's lock and its first record; what that owner asks is open."""
    monkeypatch.setattr(attention, "CHECK_EVERY", 0.001)
    checks, owned, looked = 0, True, asyncio.Event()

    def is_owned(runs: Runs, run: str) -> bool:
        nonlocal checks
        checks += 1
        if checks > 10:
            looked.set()
        return owned

    monkeypatch.setattr(Runs, "is_owned", is_owned)
    runs = Runs(place.folder / ".coterie")
    started = RunStarted(run="r", engine="flow", engine_version=1)
    asked = AttentionAsked(id="a#1?1", turn="a#1", attempt=1, tool="Bash")

    async def changes() -> None:
        nonlocal checks, owned
        writer = runs.store.claim("r")
        await _append(writer, started, RunOwned(epoch=1), TurnStarted(turn="a#1", agent="a"), asked)
        async with asyncio.timeout(60), aclosing(follow(runs.root, (runs, "r"))) as news:
            opened = await anext(news)
            assert (opened.is_open, opened.attention.id) == (True, "a#1?1")
            owned = False  # it was killed
            assert await anext(news) == (False, opened.attention)
            owned, checks = True, 0
            looked.clear()
            later = asyncio.ensure_future(anext(news))
            looking = asyncio.ensure_future(looked.wait())
            await asyncio.wait([later, looking], return_when=asyncio.FIRST_COMPLETED)
            again = msgspec.structs.replace(asked, id="a#1?2", attempt=2)
            await _append(
                writer, RunOwned(epoch=2), TurnStarted(turn="a#1", agent="a", attempt=2), again, at=time.time()
            )
            assert [(one.is_open, one.attention.id) for one in [await later]] == [(True, "a#1?2")]
        await writer.close()

    asyncio.run(changes())


async def _append(writer: Writer, *records: Record, at: float = 0.0) -> None:
    """Append *records* after the last one, as of *at*, and wait until they are durable."""
    last = writer.append(
        tuple(msgspec.structs.replace(record, seq=writer.last + n, at=at) for n, record in enumerate(records, 1))
    )
    await writer.durable(last)


@pytest.mark.parametrize(("status", "kinds"), [("conflict", ["conflict"]), ("merged", [])])
def test_a_merge_conflict_is_listed_until_it_is_resolved(place: Place, status: str, kinds: list[str]) -> None:
    """Also after the run has ended; no word answers it."""
    runs, run = Runs(place.folder / ".coterie"), "r"
    merged = TreeMerged(status="conflict", path="tree", branch="coterie/x", into="main", files=("a.py",))
    end = RunFinished(outcome="failed", reason="merge_conflict")
    _write(runs, run, RunStarted(run=run, engine="flow", engine_version=1), RunOwned(epoch=1), merged, end)
    tree = WorkTree(run=run, path="tree", cwd="tree", branch="coterie/x", origin="", base="", status=status)
    worktree.write(runs.root, tree)
    found = json.loads(place.look("attention", "last", "--json").out)
    assert json.loads(place.look("attention", "--json").out) == found
    assert [one["kind"] for one in found] == kinds
    assert [one["command"] for one in found] == [f"coterie worktree merge {run}"] * len(kinds)


def _write(runs: Runs, run: str, *records: Record) -> None:
    """Write the journal of *run*."""

    async def write() -> None:
        writer = runs.store.claim(run)
        await _append(writer, *records)
        await writer.close()

    asyncio.run(write())


def test_one_run_is_followed_until_no_process_drives_it(place: Place) -> None:
    """Then its question is still shown."""
    place.call("run", "human.at", "go", "--park", status=4)
    said = place.look("attention", "last", "--watch").out
    assert said.count("question") == 1
    assert "boss#1 asks" in said


@pytest.mark.parametrize("words", [("watch", "r"), ("logs", "r", "-f"), ("attention", "r", "--watch")])
def test_what_only_prints_ends_when_its_reader_has_gone(
    place: Place, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`coterie logs RUN -f | grep -m1 ready` ends with its reader, and not with the run."""
    stalled = AttentionAsked(id="a#1!1", turn="a#1", attempt=1, kind="stall")
    started = RunStarted(run="r", engine="flow", engine_version=1)
    _write(
        Runs(place.folder / ".coterie"), "r", started, RunOwned(epoch=1), TurnStarted(turn="a#1", agent="a"), stalled
    )
    left = 20

    def is_owned(runs: Runs, run: str) -> bool:
        nonlocal left
        left -= 1
        return left > 0

    monkeypatch.setattr(Runs, "is_owned", is_owned)
    monkeypatch.setattr(JsonlStore, "status", lambda store, run: RunStatus("running"))
    for module in (attention, run_stream):
        monkeypatch.setattr(module, "CHECK_EVERY", 0.001)
    reader, pipe = os.pipe()
    os.close(reader)
    with open(pipe, "w") as output, chdir(place.folder), redirect_stdout(output):
        assert main(words) == 0
    assert left > 10


def test_other_directories_are_looked_at_with_all(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through the index of runs."""
    place.call("run", "human.at", "go", "--park", status=4)
    elsewhere = Place(tmp_path / "elsewhere")
    elsewhere.folder.mkdir()
    assert "attention --all" in elsewhere.look("attention").out
    assert "boss#1" in elsewhere.look("attention", "--all").out
    assert "give no RUN" in elsewhere.look("attention", "last", "--all", status=2).err


def test_ids_and_answers_are_completed(place: Place) -> None:
    """By a shell."""
    place.call("run", "human.at", "go", "--park", status=4)
    assert "boss#1\tboss#1 asks" in place.look("__complete", "attention", "last", "").out
