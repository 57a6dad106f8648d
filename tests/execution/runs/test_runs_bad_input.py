"""What can go wrong outside coterie, through the real command line: one clear error, and a journal that still reads."""

import json
import os
import pty
import re
import shutil
import signal
from pathlib import Path

import pytest
from command_line import Place, Said, make
from limited import small_files
from until import until

from coterie.execution.runs.repository import Runs

ENOUGH = 300.0


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return make(tmp_path)


def folder(place: Place) -> Path:
    """The folder of the one run."""
    [found] = (place.folder / ".coterie" / "runs").iterdir()
    return found


def reads(place: Place) -> list[str]:
    """What happened in the one run, its child runs included: their journals read."""
    run = folder(place)
    return [record.__struct_config__.tag for _, record in Runs(run.parent.parent).history(run.name)]  # type: ignore[misc]


def one_error(said: Said) -> str:
    """The one line on standard error besides the warning of its file, the progress of the run and its outcome."""
    usual = r"\d\d:\d\d\.\d  |completed: |loop\.at:\d+:\d+: warning|  \d* +\|"
    [line] = [line for line in said.err.splitlines() if not re.match(usual, line)]
    assert line.startswith("coterie: ")
    return line


def team(place: Place, command: str) -> None:
    (place.folder / "one.at").write_text(
        f"topology one : [pipeline] {{\n agent a {{ extensions {{ coterie {{ command: {command} }} }} }}\n"
        '  agent b { extensions { coterie { command: ["cat"] } } }\n  flow { a -> b }\n}\n'
    )


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ('["no-such-program"]', "`no-such-program` cannot be started: program not found"),
        ('["{here}/one.at"]', "it is not executable: `chmod +x` it"),
        ('["{here}"]', "it is not executable"),
        ('["sh", "-c", "echo too bad >&2; exit 3"]', "too bad (`sh -c echo too bad >&2; exit 3` ended with status 3)"),
        ('["sh", "-c", "kill -9 $$"]', "was ended by SIGKILL (9)"),
    ],
)
def test_an_agent_that_cannot_answer_fails_its_run_with_one_reason(place: Place, command: str, why: str) -> None:
    """The reason is printed once, the outcome refers to it, the status is 1, and what comes after is not started."""
    team(place, command)
    said = place.call("run", "one.at", "go", status=1)

    assert said.out == ""
    *_, outcome, hint, _, then, retry = said.err.splitlines()
    assert said.err.count(why) == 1
    assert outcome.startswith("failed (a#1 failed (")
    assert (hint, then) == ("inspect it with:", "retry what failed it with:")
    assert retry.strip().split()[::3] == ["coterie", "--retry"]
    assert reads(place)[-2:] == ["turn.failed", "run.finished"]


@pytest.mark.slow
def test_of_an_answer_above_8_mb_the_end_goes_on(place: Place) -> None:
    """It is no failure, and a line says how much is left out."""
    team(place, '["sh", "-c", "yes | head -c 9000000; echo the end"]')
    place.call("run", "one.at", "go")

    said = place.look("inspect", "last", "output", "a#1").out
    assert said.startswith("(the first 1000008 bytes of this output are left out)\ny\n")
    assert said.endswith("\ny\nthe end\n")


@pytest.mark.parametrize(
    "answer",
    [
        r'["printf", "{\"a\": \"%sud800\"}", "\\"]',
        r'["printf", "{\"a\": NaN, \"b\": 1e999, \"c\": 123456789012345678901234567890}"]',
        '["head", "-c", "3000", "/dev/urandom"]',
        '["printf", "a%bb", "\\\\0"]',
    ],
)
def test_whatever_an_agent_prints_the_run_goes_on_and_is_replayed(place: Place, answer: str) -> None:
    """Half a surrogate, numbers that JSON has not, noise and NULs are carried on to who comes next."""
    team(place, answer)
    place.call("run", "one.at", "go")

    assert reads(place)[-1] == "run.finished"
    place.look("replay", "last")


