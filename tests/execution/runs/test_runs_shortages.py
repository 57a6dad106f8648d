"""A shortage of space, descriptors or memory stops a run resumably; it costs no retry and no failure."""

import asyncio
import errno
import os
import resource
import shutil
import subprocess
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import loops
import preforked
import pytest
from bundles import bundle
from stage import Cast, Stage, flow
from until import until

from coterie.agents.backends.base import Answer, AttemptRef, Request, Text
from coterie.agents.backends.outcome import cannot_start
from coterie.agents.workspace.notes import EntryFiles
from coterie.base.shortages import shortage
from coterie.errors import GitFailed, JournalFailed, Shortage
from coterie.execution.kernel.event_queue import EventQueue
from coterie.execution.runs import launch
from coterie.execution.runs.attempt_folders import AttemptFolders
from coterie.execution.runs.repository import Runs
from coterie.history.journal.jsonl import JOURNAL, JsonlStore
from coterie.history.journal.records import (
    AttemptFailed,
    AttemptInterrupted,
    Record,
    RunStopped,
    TurnFailed,
    TurnFinished,
)
from coterie.team.planning.plan import AgentPlan

LACKING = [
    *(
        OSError(getattr(errno, name), os.strerror(getattr(errno, name)), "/x")
        for name in ("ENOSPC", "EDQUOT", "EMFILE", "EIO", "EROFS")
    ),
    OSError(errno.ENFILE, os.strerror(errno.ENFILE)),
    OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)),
    MemoryError(),
]


def raising(error: Exception) -> Callable[[Request], Answer]:
    def start(request: Request) -> Answer:
        raise error

    return start


def test_what_counts_as_a_shortage() -> None:
    """An errno, git's words, memory, also as the cause of another error; EAGAIN only where a process is started."""
    full = OSError(errno.ENOSPC, "No space left on device", "/x/journal")
    wrapped = JournalFailed("r", "no")
    wrapped.__cause__ = full
    again = BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    assert shortage(full) == shortage(wrapped) == "No space left on device: /x/journal"
    assert "No space left on device" in shortage(GitFailed(("add",), 128, "fatal: x: No space left on device"))
    assert shortage(Shortage("memory")) == "memory"
    assert shortage(again) == ""
    assert shortage(again, starting=True) == "Resource temporarily unavailable"
    assert shortage(OSError(errno.EACCES, "Permission denied")) == ""
    assert shortage(None) == ""


@bundle("number", [errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE])
def test_a_program_that_finds_no_room_is_no_failure_of_its_own(number: int) -> None:
    """Not transient either: that would count against its retries."""
    failure = cannot_start("agent", Path(), OSError(number, os.strerror(number)))

    assert failure.kind == "shortage"
    assert os.strerror(number) in failure.reason


@bundle("error", LACKING, ids=str)
def test_a_run_stops_and_a_resume_while_it_lasts_stops_again(error: Exception) -> None:
    """However often; then it goes on as if nothing had happened: no failure, no crash, no retry."""
    told = shortage(error)
    stage = Stage(flow("a -> b", a=AgentPlan(name="a")), Cast({"a": [raising(error)] * 5 + [Answer(text="done")]}))

    ends = [stage.start(), *(stage.resume() for _ in range(4))]
    assert {(ended.status, ended.reason) for ended in ends} == {("stopped", f"shortage: {told}")}
    assert stage.resume().status == "completed"

    assert stage.records(AttemptFailed, TurnFailed) == []
    assert [record.reason for record in stage.records(AttemptInterrupted)] == ["shortage"] * 5
    assert len(stage.records(RunStopped)) == 5


def test_what_arrived_beside_a_shortage_is_kept() -> None:
    """Answers that came at the same moment count; attempts that were cut off are asked again, without a failure."""
    parts = {"b": [raising(LACKING[0]), Answer(text="b")], "a": [Answer(text="a")], "c": [Answer(text="c")]}
    stage = Stage(flow("start -> [a, b, c]", "[a, b, c] -> end"), Cast(parts))

    assert stage.start().reason.startswith("shortage: ")
    assert stage.resume().status == "completed"
    assert stage.records(AttemptFailed) == []
    finished = [record.turn for record in stage.records(TurnFinished)]
    assert sorted(finished) == sorted(set(finished))


def test_an_event_that_raises_does_not_take_the_others_with_it() -> None:
    """What came at the same time stays in line, for whoever winds the run up."""
    queue, seen = EventQueue(), []

    def refuse() -> None:
        raise OSError(errno.ENOSPC, "full")

    for n, event in enumerate([lambda: seen.append(1), refuse, lambda: seen.append(3)]):
        queue.put(n, event)
    with pytest.raises(OSError, match="full"):
        queue.handle()
    queue.handle()

    assert seen == [1, 3]


