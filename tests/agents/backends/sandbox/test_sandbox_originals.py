"""What is put back after an attempt is what was there before any attempt under way could change it."""

import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from coterie.agents.backends.team_files import kept, unchanged
from coterie.base import agent_writes


@pytest.fixture
def begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ExitStack]:
    """Begins an attempt that may write the work folder, in which the team's files are, and gives its end."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    work = tmp_path / "work"
    (work / "roles").mkdir(parents=True)
    (work / "team.toml").write_text("original")
    (work / "roles" / "a.md").write_text("original")
    (work / "link").symlink_to("team.toml")
    team = [work / name for name in ("team.toml", "roles", "absent.toml", "link")]

    def begun(name: str) -> ExitStack:
        (tmp_path / name).mkdir()
        pause(tmp_path)
        stack = ExitStack()
        stack.enter_context(kept(team, tmp_path / name, str, restores=True))
        stack.enter_context(agent_writes.noted(tmp_path / name, [work], unchanged(team, protects=False)))
        pause(tmp_path)
        return stack

    return begun


def pause(folder: Path) -> None:
    """Wait until the clock of files has advanced."""
    (folder / "mark").touch()
    began = (folder / "mark").stat().st_ctime_ns
    while (folder / "mark").stat().st_ctime_ns == began:
        os.utime(folder / "mark")


def attack(work: Path) -> None:
    (work / "team.toml").write_text("evil")
    (work / "roles" / "a.md").write_text("evil")
    (work / "roles" / "b.md").write_text("evil")
    (work / "absent.toml").write_text("evil")
    (work / "link").unlink()
    (work / "link").symlink_to("absent.toml")


@pytest.mark.parametrize("first", ["one", "two"])
def test_an_attempt_does_not_take_what_another_has_changed_for_the_original(
    tmp_path: Path, begin: Callable[[str], ExitStack], first: str
) -> None:
    """Files, new files, files in folders and links, whichever attempt ends first; a third one after both, too."""
    work = tmp_path / "work"
    attempts = {"one": begin("one")}
    attack(work)
    attempts["two"] = begin("two")
    attempts.pop(first).close()
    attempts["three"] = begin("three")
    for each in attempts.values():
        each.close()

    assert (work / "team.toml").read_text() == "original"
    assert sorted(path.name for path in (work / "roles").iterdir()) == ["a.md"]
    assert (work / "roles" / "a.md").read_text() == "original"
    assert not (work / "absent.toml").exists()
    assert os.readlink(work / "link") == "team.toml"
    assert not agent_writes.writer_of(work / "team.toml")


def test_what_an_operator_changed_between_two_attempts_is_the_original(
    tmp_path: Path, begin: Callable[[str], ExitStack]
) -> None:
    """No attempt was under way."""
    work = tmp_path / "work"
    begin("one").close()
    pause(tmp_path)
    (work / "team.toml").write_text("edited")
    with begin("two"):
        attack(work)
    assert (work / "team.toml").read_text() == "edited"