@pytest.mark.parametrize("size", [3000, *(pytest.param(size, marks=pytest.mark.slow) for size in (1000, 4500))])
def test_a_full_disk_stops_the_run_and_resume_goes_on(place: Place, size: int) -> None:
    """It ends as a stopped run does, and says which file and what to do; what was on disk counts."""
    process = place.start("run", "loop.at", "z" * 900, **small_files(size))
    out, err = process.communicate(timeout=ENOUGH)
    assert "File too large" in err, err  # of the journal, or of a file of an attempt

    before = place.started()
    if not (folder(place) / "journal.jsonl").read_bytes().count(b"\n"):
        assert process.returncode == 1, out
        assert "never began" in place.call("resume", "last", status=1).err
        return
    assert process.returncode == 3, out
    reads(place)
    assert f"coterie resume {folder(place).name}" in err
    place.call("resume", "last")
    assert place.started()[-1] == "publisher#1"
    assert all(place.started().count(turn) <= 2 for turn in before)


def test_a_stream_that_does_not_fit_stops_the_run(place: Place) -> None:
    """What a chatty agent says is not lost in silence: the run stops with the file's name, and can be resumed."""
    first = "touch again; head -c 100000 /dev/zero; exec sleep 600"  # its answer would not fit into the journal
    team(place, json.dumps(["sh", "-c", f"test -e again && exec head -c 100000 /dev/zero; {first}"]))
    process = place.start("run", "one.at", **small_files(50_000))
    out, err = process.communicate(timeout=ENOUGH)

    assert process.returncode == 3
    assert "stopped (shortage: File too large" in out + err
    place.call("resume", "last", "--max-turns", "none")


@pytest.mark.parametrize("look", [("resume",), ("replay",), ("inspect",), ("inspect", "usage")])
def test_a_journal_that_cannot_be_read_is_one_error_and_stays_as_it_is(place: Place, look: tuple[str, ...]) -> None:
    """File, line and reason are told; nothing starts afresh in silence."""
    place.call("run", "loop.at", "--max-turns", "2", status=3)
    journal = folder(place) / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    lines[3] = b"\x8a garbled\n"
    journal.write_bytes(b"".join(lines))

    verb, *rest = look
    assert "journal.jsonl:4: this journal cannot be read" in one_error(place.look(verb, "last", *rest, status=1))
    assert journal.read_bytes() == b"".join(lines)
    assert len(place.started()) == 2


def test_a_journal_whose_end_is_noise_can_still_be_listed(place: Place) -> None:
    """`runs` shows it as cut off; `resume` sets the noise aside."""
    place.call("run", "loop.at", "--max-turns", "2", status=3)
    with (folder(place) / "journal.jsonl").open("ab") as file:
        file.write(b"\x8a\xff\n")

    assert "cut off" in place.look("runs").out
    place.call("resume", "last", "--max-turns", "none")
    assert (folder(place) / "journal.torn-1").read_bytes() == b"\x8a\xff\n"


def test_every_prefix_of_a_journal_goes_on_or_says_why_not(place: Place) -> None:
    """Cut at any line, and inside one: the current engine agrees with it, or the run never began."""
    place.call("run", "nested.at", "go")
    journal = folder(place) / "journal.jsonl"
    whole = journal.read_bytes()
    began = len(whole.split(b'"topic":"run.started"')[0].rpartition(b"\n")[0])
    ends = [at for at, byte in enumerate(whole) if byte == ord("\n")]
    for cut in sorted({0, *ends, *(end + 1 for end in ends), *(end - 9 for end in ends)}):
        journal.write_bytes(whole[:cut])
        status = 0 if b'"topic":"run.started"' in whole[:cut][began:].rpartition(b"\n")[0] else 1
        said = place.look("replay", "last", status=status)
        assert said.err == "" or "never began" in one_error(said)


