"""What a link of a run's chain of workflows stores of the journal so far."""

import asyncio
import random
from itertools import pairwise
from pathlib import Path

import pytest
from temporalio.converter import DataConverter

from coterie.execution.cluster.claims import TextClaims
from coterie.execution.cluster.wire import MsgspecConverter, pages, read_pages
from coterie.history.journal.export import FolderExport
from coterie.history.journal.records import TurnFinished
from coterie.history.journal.runs import RunRecord

PAGE = 50


def records(begin: int, end: int) -> list[RunRecord]:
    """Those of a run and of three child runs, of which some begin late, with half a surrogate pair in a text."""
    runs = ("r", "r/b#1.1", "r/a#1.1", "r/a#10.1")
    return [
        (
            runs[n % (2 + (n > 4 * PAGE) * 2)],
            TurnFinished(seq=n, at=n // 3, turn=f"t#{n}", attempt=1, text="\ud800" * (n == 7)),
        )
        for n in range(begin, end)
    ]


def test_links_store_the_journal_so_far_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link adds what came since the one before it, and no more than a page of what was there."""
    converter = DataConverter(
        payload_converter_class=MsgspecConverter, payload_codec=TextClaims(FolderExport(tmp_path))
    )
    monkeypatch.setattr("coterie.execution.cluster.wire.PAGE", PAGE)
    sizes: list[int] = []

    async def main() -> None:
        for link in range(1, 11):
            found = records(1, link * 70)
            random.Random(link).shuffle(found)
            encoded = await converter.encode([pages(found)])
            assert len(encoded[0].data) < 64 << 10
            again = (await converter.decode(encoded, [list[str]]))[0]
            assert {(run, one.seq): one for run, one in read_pages(again)} == {
                (run, one.seq): one for run, one in found
            }
            sizes.append(sum(path.stat().st_size for path in (tmp_path / "blobs").iterdir()))

    asyncio.run(main())
    page = sizes[-1] / 10 / 70 * PAGE
    grown = [after - before for before, after in pairwise(sizes)]
    assert max(grown) < sizes[0] + 2 * page
    assert max(grown[5:]) < 1.5 * max(grown[:4])
