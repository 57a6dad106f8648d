"""The export of a cluster: the journals of its runs, with their texts and files, in a place that all nodes can reach.

The workflow that drives a run on a cluster keeps its own history; people read the export, and runs are resumed from it.
`coterie.history.journal.postgres` keeps it in a database; `FolderExport`, for one machine, in a folder that
`JsonlStore` reads.
"""

import asyncio
import hashlib
import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

from coterie.base import files
from coterie.errors import ClusterFailed, ExportConflict, NoSuchRun, RunIsOwned, UsageError
from coterie.history.journal.jsonl import STREAM, STREAM_MOST, JsonlStore
from coterie.history.journal.rules import root_of
from coterie.history.journal.runs import RunRecord, history, in_order
from coterie.history.journal.status import RunStatus, goes_on, last_line, status_after

LARGEST_BLOB = 1 << 28
"""The largest blob that is read from a folder, in bytes."""
LARGEST_CLAIM = 1 << 10
_TRIES = 100
_PAUSE = 0.02


class Export(Protocol):
    """Stores the data of a cluster's nodes about runs. Each call is idempotent and returns once it is durable."""

    async def put(self, records: Sequence[RunRecord]) -> None:
        """Add records of any runs, those of each run in order; existing records are skipped.

        Raises:
            ExportConflict: If a different record with the same seq exists, written by another owner.
            ClusterFailed: If they cannot be written; none of them was.
        """

    async def load(self, root: str) -> list[RunRecord]:
        """Read every record of the root run *root* and its child runs, each run in order; none if it is unknown.

        Raises:
            ClusterFailed, JournalUnreadable: If they cannot be read.
        """

    async def put_blob(self, data: bytes) -> str:
        """Store *data* and return its SHA-256 in hex.

        Raises:
            ClusterFailed: If it cannot be written.
        """

    async def blob(self, hash: str) -> bytes:
        """Read the data with that SHA-256.

        Raises:
            ClusterFailed: If it cannot be read, or does not exist.
        """

    async def put_output(self, attempt: str, begin: int, lines: bytes) -> None:
        """Store output of the attempt with the mark *attempt*: whole *lines* from byte *begin* of its output.

        Raises:
            ClusterFailed: If they cannot be written.
        """

    async def output(self, attempt: str, begin: int) -> bytes:
        """Read the output of *attempt* from byte *begin*, which is the beginning of a line.

        Raises:
            ClusterFailed: If it cannot be read.
        """

    async def claim(self, name: str, value: bytes) -> bytes:
        """The value that was stored first under *name*: *value* if there was none.

        Raises:
            ClusterFailed: If it can be neither read nor stored.
        """

    async def close(self) -> None:
        """Close connections and files. Idempotent."""


def open_export(url: str, patience: float | None = None, **login: str) -> Export:
    """Make the export for *url*: `postgresql://…`, or a folder as a path or as `file://…`. Nothing is connected yet.

    Args:
        patience: Seconds to wait for a database that no longer answers; by default a few.
        login: `password` or `passfile` of the database, if they are not in the environment of this process.

    Raises:
        UsageError: If *url* is of another kind.
        ExtraMissing: If the library for it is not installed.
    """
    if (folder := folder_of(url)) is not None:
        return FolderExport(folder)
    from coterie.history.journal.postgres import ANSWER_WITHIN, PostgresExport

    return PostgresExport(url, ANSWER_WITHIN if patience is None else patience, **login)


def folder_of(url: str) -> Path | None:
    """The folder that *url* names; None if it names a database.

    Raises:
        UsageError: If it names neither.
    """
    scheme = urlsplit(url).scheme
    if scheme in ("postgresql", "postgres"):
        return None
    if scheme not in ("", "file"):
        raise UsageError(f"an export is postgresql://… or a folder, not {scheme}://…")
    return Path(os.path.expanduser(unquote(urlsplit(url).path) if scheme else url))


@contextmanager
def _failing(path: Path) -> Iterator[Path]:
    """Turn errors of the file system into errors of the export, at *path*."""
    try:
        yield path
    except OSError as error:
        raise ClusterFailed(str(path), error.strerror or str(error)) from error