@pytest.mark.parametrize("what", ["stream", "question", "notes"])
def test_files_of_an_attempt_say_what_is_lacking(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Streams and prompts may be lost, but not because the disk is full: then the run stops."""
    files = AttemptFolders(Runs(tmp_path))

    def no_space(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.mkdir", no_space)
    monkeypatch.setattr("os.open", no_space)
    calls: dict[str, Callable[[], object]] = {
        "stream": lambda: files.stream(tmp_path / "a", Text(text="x")),
        "question": lambda: files.kept_question("r", "a#1", 1),
        "notes": lambda: files.keep_question(AttemptRef(run="r", turn="a#1", attempt=1), "ask"),
    }
    with pytest.raises(OSError, match="No space"):
        calls[what]()


# -- real processes, disks and limits ---------------------------------------------------------------------------------

LINE = """topology work : [pipeline] {
  flow { a -> b }
  agent a { retry: 0 extensions { coterie { command: ["{python}", "{here}/agent.py"] } } }
  agent b { retry: 0 extensions { coterie { command: ["cat"] } } }
}
"""


def coterie(*words: str, cwd: Path, limit: Callable[[], None] | None = None) -> "subprocess.CompletedProcess[str]":
    if limit is None:
        return preforked.run(*words, cwd=cwd)
    return subprocess.run([*preforked.REAL, *words], cwd=cwd, capture_output=True, text=True, preexec_fn=limit)


def project(folder: Path, agent: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "team.at").write_text(LINE)
    (folder / "agent.py").write_text(textwrap.dedent(agent))


def records(state: Path) -> list[Record]:
    [run] = JsonlStore(state).list()
    return list(JsonlStore(state).read(run))


@pytest.fixture
def tiny(tmp_path: Path) -> Iterator[Path]:
    """A file system of 400 kB."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    if not Path("/proc/self/mountinfo").exists():
        pytest.skip("umount reads /proc")
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(folder)], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"a tmpfs cannot be mounted here: {mounted.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_stops_a_run_and_room_lets_it_go_on(tiny: Path, tmp_path: Path) -> None:
    """The agent fills the disk: the run ends with 3 and can be resumed, again with 3 while the disk is full."""
    agent = f"""
        import pathlib, sys
        done = pathlib.Path({str(tmp_path / "filled")!r})
        if not done.exists():
            done.write_text("")
            with open({str(tiny / "full")!r}, "wb", buffering=0) as file:
                try:
                    while file.write(b"x" * 1000): pass
                except OSError:
                    pass
        print("word " * 4000)
    """
    project(tmp_path / "project", agent)
    at = ["--state-dir", str(tiny / "state")]

    first = coterie("run", "team.at", "go", "--no-snapshots", *at, cwd=tmp_path / "project")
    again = coterie("resume", "last", *at, cwd=tmp_path / "project")
    assert (first.returncode, again.returncode) == (3, 3), first.stderr + again.stderr
    assert "No space left on device" in first.stdout + first.stderr
    assert "No space left on device" in again.stdout + again.stderr

    (tiny / "full").unlink()
    last = coterie("resume", "last", *at, cwd=tmp_path / "project")
    assert last.returncode == 0, last.stderr
    assert not [one for one in records(tiny / "state") if isinstance(one, AttemptFailed | TurnFailed)]


@pytest.mark.slow
def test_too_few_descriptors_stop_a_run(tmp_path: Path) -> None:
    """Forty agents at once where there is room for a few: 3, and all of them are asked under another limit."""
    names, waits = [f"a{n}" for n in range(40)], '["sh", "-c", "[ -e room ] || exec sleep 600"]'
    (tmp_path / "team.at").write_text(
        "topology work : [fan-out] {\n  flow { start -> [" + ", ".join(names) + "] }\n"
        + "".join(
            f'  agent {name} {{ retry: 0 extensions {{ coterie {{ command: {waits} }} }} }}\n' for name in names
        )
        + '  agent start { extensions { coterie { command: ["true"] } } }\n}\n'
    )  # fmt: skip

    def few() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (45, 45))

    words = ["--max-parallel", "40"]
    first = coterie("run", "team.at", "go", "--no-snapshots", *words, cwd=tmp_path, limit=few)
    again = coterie("resume", "last", *words, cwd=tmp_path, limit=few)
    assert (first.returncode, again.returncode) == (3, 3), first.stdout + first.stderr + again.stderr
    assert "Too many open files" in first.stdout + first.stderr

    (tmp_path / "room").touch()
    last = coterie("resume", "last", *words, cwd=tmp_path)
    assert last.returncode == 0, last.stderr
    assert not [one for one in records(tmp_path / ".coterie") if isinstance(one, AttemptFailed | TurnFailed)]


