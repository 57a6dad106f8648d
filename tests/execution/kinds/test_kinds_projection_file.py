"""The file `core.journal_file`: whole after any crash, each line once, never in a run's way."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from loop_play import ROUND, Play, loop_plan, plan_of

from coterie.agents.backends.base import AttemptRef
from coterie.execution.kinds import kind_of
from coterie.execution.kinds.loop.projection_file import journal_file, rebuild
from coterie.execution.runs.attempt_folders import AttemptFolders
from coterie.execution.runs.repository import Runs
from coterie.history.journal.jsonl import JsonlStore
from coterie.history.journal.records import Record, RunStarted
from coterie.history.views.projected_lines import as_line
from coterie.history.views.projection import fold
from coterie.team.planning.place import RunPlace
from coterie.team.planning.plan import Plan, to_json


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    """A loop whose folder and state directory lie in *tmp_path*."""
    place = RunPlace(project=str(tmp_path / "loop"), work_dir=str(tmp_path))
    return plan_of(loop_plan(place=place))


def records_of(run: str, plan: Plan) -> list[Record]:
    """What happens in a run of *plan* that goes straight to its end."""
    play = Play(loop_plan())
    play.does(*ROUND)
    first = RunStarted(run=run, engine="loop", seq=1, plan=to_json(plan).decode(), input={"prompt": "Do it"})
    return [first, *play.log[1:]]


class Disk:
    """A state directory with journals of loops, as their owners leave them."""

    def __init__(self, folder: Path, plan: Plan) -> None:
        self.store, self.plan = JsonlStore(folder / ".autoloop"), plan
        self.files = AttemptFolders(Runs(folder))
        self.file = folder / ".autoloop" / "journal.jsonl"

    def write(self, run: str, records: Sequence[Record]) -> None:
        """Append *records* to the journal of *run*."""

        async def main() -> None:
            writer = self.store.claim(run)
            writer.append(records)
            await writer.close()

        asyncio.run(main())

    def own(self, run: str, records: Sequence[Record]) -> None:
        """Show *records* to a new owner's projection."""
        [observe, _] = kind_of(self.plan).project.observers(self.store, run, self.files)
        assert observe is not None
        for record in records:
            observe(run, record)

    def whole(self, run: str) -> bytes:
        """All lines of *run*."""
        return b"".join(map(as_line, fold(self.store.read(run))))


@pytest.fixture
def disk(tmp_path: Path, plan: Plan) -> Disk:
    return Disk(tmp_path, plan)


@pytest.mark.parametrize("cut", [0, 3, 8])
@pytest.mark.parametrize("torn", [0, 1, 7])
def test_a_crash_loses_no_line_and_doubles_none(disk: Disk, cut: int, torn: int) -> None:
    """Whatever of what was durable had got into the file, the last line of it half written."""
    records = records_of("r", disk.plan)
    disk.write("r", records)
    disk.own("r", records[: cut + 5])
    kept = disk.file.read_bytes().splitlines(keepends=True)[: cut + 1]
    disk.file.write_bytes(b"".join(kept)[: -torn or None])

    disk.own("r", records[cut + 5 :])
    assert disk.file.read_bytes() == disk.whole("r")


def test_runs_share_the_file_and_can_be_told_anew(disk: Disk) -> None:
    """A file that is gone or damaged is made again; lines of other runs stay."""
    for run in ("a", "b"):
        disk.write(run, records_of(run, disk.plan))
        disk.own(run, records_of(run, disk.plan))
    assert disk.file.read_bytes() == disk.whole("a") + disk.whole("b")

    disk.file.write_bytes(b'{"run":"c","topic":"loop.start"}\n' + disk.whole("b") * 2 + b'{"run":"a","to')
    assert rebuild(disk.store, disk.store.list(), disk.files) == {disk.file: 2}
    lines = disk.file.read_bytes()
    assert lines.startswith(b'{"run":"c",')
    assert len(lines) == len(disk.whole("a")) + len(disk.whole("b")) + lines.index(b"\n") + 1


def test_a_run_goes_on_when_the_file_cannot_be_written(disk: Disk) -> None:
    """It is no part of the truth."""
    disk.file.mkdir(parents=True)
    seen: list[int] = []
    [observe, _] = kind_of(disk.plan).project.observers(disk.store, "r", disk.files)
    assert observe is not None
    for record in records_of("r", disk.plan):
        observe("r", record)
        seen.append(record.seq)

    assert seen == [record.seq for record in records_of("r", disk.plan)]


def test_what_was_asked_is_in_the_file(disk: Disk) -> None:
    """Where it was kept; and only the runs of loops that have a folder are told so."""
    disk.files.keep_question(AttemptRef(run="r", turn="iteration#1", attempt=1), "What now? \ud800")
    disk.write("r", records_of("r", disk.plan))
    disk.own("r", records_of("r", disk.plan))

    started = [line for line in disk.file.read_bytes().splitlines() if b'"iteration.start"' in line]
    assert msgspec.json.decode(started[1])["fields"]["prompt"] == ""
    assert b"What now?" in started[0]
    assert journal_file(Plan(name="flow", agents={})) is None
    assert journal_file(plan_of(loop_plan())) is None
