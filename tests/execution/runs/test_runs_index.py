"""The per-user index is a convenience: whatever is wrong with it costs a listing and nothing else."""

import os
from pathlib import Path

import pytest

from coterie.errors import UsageError
from coterie.execution.runs import index
from coterie.execution.runs.index import Entry


def made(folder: Path) -> Entry:
    """An entry for a run that is there."""
    folder.mkdir(parents=True)
    (folder / "journal.jsonl").touch()
    return Entry(run=folder.name, folder=str(folder))


@pytest.fixture(scope="module")
def shared_home() -> Path:
    """The index as a fixture of a module finds it."""
    return index.path()


def test_a_beginning_that_many_runs_share_names_the_newest(tmp_path: Path) -> None:
    """However many there are, the message can be read."""
    for n in range(9):
        index.add(made(tmp_path / ".coterie" / "runs" / f"run-{n}"))

    with pytest.raises(UsageError, match="'run-' matches run-8, run-7, run-6, run-5, run-4 and 4 more; give more"):
        index.find("run-", tmp_path / ".coterie")


def test_what_a_module_shares_is_in_no_index_of_the_users(shared_home: Path) -> None:
    """Fixtures that are made before a test has its home leave no runs in the list of whoever runs the suite."""
    assert shared_home != Path.home() / ".local" / "state" / "coterie" / "runs.jsonl"


def test_lines_that_lead_nowhere_are_passed_over(tmp_path: Path) -> None:
    """Torn, not text, a name too long for the disk, a name with a NUL, a folder that is gone."""
    good = made(tmp_path / "runs" / "r1")
    for folder in ("/" + "x" * 5000, "a\0b", str(tmp_path / "gone")):
        index.add(Entry(run="bad", folder=folder))
    with index.path().open("ab") as file:
        file.write(b'\xff\xff\n{"run":\n[]\n')
    index.add(good)

    assert [entry.run for entry in index.entries()] == ["r1"]


def test_a_folder_whose_name_is_no_text_is_not_listed_from_elsewhere(tmp_path: Path) -> None:
    """It is found from its own state directory."""
    state = tmp_path / os.fsdecode(b"caf\xe9")
    index.add(made(state / "runs" / "r1"))

    assert index.entries() == []
    assert index.find("last", state) == state / "runs" / "r1"


def test_without_a_home_there_is_no_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user whom the system does not know has no home; runs are found in their state directory."""

    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setattr(Path, "home", homeless)
    entry = made(tmp_path / "runs" / "r1")
    index.add(entry)

    assert [found.run for found in index.entries(tmp_path)] == ["r1"]
