"""Whatever lies in the place of a file that the owner reads or clears, nothing of the user's is touched."""

import asyncio
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from bundles import bundle

from coterie.agents.backends import reported
from coterie.agents.backends.attempt import prepared
from coterie.agents.backends.base import AttemptRef, Request
from coterie.agents.backends.sandbox import restoring
from coterie.agents.backends.sandbox.policy import _repository
from coterie.agents.workspace.notes import entries
from coterie.agents.workspace.trees import gitignore
from coterie.base import files
from coterie.execution.kinds.loop import projection_file
from coterie.execution.runs.attempt_folders import AttemptFolders, clear_attempt
from coterie.execution.runs.repository import Runs
from coterie.team.planning.plan import AgentPlan

ROOT = os.geteuid() == 0
KINDS = (
    *("pipe", "socket", "folder", "link", "link to a pipe", "folder link", "dangling", "loop", "hard link", "huge"),
    *(("zeros", "terminal", "another user's") if ROOT else ()),
)


def plant(place: Path, kind: str, victim: Path) -> None:
    """Make something of *kind* at *place*; it may lead to what the folder *victim* has."""
    match kind:
        case "pipe":
            os.mkfifo(place)
        case "socket":
            os.mknod(place, 0o600 | stat.S_IFSOCK)
        case "folder":
            place.mkdir()
            (place / "inner").write_text("x")
        case "link":
            place.symlink_to(victim / "file")
        case "link to a pipe":
            place.symlink_to(victim / "pipe")
        case "folder link":
            place.symlink_to(victim)
        case "dangling":
            place.symlink_to(victim / "new")
        case "loop":
            place.symlink_to(place.name)
        case "hard link":
            os.link(victim / "file", place)
        case "huge":
            place.touch()
            os.truncate(place, 1 << 40)
        case "zeros" | "terminal":
            os.mknod(place, 0o600 | stat.S_IFCHR, os.makedev(*((1, 5) if kind == "zeros" else (5, 0))))
        case "another user's":
            place.write_text("{}")
            os.chown(place, 12345, 12345)


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """What the user owns: a file, a folder with messages, a pipe."""
    victim = tmp_path / "victim"
    (victim / "outbox").mkdir(parents=True)
    (victim / "tmp-mine").mkdir()
    (victim / "file").write_text('{"id": "mine", "text": "MINE"}\n')
    (victim / "file").chmod(0o644)
    for name in ("outbox/mail.json", "usage.json", "prompt.md", "turn.json"):
        (victim / name).write_text("MINE")
    os.mkfifo(victim / "pipe")
    return victim


def state_of(victim: Path) -> list[tuple[str, int, int, bytes]]:
    """All that *victim* has: names, modes, and contents; the number of names of a file does not count."""
    found = []
    for path in sorted(victim.rglob("*")):
        status = path.lstat()
        content = path.read_bytes() if stat.S_ISREG(status.st_mode) else b""
        found.append((str(path.relative_to(victim)), status.st_mode, status.st_uid, content))
    return found


