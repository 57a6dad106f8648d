"""Counts how often records are decoded."""

from collections import Counter
from collections.abc import Iterator
from typing import BinaryIO

import pytest

from coterie.history.journal.codec import Decoder
from coterie.history.journal.records import Record


def count_decoded(monkeypatch: pytest.MonkeyPatch) -> Counter[tuple[str, int]]:
    """From now on, how often each record is decoded, by its journal and seq."""
    counts: Counter[tuple[str, int]] = Counter()
    read = Decoder.read

    def counted(self: Decoder, file: BinaryIO) -> Iterator[Record]:
        for record in read(self, file):
            counts[self.place, record.seq] += 1
            yield record

    monkeypatch.setattr(Decoder, "read", counted)
    return counts