def test_a_run_whose_folder_is_gone_is_not_ended_by_that(place: Place) -> None:
    """Each of its turns would fail for good; the resume is refused instead, and works when the folder is back."""
    state = place.folder.parent / "kept"
    place.call("run", "loop.at", "--max-turns", "1", "--state-dir", str(state), status=3)
    away = place.folder.rename(place.folder.with_name("away"))

    elsewhere = Place(away)
    refused = elsewhere.look("resume", "last", "--max-turns", "none", "--state-dir", str(state), status=2)
    assert f"works in {place.folder}, and there is no such folder" in one_error(refused)
    away.rename(place.folder)
    place.call("resume", "last", "--max-turns", "none", "--state-dir", str(state))


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here: nothing to write to that is full")
def test_a_full_standard_output_does_not_disturb_the_run(place: Place) -> None:
    """It is told once, and the run completes."""
    with Path("/dev/full").open("w") as full:
        process = place.start("run", "loop.at", stdout=full)
        _, err = process.communicate(timeout=ENOUGH)

    assert process.returncode == 0
    assert "cannot write to standard output: No space left on device" in one_error(Said("", err))
    assert reads(place)[-1] == "run.finished"


def test_a_terminal_that_closes_interrupts_the_run(place: Place) -> None:
    """SIGHUP is heard like Ctrl-C: nobody works on behind the user's back."""
    process = place.start_slow()
    process.send_signal(signal.SIGHUP)
    process.communicate(timeout=ENOUGH)

    assert process.returncode == 130
    assert reads(place)[-2:] == ["attempt.interrupted", "run.stopped"]


def test_a_live_tree_whose_terminal_is_gone_changes_no_status(place: Place) -> None:
    """Nothing can be shown any more; the run is interrupted in good order all the same."""
    terminal, end = pty.openpty()
    process = place.start("run", "slow.at", "--no-park", stderr=end)
    (place.folder / "ready").read_text()  # a pipe: opened once the agent opens its end
    os.close(end)
    os.close(terminal)
    process.send_signal(signal.SIGHUP)
    process.communicate(timeout=ENOUGH)

    assert process.returncode == 130
    assert reads(place)[-2:] == ["attempt.interrupted", "run.stopped"]


def test_a_prompt_that_is_no_text_is_asked_all_the_same(place: Place) -> None:
    """Bytes of the command line that are not UTF-8 go to the agents as `?`."""
    team(place, '["cat"]')
    place.call("run", "one.at", os.fsdecode(b"caf\xe9s"))
    shown = json.loads(place.look("inspect", "last", "turn", "a#1", "--json").out)
    assert shown["text"].split()[-1] == "caf?s"


def test_a_refused_resume_leaves_the_owners_doorbell_alone(place: Place) -> None:
    """Who does not own the run takes nothing down: the same socket is there, and the owner answers."""
    owner = place.start("run", "human.at", "--no-park")
    until(lambda: list(place.folder.glob(".coterie/runs/*/control.json")), ENOUGH)
    [found] = place.folder.glob(".coterie/runs/*/journal.jsonl")
    until(lambda: "boss#1" in found.read_text(), ENOUGH)
    bell = (folder(place) / "bell").stat()
    assert "owned by a living process" in place.call("resume", "last", status=1).err

    assert (folder(place) / "bell").stat().st_ctime_ns == bell.st_ctime_ns
    assert "accepted" in place.look("control", "respond", "last", "yes", "--output", "verdict=approve").out
    owner.communicate(timeout=ENOUGH)
    assert owner.returncode == 0


def test_a_state_directory_that_cannot_be_used_is_named(place: Place) -> None:
    """A file in its place, or a name too long for the disk; the list of runs does not suffer from it."""
    for name, why in (("agent.sh", "File exists"), ("x" * 300, "File name too long")):
        assert why in one_error(place.look("run", "loop.at", "--state-dir", name, status=1))
    assert "no runs yet" in place.look("runs").out


def test_a_copied_folder_of_a_run_reads_elsewhere(place: Place, tmp_path: Path) -> None:
    """A run is one folder: moved through a link to another state directory it is still all there."""
    place.call("run", "nested.at")
    shutil.copytree(place.folder / ".coterie", place.folder / "real")
    (place.folder / "link").symlink_to("real")

    assert "completed" in place.look("runs", "--state-dir", "link").out
    place.look("replay", "last", "--state-dir", "link")