def in_time(work: Callable[[], object]) -> object:
    """What *work* returns or raises; it must not wait for what never comes."""
    result: list[object] = []

    def play() -> None:
        try:
            result.append(work())
        except (OSError, ValueError) as error:
            result.append(error)

    thread = threading.Thread(target=play, daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive(), "it hangs"
    assert result, "it crashed"
    return result[0]


def usage(place: Path) -> object:
    return reported.reported(place, lambda event: None)


def projected(place: Path) -> None:
    with projection_file._opened(place.parent, place) as file:
        file.write(b"{}\n")


READERS: dict[str, Callable[[Path], object]] = {
    "content": lambda place: files.read(place, 1 << 16),
    "end": lambda place: files.read_end(place, 1 << 16),
    "lines": lambda place: files.read_lines(place, 0, 1 << 16),
    "below": lambda place: files.read_below(place.parent, [place.name], 1 << 16),
    "usage": usage,
    "memory": entries.read,
    "restored": lambda place: restoring.content_of(place),
    "appended": lambda place: entries.add(place, [{"id": "x", "text": "x"}]),
    "projected": projected,
    "written": lambda place: files.write(place, b"ours"),
    "written below": lambda place: files.write_below(place.parent, [place.name], b"ours"),
    "secret": files.secret,
    "removed": files.remove,
    "tightened": files.tighten,
}
FOLLOWING = {("memory", "link"), ("appended", "link"), ("appended", "folder link")}
"""An operator may keep memory elsewhere; a sandbox does not let an agent put a link there."""


@pytest.mark.parametrize("reader", READERS)
@bundle("kind", KINDS)
def test_nothing_in_the_place_of_a_file_is_followed_or_waited_for(
    tmp_path: Path, reader: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The owner gets its file, or an error; the user's file has its content and mode, and nothing new is there."""
    if (reader, kind) in FOLLOWING:
        return
    monkeypatch.setattr(entries, "_LARGEST", 1 << 16)
    (victim := tmp_path / "victim").mkdir()
    (victim / "file").write_text('{"id": "mine", "text": "MINE"}\n')
    (victim / "file").chmod(0o644)
    os.mkfifo(victim / "pipe")
    (place := tmp_path / "place").mkdir()
    name = "name"
    plant(place / name, kind, victim)
    if reader == "removed" and kind == "folder":
        (place / name / "link").symlink_to(victim)
    before = state_of(victim)
    found = in_time(lambda: READERS[reader](place / name))

    assert (reader in ("appended", "projected") and kind == "dangling") or state_of(victim) == before
    secret = isinstance(found, bytes) and b"MINE" in found
    assert not secret or (reader in ("content", "end", "lines") and kind == "hard link")
    assert (
        reader not in ("written", "written below")
        or isinstance(found, OSError)
        or (place / name).read_bytes() == b"ours"
    )


GIT_FILES = ("commondir", "gitdir", "HEAD", "config")


@bundle(("name", "kind"), [(name, kind) for name in GIT_FILES for kind in KINDS])
def test_a_repository_that_an_agent_made_up_is_not_waited_for(tmp_path: Path, name: str, kind: str) -> None:
    """In a folder without one, where the next attempt would otherwise begin to look for it."""
    (victim := tmp_path / "victim").mkdir()
    (victim / "file").write_text("MINE")
    os.mkfifo(victim / "pipe")
    (tmp_path / "work" / "made").mkdir(parents=True)
    (tmp_path / "work" / ".git").write_text("gitdir: made\n")
    if name == "gitdir":
        (tmp_path / "work" / "made" / "commondir").write_text(f"{victim}\n")
    plant(tmp_path / "work" / "made" / name, kind, victim)
    before = state_of(victim)
    found = in_time(lambda: _repository(tmp_path / "work"))

    assert found == ([], [tmp_path / "work" / ".git"], (), {}, [])
    assert state_of(victim) == before


@bundle("kind", KINDS)
def test_what_makes_git_ignore_the_state_is_replaced(tmp_path: Path, kind: str) -> None:
    """Whatever lies there is not read to its end; the folder is hidden from git after it, or an error is raised."""
    (victim := tmp_path / "victim").mkdir()
    (victim / "file").write_text("MINE")
    os.mkfifo(victim / "pipe")
    (tmp_path / "state").mkdir()
    plant(tmp_path / "state" / ".gitignore", kind, victim)
    before = state_of(victim)
    found = in_time(lambda: gitignore.hide(tmp_path / "state"))

    assert state_of(victim) == before
    assert isinstance(found, OSError) or (tmp_path / "state" / ".gitignore").read_text() == "*\n"


def test_the_folder_of_an_attempt_is_cleared_without_what_a_link_leads_to(tmp_path: Path, victim: Path) -> None:
    """An agent without a sandbox leaves links in place of `own`, of the attempt, and of what is in them."""
    (run := tmp_path / "run").mkdir()
    for name in ("a", "b", "c"):
        (run / name / "own").mkdir(parents=True)
    (run / "a" / "own").rmdir()
    (run / "a" / "own").symlink_to(victim)
    (run / "b" / "own" / "outbox").symlink_to(victim / "outbox")
    (run / "b" / "own" / "tmp-x").symlink_to(victim)
    (run / "b" / "turn.json").symlink_to(victim / "turn.json")
    os.mkfifo(run / "b" / "own" / "pipe")
    (run / "d").symlink_to(victim)
    before = state_of(victim)
    for name in ("a", "b", "c", "d", "missing"):
        clear_attempt(run / name)

    assert state_of(victim) == before
    assert not (run / "b" / "own").exists()
    assert not (run / "b" / "turn.json").is_symlink()
    assert not (run / "c" / "own").exists()


def test_an_attempt_begins_in_a_folder_of_its_own(tmp_path: Path, victim: Path) -> None:
    """A link that waits in that place is removed; nothing is made, made private or removed where it leads."""
    folder = tmp_path / "run" / "turns" / "a#1.1"
    folder.mkdir(parents=True)
    (folder / "own").symlink_to(victim)
    before = state_of(victim)
    agent = AgentPlan(name="a", backend="command", options={"sandbox": "off"}, argv=("sh",))
    with prepared(Request(run="r", turn="a#1", attempt=1, agent=agent, prompt="x", folder=folder)) as made:
        assert not (folder / "own").is_symlink()
        Path(made.env["COTERIE_ATTEMPT_DIR"], "new").write_text("x")

    assert state_of(victim) == before
    assert (folder / "own" / "new").exists()


@pytest.mark.parametrize("name", ["stream.jsonl", "asked.md"])
@bundle("kind", [kind for kind in KINDS if kind not in ("hard link", "another user's", "huge")])
def test_a_file_of_an_attempt_that_is_none_has_nothing(tmp_path: Path, name: str, kind: str) -> None:
    """Whatever replaced it: the run goes on, and what the link leads to is in no prompt."""
    (victim := tmp_path / "victim").mkdir()
    (victim / "file").write_bytes(msgspec.json.encode({"kind": "text", "text": "MINE", "channel": "answer"}) + b"\n")
    os.mkfifo(victim / "pipe")
    runs = Runs(tmp_path / "state")
    attempts = AttemptFolders(runs)
    folder = runs.folder("r") / "turns" / "a#1.1"
    folder.mkdir(parents=True)
    plant(folder / name, kind, victim)
    before = state_of(victim)

    assert in_time(lambda: attempts.kept_question("r", "a#1", 1)) == ""
    assert in_time(lambda: asyncio.run(attempts.how_far(AttemptRef(run="r", turn="a#1", attempt=1)))) == ""
    assert in_time(lambda: attempts.used(AttemptRef(run="r", turn="a#1", attempt=1))) == []
    attempts.forget("r", "a#1", 1)
    assert state_of(victim) == before


@pytest.mark.parametrize("kind", ["link", "another user's", "open to all", "open to the group", "file"])
@pytest.mark.skipif(not ROOT, reason="only root makes files of another user")
def test_a_folder_for_sockets_that_another_user_made_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Where every user may write, the name is known to all."""
    import tempfile

    shared = Path(tempfile.mkdtemp(prefix="x-", dir="/tmp"))  # short, as sockets need it
    shared.chmod(0o1777)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(shared))
    place, theirs = shared / f"coterie-{os.getuid()}", shared / "theirs"
    theirs.mkdir()
    match kind:
        case "link":
            place.symlink_to(theirs)
        case "another user's":
            place.mkdir()
            os.chown(place, 12345, 12345)
        case "file":
            place.write_text("")
        case _:
            place.mkdir()
            place.chmod(0o777 if kind == "open to all" else 0o775)
    try:
        found = files.runtime_folder()
        assert found is None or not found.is_relative_to(shared)
        assert list(theirs.iterdir()) == []
    finally:
        files.remove(shared)


@bundle("count", [3_000])
def test_a_huge_folder_is_left_and_removed(tmp_path: Path, count: int) -> None:
    """Of its entries a bounded number is looked at; removing it takes its time and nothing else."""
    (top := tmp_path / "top").mkdir()
    fd = os.open(top, os.O_RDONLY)
    for n in range(count):
        os.symlink("/", f"{n:x}", dir_fd=fd)
    os.close(fd)
    with files.folder_below(tmp_path, ["top"]) as opened:
        assert files.files_in(opened, 100) == []
    files.remove(top)
    assert not top.exists()
    assert os.listdir("/")