class FolderExport:
    """An export in a folder of this machine: a state directory for `JsonlStore`, with `blobs/<hash>`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._store = JsonlStore(folder)
        self._turn = asyncio.Lock()

    async def put(self, records: Sequence[RunRecord]) -> None:
        """Add records; see `Export`."""
        async with self._turn:
            for root, some in groupby(in_order(records), key=lambda one: root_of(one[0])):
                await self._put(root, list(some))

    async def _put(self, root: str, records: Sequence[RunRecord]) -> None:
        writer = await self._claim(root)
        try:
            for run, some in groupby(records, key=lambda one: one[0]):
                own = writer if run == root else self._store.claim(run)
                new = [record for _, record in some]
                known = {} if own.last < new[0].seq else {one.seq: one for one in self._store.read(run)}
                for record in new:
                    if record.seq in known and known[record.seq] != record:
                        raise ExportConflict(run, record.seq)
                await own.durable(own.append([record for record in new if record.seq > own.last]))
        finally:
            await writer.close()

    async def _claim(self, root: str) -> Any:
        """Claim *root*; another node on this machine may own it for a moment."""
        for _ in range(_TRIES):
            try:
                return self._store.claim(root)
            except RunIsOwned:
                await asyncio.sleep(_PAUSE)
        return self._store.claim(root)

    async def load(self, root: str) -> list[RunRecord]:
        """Every record of *root* and its child runs; see `Export`."""

        def read() -> list[RunRecord]:
            try:
                return list(history(self._store.read, root))
            except NoSuchRun:
                return []

        return await asyncio.to_thread(read)

    async def put_blob(self, data: bytes) -> str:
        """Store *data*; see `Export`."""
        digest = hashlib.sha256(data).hexdigest()
        with _failing(self._blob(digest)) as path:
            if not path.exists():
                files.make_folder(path.parent)
                part = path.with_name(f".{digest}.{secrets.token_hex(4)}")
                files.write(part, data)
                os.replace(part, path)
        return digest

    async def blob(self, hash: str) -> bytes:
        """Read the data with that hash; see `Export`."""
        with _failing(self._blob(hash)) as path:
            return files.read(path, LARGEST_BLOB)

    async def put_output(self, attempt: str, begin: int, lines: bytes) -> None:
        """Store output in the same place as for a run of this machine; see `Export`."""
        with _failing(self._store.folder(attempt) / STREAM) as path:
            files.make_folder(path.parent)
            with files.open_private(path, "ab") as file:
                if file.tell() == begin:
                    file.write(lines)

    async def output(self, attempt: str, begin: int) -> bytes:
        """Read the output from that byte on; see `Export`."""
        with _failing(self._store.folder(attempt) / STREAM) as path:
            return await asyncio.to_thread(files.read_lines, path, begin, 2 * STREAM_MOST)

    async def claim(self, name: str, value: bytes) -> bytes:
        """The value that was stored first; see `Export`."""
        with _failing(self._folder / "claims" / hashlib.sha256(name.encode()).hexdigest()) as path:
            files.make_folder(path.parent)
            return await asyncio.to_thread(files.write_once, path, lambda: value, LARGEST_CLAIM, bool)

    async def close(self) -> None:
        """Do nothing: nothing is open between calls."""

    def _blob(self, hash: str) -> Path:
        if not hash.isalnum():
            raise ValueError(f"{hash!r} is not a SHA-256 in hex")
        return self._folder / "blobs" / hash


class FolderArchive(JsonlStore):
    """Reads the runs in an export that is a folder, in which owners do not hold a lock during the whole run.

    Args:
        driven: Returns whether a root run is driven; None: it is driven unless its last record ends it.
        running: Returns the status of a driven root run.
    """

    def __init__(
        self,
        folder: Path,
        driven: Callable[[str], bool | None],
        running: Callable[[str], RunStatus] = lambda root: RunStatus("running"),
    ) -> None:
        super().__init__(folder)
        self._driven, self._running = driven, running

    def owned(self, run: str) -> bool:
        """Whether *run* is driven."""
        driven = self._driven(root_of(run))
        return goes_on(last_line(self.file(root_of(run)))) if driven is None else driven

    def status(self, run: str) -> RunStatus:
        """The status of the root run *run*."""
        return self._running(run) if self.owned(run) else status_after(last_line(self.file(run)))
