"""A file that changed while an agent could write it counts for nobody, until an operator trusts its content."""

import errno
import json
import os
import py_compile
import subprocess
import sys
from contextlib import AbstractContextManager
from importlib import import_module, invalidate_caches
from pathlib import Path

import pytest

from coterie.base import agent_writes, files


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that an agent may write, and an empty state of the user."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "earlier").write_text("x")
    return tmp_path / "work"


def pause(work: Path) -> None:
    """Wait until the clock of files has advanced."""
    mark = work.parent / "mark"
    mark.touch()
    began = mark.stat().st_ctime_ns
    while mark.stat().st_ctime_ns == began:
        os.utime(mark)


def attempt(work: Path, safe: dict[str, str] | None = None) -> AbstractContextManager[None]:
    return agent_writes.noted(work.parent / "attempt", [work], safe or {})


def test_a_file_counts_that_changed_before_or_after(work: Path) -> None:
    """Only what changed between begin and end is suspect, also under an old time of modification, and by a link."""
    pause(work)
    with attempt(work):
        pause(work)
        (work / "during").write_text("x")
        os.utime(work / "during", (1, 1))
        (work / "link").symlink_to("earlier")
        assert agent_writes.writer_of(work / "during") == str(work.parent / "attempt")
        pause(work)
    pause(work)
    (work / "after").write_text("x")

    suspect = [path.name for path in sorted(work.iterdir()) if agent_writes.writer_of(path)]
    assert suspect == ["during", "link"]
    assert agent_writes.writer_of(work.parent / "mark") == ""
    assert agent_writes.writer_of(work / "missing") == ""


def test_a_killed_owner_leaves_the_attempt_open_until_it_is_cleared(work: Path) -> None:
    """The next owner of the run ends it, with the gates below it."""
    agent_writes._note(agent_writes.Writes(id=str(work.parent / "attempt" / "gate"), folders=(str(work),), began=1))
    pause(work)
    (work / "file").write_text("x")
    assert agent_writes.writer_of(work / "file")
    pause(work)
    agent_writes.end(work.parent / "attempt")
    pause(work)
    (work / "later").write_text("x")
    assert agent_writes.writer_of(work / "file")
    assert not agent_writes.writer_of(work / "later")


def test_trust_is_of_a_content(work: Path) -> None:
    """A later change by an agent is suspect again; what a sandbox protects, or restores, never is."""
    kept, restored = work / "kept", work / "restored"
    safe = {str(kept): agent_writes.ANY, str(restored): agent_writes.digest(b"original")}
    with attempt(work, safe):
        pause(work)
        kept.write_text("edited by a person")
        restored.write_text("original")
        (work / "file").write_text("one")
        assert [agent_writes.writer_of(path) for path in (kept, restored)] == ["", ""]
        agent_writes.trust(work / "file")
        assert agent_writes.writer_of(work / "file") == ""
        (work / "file").write_text("two")
        restored.write_text("evil")
        assert agent_writes.writer_of(work / "file")
        assert agent_writes.writer_of(restored)


@pytest.mark.parametrize(
    "junk", [b'{"id":"x","fold', b"\xff\0", b"\n\n", b'{"began":' + b"9" * 400 + b"}\n", b"[" * 10_000]
)
def test_a_damaged_line_hides_no_attempt(work: Path, junk: bytes) -> None:
    """Neither one before it nor one after it: a full disk or a kill may have cut a line off."""
    for name in ("before", "after"):
        with agent_writes.noted(work.parent / name, [work], {}):
            pause(work)
            (work / name).write_text("x")
            pause(work)
        with open(files.user_state() / agent_writes.FILE, "ab") as file:
            file.write(junk)
    pause(work)
    (work / "mine").write_text("x")

    found = {path.name: Path(agent_writes.writer_of(path)).name for path in work.iterdir()}
    assert found == {"earlier": "", "before": "before", "after": "after", "mine": ""}