def test_what_a_killed_attempt_left_half_done_is_cleared(tmp_path: Path) -> None:
    """Its prompt and context, which may hold secrets, and pipes; what the agent wrote itself stays."""
    agent = """
        import os, pathlib, time
        here = pathlib.Path(os.environ["COTERIE_ATTEMPT_DIR"])
        if here.parent.name.endswith(".1"):
            (here / "mine.txt").write_text("kept")
            os.mkfifo(here / "pipe")
            (here / "ready").write_text("")
            time.sleep(60)
    """
    project(tmp_path, agent)
    owner = preforked.start_quietly("run", "team.at", "go", "--no-snapshots", cwd=tmp_path)
    until(lambda: list(tmp_path.glob(".coterie/runs/*/turns/*/own/ready")))
    [ready] = tmp_path.glob(".coterie/runs/*/turns/*/own/ready")
    owner.kill()
    owner.wait()
    assert (ready.parents[1] / "turn.json").exists()

    assert coterie("resume", "last", cwd=tmp_path).returncode == 0
    left = {path.name for path in ready.parents[1].rglob("*")}
    assert left & {"turn.json", "prompt.md", "usage.json", "pipe"} == set()
    assert {"mine.txt", "ready"} <= left


def test_a_run_whose_folder_an_agent_cleans_away_is_reported_as_that(tmp_path: Path) -> None:
    """`git clean -fdx` deletes the state directory: one message that says so, and that there is nothing to resume."""
    agent = """
        import subprocess
        subprocess.run(["git", "clean", "-fdxq"], check=True)
        print("clean")
    """
    project(tmp_path, agent)
    for words in (["init", "-q"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)

    ended = coterie("run", "team.at", "go", cwd=tmp_path)

    assert ended.returncode == 1
    assert "was deleted while the run was going on, for example by `git clean -fdx`" in ended.stderr
    assert "cannot be resumed" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert "never began" not in ended.stderr
    assert ended.stderr.count("\n") <= 3, ended.stderr
    assert not list(tmp_path.glob(f".coterie/runs/*/{JOURNAL}"))


def test_git_without_space_stops_the_run_and_keeps_the_answer(tmp_path: Path) -> None:
    """What git says of a full disk is a shortage; the turn that had ended is not asked again."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "git").write_text(
        f"""#!/bin/sh
        case " $* " in *" add "*) if [ -e {tmp_path}/full ]; then
          echo 'fatal: unable to write new index file: No space left on device' >&2; exit 128
        fi;; esac
        exec {shutil.which("git")} "$@"
        """
    )
    (tmp_path / "bin" / "git").chmod(0o755)
    project(tmp_path / "work", f"open({str(tmp_path / 'asked')!r}, 'a').write('x')")
    subprocess.run(["git", "init", "-q"], cwd=tmp_path / "work", check=True)
    (tmp_path / "full").write_text("")
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"

    def owner(*words: str) -> "subprocess.CompletedProcess[str]":
        return preforked.run(*words, cwd=tmp_path / "work", env={**os.environ, "PATH": path})

    first = owner("run", "team.at", "go")
    assert (first.returncode, (tmp_path / "asked").read_text()) == (3, "x"), first.stdout + first.stderr
    assert "No space left on device" in first.stderr
    (tmp_path / "full").unlink()

    assert owner("resume", "last").returncode == 0
    assert (tmp_path / "asked").read_text() == "x"
    assert not [one for one in records(tmp_path / "work/.coterie") if isinstance(one, AttemptFailed | TurnFailed)]


def test_a_note_that_cannot_be_written_stops_the_run_and_is_written_by_the_next_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its record is durable by then, so nothing that an agent remembered is lost, and no prompt lacks it."""
    files = {
        "topology.toml": 'completion = "done"\n[[role]]\nid = "solo"\nemits = ["done"]\nprompt = "Go."\n',
        "autoloops.toml": (
            "event_loop.max_iterations = 4\nreview.enabled = false\nbackend.kind = 'command'\n"
            f"backend.command = '{tmp_path}/agent.sh'\nbackend.prompt_mode = 'stdin'\n"
        ),
    }
    plan = loops.plan(loops.folder(tmp_path / "loop", files))
    (tmp_path / "agent.sh").write_text(
        '#!/bin/sh\n"$AUTOLOOP_BIN" memory add learning "The door is green."\n'
        f'grep -q green - && "$AUTOLOOP_BIN" emit done\n[ -e {tmp_path}/slow ] && sleep 20\ntrue\n'
    )
    (tmp_path / "agent.sh").chmod(0o755)
    (tmp_path / "slow").write_text("")
    state, run = tmp_path / "state", "r-without-room"  # no other test's processes bear its mark

    def full(self: EntryFiles, change: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(self.run))

    with monkeypatch.context() as patch:
        patch.setattr(EntryFiles, "add", full)
        ended = asyncio.run(launch.start(plan, {"prompt": "go"}, state_dir=state, run_id=run, cwd=tmp_path))
    assert (ended.exit, ended.reason) == (3, f"shortage: No space left on device: {state}/runs/{run}/memory.jsonl")
    (tmp_path / "slow").unlink()

    assert asyncio.run(launch.resume(run, state_dir=state)).exit == 0
    assert "green" in (state / "runs" / run / "memory.jsonl").read_text()
    assert not [one for one in records(state) if isinstance(one, AttemptFailed | TurnFailed)]
