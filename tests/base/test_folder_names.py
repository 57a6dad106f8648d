"""Names in folders that are found again only once a folder has changed."""

import os
import time
from pathlib import Path

import pytest
from audited import audited, listings
from hypothesis import given
from hypothesis import strategies as st

from coterie.base.file_fingerprint import SETTLED
from coterie.base.folder_names import FolderNames


def later() -> int:
    """A time at which no change of now counts as recent."""
    return time.time_ns() + 2 * SETTLED


def tick(folder: Path) -> None:
    """Wait until a change of *folder* gets another time than its last one."""
    beside = folder.parent / "beside"
    while beside.touch() or beside.stat().st_ctime_ns <= folder.stat().st_ctime_ns:
        pass


def texts(**parts: object) -> FolderNames:
    return FolderNames(lambda name: name.endswith(".txt"), **{"now": later, **parts})  # type: ignore[arg-type]


def test_a_folder_that_did_not_change_is_listed_once(tmp_path: Path) -> None:
    """Whatever is in its files, and however often it is asked for."""
    names = texts()
    (tmp_path / "b.txt").write_text("x")
    (tmp_path / "a.txt").touch()
    (tmp_path / "c.md").touch()
    with audited() as calls:
        assert names.of(tmp_path) == ("a.txt", "b.txt")
        (tmp_path / "b.txt").write_text("y")
        assert names.of(str(tmp_path)) == ("a.txt", "b.txt")
    assert listings(calls, tmp_path) == 1


@given(
    st.lists(
        st.tuples(st.sampled_from(["add", "remove", "rename", "back", "swap"]), st.sampled_from("abc")), max_size=8
    )
)
def test_it_never_misses_a_change(tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[str, str]]) -> None:
    """Entries come, go and get other names, times are set back, and another folder takes the place of the first."""
    top = tmp_path_factory.mktemp("top")
    folder, names, moved = top / "folder", texts(), 0
    folder.mkdir()
    for what, name in changes:
        tick(folder)
        path, before = folder / f"{name}.txt", os.stat(folder)
        match what:
            case "add":
                path.touch()
            case "remove":
                path.unlink(missing_ok=True)
            case "rename" if path.exists():
                path.rename(folder / f"{name}.md")
            case "back":
                path.touch()
                os.utime(folder, ns=(before.st_atime_ns, before.st_mtime_ns))
            case "swap":
                moved += 1
                folder.rename(top / str(moved))
                folder.mkdir()
        assert names.of(folder) == tuple(sorted(path.name for path in folder.glob("*.txt")))


def test_a_folder_that_changed_just_now_is_not_remembered(tmp_path: Path) -> None:
    """A file system may give the next change the same time."""
    names = texts(now=time.time_ns)
    (tmp_path / "a.txt").touch()
    with audited() as calls:
        assert names.of(tmp_path) == names.of(tmp_path) == ("a.txt",)
    assert listings(calls, tmp_path) == 2


def test_a_folder_that_cannot_be_listed_is_an_error(tmp_path: Path) -> None:
    """Also one that was there before."""
    names, folder = texts(), tmp_path / "folder"
    folder.mkdir()
    assert names.of(folder) == ()
    folder.rmdir()
    with pytest.raises(FileNotFoundError):
        names.of(folder)


def test_the_folder_that_was_remembered_first_is_forgotten(tmp_path: Path) -> None:
    """A process that works in ever new folders does not remember them all."""
    names = texts()
    folders = [tmp_path / str(number) for number in range(300)]
    for folder in folders:
        folder.mkdir()
        names.of(folder)
    with audited() as calls:
        names.of(folders[-1])
        names.of(folders[0])
    assert (listings(calls, folders[-1]), listings(calls, folders[0])) == (0, 1)
