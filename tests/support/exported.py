"""A store whose journals are written to an export, and read from there: for the contract of stores."""

from collections.abc import Sequence
from typing import Any

from coterie.history.journal.background import BackgroundLoop
from coterie.history.journal.export import Export, open_export
from coterie.history.journal.memory import MemoryStore
from coterie.history.journal.postgres import PostgresArchive
from coterie.history.journal.records import Record


class ExportedStore:
    """Claims are those of a store in memory; what is appended goes to *export* at once, and all is read there."""

    def __init__(self, url: str) -> None:
        self._claims = MemoryStore()
        self._writing = BackgroundLoop()
        self.archive = PostgresArchive(url, self._claims.owned)
        self.export: Export = open_export(url)

    def claim(self, run: str) -> Any:
        writer = self._claims.claim(run)
        append = writer.append

        def put(records: Sequence[Record]) -> int:
            last = append(records)
            self._writing.call(self.export.put([(run, one) for one in records]))
            return last

        writer.append = put  # type: ignore[method-assign]
        return writer

    def close(self) -> None:
        self._writing.call(self.export.close())
        self._writing.close()
        self.archive.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.archive, name)
