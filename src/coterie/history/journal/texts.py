"""The long texts of a journal that is being read: the latest in memory, the others by their places in its file.

Records seldom refer to an early text again, so the memory of a reader does not grow with all that was written.
"""

from collections.abc import Iterator
from typing import BinaryIO

KEPT = 1_000_000
"""How many characters of texts stay in memory."""


class Texts:
    """The texts by hash, of which iteration gives the hashes.

    Attributes:
        file: The file that is being read; without one, all texts stay in memory.
        start: The position in the journal at which that file begins.
    """

    def __init__(self) -> None:
        self.file: BinaryIO | None = None
        self.start = 0
        self._at: dict[str, int] = {}
        self._kept: dict[str, str] = {}
        self._size = 0

    def __iter__(self) -> Iterator[str]:
        return iter(self._at)

    def add(self, hash: str, text: str, at: int) -> None:
        """Keep *text*, whose line begins at the position *at* of the journal."""
        self._at.setdefault(hash, at)
        self._size += len(text) - len(self._kept.pop(hash, ""))
        self._kept[hash] = text
        while self._size > KEPT and self.file is not None:
            oldest = next(iter(self._kept))
            if self._at[oldest] < self.start or oldest == hash:
                return
            self._size -= len(self._kept.pop(oldest))

    def close(self) -> None:
        """Drop the texts that can be read again, since nothing is read now: who follows a run may wait for hours."""
        self.file = None
        self._kept = {hash: text for hash, text in self._kept.items() if self._at[hash] < self.start}
        self._size = sum(map(len, self._kept.values()))

    def get(self, hash: str) -> str | None:
        """The text, if it is in memory."""
        return self._kept.get(hash)

    def line(self, hash: str) -> bytes:
        """The line of a text that is not in memory; empty if no earlier line has that text."""
        if self.file is None or hash not in self._at:
            return b""
        now = self.file.tell()
        self.file.seek(self._at[hash] - self.start)
        try:
            return self.file.readline()
        finally:
            self.file.seek(now)
