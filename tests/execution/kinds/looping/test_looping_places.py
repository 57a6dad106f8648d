"""Whatever lies in the place of a file or folder of the state directory, its run ends and nothing outside changes.

It may come from an agent without a sandbox, from an unpacked archive, or with a repository that has it committed.
"""

import os
import socket
from pathlib import Path

import pytest
from bundles import bundle
from repositories import git, repository

from coterie.interfaces.cli import app

pytestmark = pytest.mark.slow

TOPOLOGY = 'completion = "done"\n[[role]]\nid = "solo"\nemits = ["done"]\nprompt = "Work."\n'
SETTINGS = """
event_loop.max_iterations = 2
parallel.enabled = true
backend.kind = 'command'
backend.command = '/bin/sh'
backend.args = ['{top}/agent.sh']
backend.prompt_mode = 'stdin'
"""
AGENT = 'cat > /dev/null; "$AUTOLOOP_BIN" memory add learning fact; "$AUTOLOOP_BIN" emit done\n'
PLACES = (
    *("memory.jsonl", "tasks.jsonl", "waves", "worktrees", "journal.jsonl", ".gitignore"),
    *("runs", "index", "overrides"),
)
KINDS = ("link", "dangling", "folder-link", "hard-link", "pipe", "socket", "folder", "forged")


def prepare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a repository that has a loop, and a victim."""
    repository(tmp_path / "work")
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path / "work")
    folder = tmp_path / "work" / "lp"
    folder.mkdir()
    (folder / "topology.toml").write_text(TOPOLOGY)
    (folder / "autoloops.toml").write_text(SETTINGS.format(top=tmp_path))
    (tmp_path / "agent.sh").write_text(AGENT)
    git(tmp_path / "work", "add", "--all")
    git(tmp_path / "work", "commit", "--quiet", "--message", "loop")
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim" / "file").write_text("mine\n")
    (tmp_path / "victim" / "file").chmod(0o644)


def plant(place: Path, kind: str, victim: Path) -> None:
    """Make something of *kind* at *place*."""
    match kind:
        case "link":
            place.symlink_to(victim / "file")
        case "dangling":
            place.symlink_to(victim / "new")
        case "folder-link":
            place.symlink_to(victim)
        case "hard-link":
            os.link(victim / "file", place)
        case "pipe":
            os.mkfifo(place)
        case "socket":
            with socket.socket(socket.AF_UNIX) as made:
                made.bind(os.path.relpath(place))
        case "folder":
            place.mkdir()
        case _:
            place.write_bytes(b'{"kind":"learning","id":"m1","text":"FORGED"}\n{"\xff\0')


def state_of(victim: Path) -> list[tuple[str, int, bytes]]:
    return sorted((path.name, path.stat().st_mode, path.read_bytes()) for path in victim.iterdir())


@pytest.mark.parametrize("place", PLACES)
@bundle("kind", KINDS)
def test_what_lies_in_a_place_of_the_owner_changes_nothing_outside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], place: str, kind: str
) -> None:
    """No link is followed to write, nothing blocks, and the command ends with a status of its own."""
    if (place, kind) == ("runs", "folder-link"):
        return  # an operator may keep runs elsewhere; the folder of each run in it is new
    prepare(tmp_path, monkeypatch)
    (tmp_path / "work" / ".autoloop").mkdir(mode=0o700)
    plant(tmp_path / "work" / ".autoloop" / place, kind, tmp_path / "victim")
    before = state_of(tmp_path / "victim")
    status = app.main(["run", "lp", "go"])
    said = capsys.readouterr()

    assert status in (0, 1, 2, 3), said.out + said.err
    assert "Traceback" not in said.out + said.err
    assert state_of(tmp_path / "victim") == before
