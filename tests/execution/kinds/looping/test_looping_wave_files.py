"""The files of waves, written as the records of a loop come."""

from collections.abc import Iterator
from pathlib import Path

from msgspec import structs

from coterie.execution.kinds.loop.waves import WaveFiles
from coterie.history.journal.memory import MemoryStore
from coterie.history.journal.records import (
    Record,
    RunStarted,
    TurnFailed,
    TurnFinished,
    TurnStarted,
    WaveJoined,
    WaveStarted,
)


class NoPrompts:
    """Has no prompts."""

    def kept_question(self, run: str, turn: str, attempt: int) -> str:
        return ""


class Counting(MemoryStore):
    """Counts the records that are read back."""

    read_back = 0

    def read(self, run: str, from_seq: int = 1) -> Iterator[Record]:
        for record in super().read(run, from_seq) if run == "r" else ():
            self.read_back += 1
            yield record


def waves(many: int) -> list[Record]:
    """A loop of so many waves: the one branch says something, at the second attempt, the other fails."""
    told: list[Record] = [RunStarted(run="r", engine="loop")]
    for n in range(1, many + 1):
        turns = (f"b#{2 * n - 1}", f"b#{2 * n}")
        told += [
            WaveStarted(wave=n, turn="i#1", event="explore.parallel", objectives=("left", "right"), turns=turns),
            *(TurnStarted(turn=turn, agent="b", cause=(1, 0)) for turn in turns),
            TurnStarted(turn=turns[0], agent="b", attempt=2, cause=(1, 0)),
            TurnFinished(turn=turns[0], attempt=2, text=f"found {n}"),
            TurnFailed(turn=turns[1], kind="exit", reason="no luck"),
            WaveJoined(wave=n, event="loop.start", outcomes=((turns[0], "completed"), (turns[1], "exit"))),
        ]
    return [structs.replace(record, seq=seq, at=float(seq)) for seq, record in enumerate(told, 1)]


def told(folder: Path, records: list[Record], crash: int = 0) -> int:
    """Write the files of *records*, by a second owner from the record *crash* on; how many records were read back."""
    folder.mkdir(exist_ok=True)
    store = Counting()
    writer, files = store.claim("r"), WaveFiles(store, "r", folder, folder, NoPrompts())
    for n, record in enumerate(records):
        writer.append([record])
        files = WaveFiles(store, "r", folder, folder, NoPrompts()) if n == crash else files
        files.observe("r", record)
    return store.read_back


def test_a_wave_is_told_whoever_saw_it_begin(tmp_path: Path) -> None:
    """What each branch was asked and said; the next owner tells what the one before has seen."""
    records = waves(2)
    for crash in range(len(records)):
        told(tmp_path / str(crash), records, crash)
        joined = (tmp_path / str(crash) / "r-wave-2" / "join.md").read_text()
        assert "## Branch 1: left" in joined
        assert "found 2" in joined
        assert "found 1" not in joined
        assert "no luck" in joined
        assert (tmp_path / str(crash) / "r-wave-1" / "branch-2" / "objective.md").read_text() == "right\n"


def test_many_waves_read_nothing_back(tmp_path: Path) -> None:
    """Each is told from what was heard since it was opened; only the next owner reads, and once."""
    assert told(tmp_path / "whole", waves(30)) == 0
    assert told(tmp_path / "again", waves(30), crash=100) == 101


def test_the_files_of_a_branch_are_written_by_one_owner(tmp_path: Path) -> None:
    """The next owner writes only those of waves that have no `join.md` yet, so it reads no other branch."""
    records = waves(2)
    told(tmp_path, records)
    result = tmp_path / "r-wave-1" / "branch-1" / "result.md"
    result.write_text("read by a person")
    (tmp_path / "r-wave-2" / "join.md").unlink()
    (tmp_path / "r-wave-2" / "branch-1" / "result.md").unlink()

    store = Counting()
    store.claim("r").append(records)
    WaveFiles(store, "r", tmp_path, tmp_path, NoPrompts()).observe("r", records[-1])

    assert result.read_text() == "read by a person"
    assert (tmp_path / "r-wave-2" / "join.md").exists()
    assert (tmp_path / "r-wave-2" / "branch-1" / "result.md").exists()
