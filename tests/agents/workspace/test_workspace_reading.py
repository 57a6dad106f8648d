"""What an agent `reads` joins the prompt of the next one, so it lies in the folder of the run."""

import asyncio
from pathlib import Path

import pytest
from bundles import bundle

from coterie.agents.workspace.trees.workspace import READ_MOST, GitWorkspace, read_below

SECRET = "a key of the user's"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with files and links of an agent, beside a file of the user's."""
    (tmp_path / "key.txt").write_text(SECRET)
    (tmp_path / "works").mkdir()
    (tmp_path / "works" / "key.txt").write_text(SECRET)  # its name begins with that of the folder
    folder = tmp_path / "work"
    (folder / "sub").mkdir(parents=True)
    (tmp_path / "linked").symlink_to("work")
    (folder / "notes.txt").write_text("mine")
    (folder / "inside").symlink_to("sub/../notes.txt")
    (folder / "outside").symlink_to("../key.txt")
    (folder / "absolute").symlink_to(tmp_path / "key.txt")
    (folder / "up").symlink_to("..")
    (folder / "chain").symlink_to("outside")
    (folder / "loop").symlink_to("loop")
    (folder / "bytes").write_bytes(b"\xff")
    return folder


@bundle("name", ["outside", "absolute", "chain", "up/key.txt", "../key.txt", "sub/../../key.txt", "../works/key.txt"])
def test_nothing_outside_is_read(folder: Path, name: str) -> None:
    """Whichever way leads there, and neither is the file that an absolute path names."""
    assert (folder / name).read_text() == SECRET
    assert read_below(folder, name) is None
    assert read_below(folder, str((folder / name).resolve())) is None


@bundle("name", ["notes.txt", "inside", "sub/../notes.txt"])
def test_a_file_inside_is_read(folder: Path, name: str) -> None:
    """Also by a link that stays inside, and where the folder is reached by a link."""
    assert read_below(folder, name) == read_below(folder.parent / "linked", name) == "mine"


@bundle("name", ["sub", "loop", "bytes", "absent", "notes.txt/x"])
def test_what_is_no_text_is_not_read(folder: Path, name: str) -> None:
    """And is no error."""
    assert read_below(folder, name) is None


def test_a_long_file_is_cut(folder: Path) -> None:
    """One of exactly the limit is whole."""
    (folder / "long").write_text("x" * READ_MOST)
    assert read_below(folder, "long") == "x" * READ_MOST
    (folder / "long").write_text("x" * READ_MOST + "y")
    assert read_below(folder, "long") == "x" * READ_MOST + f"\n… (cut at {READ_MOST} characters)"


def test_a_workspace_reads_in_the_folder_of_its_root(folder: Path) -> None:
    """By the same rule."""
    workspace = GitWorkspace(folder, "r", folder, str)
    assert [asyncio.run(workspace.read(name)) for name in ("notes.txt", "outside")] == ["mine", None]
