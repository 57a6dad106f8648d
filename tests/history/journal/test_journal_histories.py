"""Journals of every release still read."""

import importlib.util
from pathlib import Path
from types import ModuleType

from bundles import bundle

from coterie.history.journal.codec import Decoder
from coterie.history.journal.records import RECORDS, Record, TurnStarted
from coterie.history.views import run, timeline, usage

HISTORIES = Path(__file__).parents[2] / "histories"
JOURNALS = sorted(HISTORIES.glob("*/*.jsonl"))


def read(path: Path) -> list[Record]:
    with path.open("rb") as file:
        return list(Decoder(str(path)).read(file))


def makers() -> ModuleType:
    spec = importlib.util.spec_from_file_location("histories_make", HISTORIES / "make.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@bundle("path", JOURNALS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_journal_of_an_earlier_release_reads_as_it_was_meant(path: Path) -> None:
    """Every record is what the release's script says; new fields have their defaults. The views take it whole."""
    records = read(path)
    module = makers()

    if path.parent.name == "0.1":
        assert records == module.numbered(module.HISTORIES[path.stem]())
    assert run.fold(records).id == path.stem
    assert len(timeline.fold(records).lines) == len(records)
    begun = [record for record in records if isinstance(record, TurnStarted)]
    assert bool(usage.fold(records).total.attempts) == bool(begun)  # a system may answer without a turn


def test_the_histories_hold_every_kind_of_record() -> None:
    """A kind that is added is added to the next release's journals."""
    seen = {type(record) for path in JOURNALS for record in read(path)}

    assert seen == set(RECORDS)