def test_many_attempts_are_kept_shortly_and_a_file_between_two_of_them_counts(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files of all attempts are suspect; the user's own changes between two of them are not, but for the oldest."""
    monkeypatch.setattr(agent_writes, "_COMPACTED_EACH", 2_000)
    monkeypatch.setattr(agent_writes, "_WINDOWS", 20)
    for n in range(40):
        pause(work)
        (work / f"user-{n}").write_text("x")
        pause(work)
        with attempt(work):
            pause(work)
            (work / f"agent-{n}").write_text("x")
    kept = files.user_state() / agent_writes.FILE
    suspect = {path.name for path in work.iterdir() if agent_writes.writer_of(path)}

    assert kept.stat().st_size < 4_000
    assert suspect >= {f"agent-{n}" for n in range(40)}
    assert not suspect & {f"user-{n}" for n in range(24, 40)}


def test_folders_of_single_attempts_are_forgotten_once_they_are_removed(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for those that still exist, and those on a disk that is not there now."""
    monkeypatch.setattr(agent_writes, "_COMPACTED_EACH", 2_000)
    runs, away, elsewhere = work.parent / "state/runs", work.parent / "usb", work.parent / "usb-unplugged"
    for n, top in enumerate([runs, away / "runs", *[runs] * 40]):
        (own := top / f"r/turns/a#{n}.1/own").mkdir(parents=True)
        with agent_writes.noted(own.parent, [work, own], {}):
            (own / "file").write_text("x")
            pause(work)
        if n == 1:
            away.rename(elsewhere)
        elif n:
            (own / "file").unlink()
            own.rmdir()
    kept = files.user_state() / agent_writes.FILE
    assert kept.stat().st_size < 5_000
    elsewhere.rename(away)
    suspect = [path for path in work.parent.rglob("own/file") if agent_writes.writer_of(path)]
    assert sorted(path.parent.parent.name for path in suspect) == ["a#0.1", "a#1.1"]


def test_what_an_attempt_could_not_write_stays_safe_in_a_folder_within(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also once its two folders have an entry each."""
    (inner := work / "kept" / "inner").mkdir(parents=True)
    (file := inner / "file").write_text("x")
    pause(work)
    for n in range(2):
        monkeypatch.setattr(agent_writes, "_COMPACTED_EACH", 1 if n else 1 << 20)
        with agent_writes.noted(work.parent / "attempt", [work, inner], {str(work / "kept"): agent_writes.ANY}):
            file.write_text("y")
            pause(work)
            assert not agent_writes.writer_of(file)
        assert not agent_writes.writer_of(file)


def test_a_look_reads_what_was_added_since_the_last(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many attempts there were: the two lines of one more, and nothing at a second look."""
    lines: list[bytes] = []
    take = agent_writes._Known.take
    monkeypatch.setattr(
        agent_writes._Known, "take", lambda known, data: (lines.extend(data.splitlines()), take(known, data))
    )
    for n in range(100):
        with agent_writes.noted(work.parent / f"attempt-{n}", [work], {}):
            pass
    agent_writes.writer_of(work / "earlier")
    assert len(lines) == 200
    lines.clear()
    with attempt(work):
        pass
    for _ in range(2):
        agent_writes.writer_of(work / "earlier")
    assert len(lines) == 2


def test_what_was_added_in_the_same_moment_is_read(work: Path) -> None:
    """The clock of files advances by milliseconds."""
    with attempt(work):
        pass
    assert not agent_writes.writer_of(work / "earlier")
    status = (kept := files.user_state() / agent_writes.FILE).stat()
    with open(kept, "a") as file:
        print(json.dumps({"id": "other", "folders": [str(work)], "began": 1}), file=file)
    os.utime(kept, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert agent_writes.writer_of(work / "earlier") == "other"


def test_a_full_disk_does_not_lose_what_is_made_shorter(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was noted stays, and is made shorter later."""

    def full(path: Path, data: bytes) -> None:
        raise OSError(errno.ENOSPC, "full", str(path))

    monkeypatch.setattr(agent_writes, "_COMPACTED_EACH", 500)
    with monkeypatch.context() as patched:
        patched.setattr(files, "write", full)
        for n in range(10):
            pause(work)
            with attempt(work):
                (work / f"agent-{n}").write_text("x")
                pause(work)
    assert len([path for path in work.iterdir() if agent_writes.writer_of(path)]) == 10
    with attempt(work):
        pass
    with attempt(work):
        pass
    kept = files.user_state() / agent_writes.FILE
    assert kept.stat().st_size < 1_000
    assert len([path for path in work.iterdir() if agent_writes.writer_of(path)]) >= 10


NOTES = """
import sys
from pathlib import Path
from coterie.base import agent_writes
agent_writes._COMPACTED_EACH = 500
for n in range(60):
    with agent_writes.noted(Path(sys.argv[1], f"attempt-{n}"), [Path(sys.argv[1])], {}):
        Path(sys.argv[1], f"agent-{n}").write_text("x")
        agent_writes.writer_of(Path(sys.argv[1], f"agent-{n}"))
"""


def test_processes_that_make_it_shorter_lose_no_note_of_others(work: Path) -> None:
    """Each replaces the file while the others wait for it."""
    folders = [work / name for name in "abc"]
    for folder in folders:
        folder.mkdir()
    others = [subprocess.Popen([sys.executable, "-c", NOTES, str(folder)]) for folder in folders]
    assert [other.wait() for other in others] == [0, 0, 0]

    written = [path for folder in folders for path in folder.iterdir()]
    assert len(written) == 180
    assert [path for path in written if not agent_writes.writer_of(path)] == []


PROGRAM = """
import sys
from pathlib import Path
from coterie.base import agent_writes
agent_writes.guard_imports()
sys.path.append(sys.argv[1])
for name in sys.argv[2:]:
    try:
        print(name, __import__(name).VALUE)
    except ImportError as error:
        print(name, "refused" if "an agent could have written it" in str(error) else error)
"""


def test_a_module_of_an_agent_is_not_imported(work: Path) -> None:
    """Neither a new one, nor a changed one, nor compiled code that an agent put beside an old source."""
    for name in ("old", "changed", "cached"):
        (work / f"{name}.py").write_text("VALUE = 'honest'\n")
    pause(work)
    with attempt(work):
        pause(work)
        (work / "new.py").write_text("VALUE = 'evil'\n")
        (work / "changed.py").write_text("VALUE = 'evil'\n")
        evil = work.parent / "cached.py"
        evil.write_text("VALUE = 'eviler'\n")
        status = (work / "cached.py").stat()
        (work / "cached.py").read_text()
        os.utime(evil, ns=(status.st_atime_ns, status.st_mtime_ns))
        target = work / "__pycache__" / f"cached.{sys.implementation.cache_tag}.pyc"
        py_compile.compile(str(evil), str(target), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    names = ("old", "changed", "new", "cached")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(work), *names], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["old honest", "changed refused", "new refused", "cached honest"]


def test_imports_elsewhere_are_as_ever(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module outside of such folders is found by Python's own finders."""
    (work.parent / "plain_elsewhere.py").write_text("VALUE = 1\n")
    monkeypatch.syspath_prepend(str(work.parent))
    invalidate_caches()
    agent_writes.guard_imports()
    agent_writes.guard_imports()
    assert sum(type(one).__name__ == "_Guard" for one in sys.meta_path) == 1
    with attempt(work):
        assert import_module("plain_elsewhere").VALUE == 1


def test_of_a_file_the_content_that_was_trusted_last_stays_trusted(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However short the notes are made meanwhile."""
    monkeypatch.setattr(agent_writes, "_COMPACTED_EACH", 500)
    with attempt(work):
        pause(work)
        for content in ("one", "another"):
            (work / "made").write_text(content)
            agent_writes.trust(work / "made")
        pause(work)
    for _ in range(9):
        with attempt(work.parent / "elsewhere"):
            pause(work)
    assert agent_writes.writer_of(work / "made") == ""
