"""The export of a cluster: the journals of its runs, their texts and their files, where every node can reach them.

What drives a run on a cluster keeps the truth in its own history; the export is what people read, and what a run
is resumed from. `coterie.journal.postgres` keeps it in a database; `FolderExport`, for one machine, in a folder that
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

from coterie import files
from coterie.errors import ClusterFailed, ExportConflict, NoSuchRun, RunIsOwned, UsageError
from coterie.ids import folder_name
from coterie.journal.jsonl import STREAM, STREAM_MOST, JsonlStore
from coterie.journal.rules import root_of
from coterie.journal.runs import RunRecord, history, in_order
from coterie.journal.status import RunStatus, goes_on, last_line, status_after

LARGEST_BLOB = 1 << 28
"""Bytes of a blob that is read from a folder."""
_TRIES = 100
_PAUSE = 0.02


class Export(Protocol):
    """Keeps what the nodes of a cluster write about runs. Each call can be repeated and returns once it is durable."""

    async def put(self, records: Sequence[RunRecord]) -> None:
        """Add records of any runs, those of each run in order; records that are there already are left out.

        Raises:
            ExportConflict: If another record with that seq is there: another owner has written it.
            ClusterFailed: If they cannot be written; none of them was.
        """

    async def load(self, root: str) -> list[RunRecord]:
        """Every record of the root run *root* and of its child runs, those of each run in order; none if it is unknown.

        Raises:
            ClusterFailed, JournalUnreadable: If they cannot be read.
        """

    async def put_blob(self, data: bytes) -> str:
        """Keep *data* and return its SHA-256 in hex.

        Raises:
            ClusterFailed: If it cannot be written.
        """

    async def blob(self, hash: str) -> bytes:
        """The data with that SHA-256.

        Raises:
            ClusterFailed: If it cannot be read, or is not there.
        """

    async def put_output(self, attempt: str, begin: int, lines: bytes) -> None:
        """Keep what *attempt*, by its mark, has printed: whole *lines*, which begin at that byte of all its output.

        Raises:
            ClusterFailed: If they cannot be written.
        """

    async def output(self, attempt: str, begin: int) -> bytes:
        """What *attempt* has printed from that byte on, which is the beginning of a line.

        Raises:
            ClusterFailed: If it cannot be read.
        """

    async def secret(self, root: str) -> bytes:
        """The secret of the root run *root*, which is made when it is first wanted: it proves who speaks to the run.

        Raises:
            ClusterFailed: If it can neither be read nor made.
        """

    async def close(self) -> None:
        """Let go of connections and files. Idempotent."""


def open_export(url: str, patience: float | None = None, **login: str) -> Export:
    """The export at *url*: `postgresql://…`, or a folder as a path or as `file://…`. Nothing is connected yet.

    Args:
        patience: Seconds for which a database that does not answer any more is waited for; by default a few.
        login: `password` or `passfile` of the database, where the environment of this process does not have it.

    Raises:
        UsageError: If *url* is of another kind.
        ExtraMissing: If the library for it is not installed.
    """
    if (folder := folder_of(url)) is not None:
        return FolderExport(folder)
    from coterie.journal.postgres import ANSWER_WITHIN, PostgresExport

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
    return Path(unquote(urlsplit(url).path) if scheme else url).expanduser()


@contextmanager
def _failing(path: Path) -> Iterator[Path]:
    """Where an error of the file system is one of the export, at *path*."""
    try:
        yield path
    except OSError as error:
        raise ClusterFailed(str(path), error.strerror or str(error)) from error


class FolderExport:
    """An export in a folder of this machine: a state directory as `JsonlStore` has it, and `blobs/<hash>`."""

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
        """The writer of *root*; another node on this machine may have it for a moment."""
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
        """Keep *data*; see `Export`."""
        digest = hashlib.sha256(data).hexdigest()
        with _failing(self._blob(digest)) as path:
            if not path.exists():
                files.make_folder(path.parent)
                part = path.with_name(f".{digest}.{secrets.token_hex(4)}")
                files.write(part, data)
                os.replace(part, path)
        return digest

    async def blob(self, hash: str) -> bytes:
        """The data with that hash; see `Export`."""
        with _failing(self._blob(hash)) as path:
            return files.read(path, LARGEST_BLOB)

    async def put_output(self, attempt: str, begin: int, lines: bytes) -> None:
        """Keep output where a run of this machine has it; see `Export`."""
        with _failing(self._store.folder(attempt) / STREAM) as path:
            files.make_folder(path.parent)
            with files.open_private(path, "ab") as file:
                if file.tell() == begin:
                    file.write(lines)

    async def output(self, attempt: str, begin: int) -> bytes:
        """The output from that byte on; see `Export`."""
        with _failing(self._store.folder(attempt) / STREAM) as path:
            return await asyncio.to_thread(files.read_lines, path, begin, 2 * STREAM_MOST)

    async def secret(self, root: str) -> bytes:
        """The secret of *root*; see `Export`."""
        with _failing(self._folder / "secrets" / folder_name(root)) as path:
            files.make_folder(path.parent)
            return await asyncio.to_thread(files.secret, path)

    async def close(self) -> None:
        """Nothing is open between calls."""

    def _blob(self, hash: str) -> Path:
        if not hash.isalnum():
            raise ValueError(f"{hash!r} is not a SHA-256 in hex")
        return self._folder / "blobs" / hash


class FolderArchive(JsonlStore):
    """Reads the runs in an export that is a folder, where no owner holds a lock for as long as its run goes on.

    Args:
        driven: Whether a root run is driven; where it is None, it is driven unless its last record ends it.
        running: The status of a root run that is driven.
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
