"""A store that keeps each run's journal as one file of JSON lines, in the run's own folder.

    <root>/runs/<run>/journal.jsonl                         the run
    <root>/runs/<run>/lock                                  held by its owner
    <root>/runs/<run>/turns/<turn>.<attempt>/journal.jsonl  a child run; its own children lie below it likewise

A run is copied, moved and deleted as one folder. `coterie.journal.writer` describes the writer.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote

from coterie import files
from coterie.errors import JournalFailed, JournalUnreadable, NoSuchRun
from coterie.ids import folder_name
from coterie.journal.codec import Decoder
from coterie.journal.lines import Reading, make_folder
from coterie.journal.lock import RunLock, is_held
from coterie.journal.records import Record, RunFinished
from coterie.journal.rules import Claims, at_rest, check_claim, root_of
from coterie.journal.status import RunStatus, read_status
from coterie.journal.syncer import Syncer
from coterie.journal.writer import JsonlWriter

JOURNAL = "journal.jsonl"
STREAM = "stream.jsonl"
"""What an attempt prints and does, in the folder that a child run of it would have."""
STREAM_MOST = 32_000_000
"""Bytes of that file."""
_SHARED = ("memory.jsonl", "tasks.jsonl", "waves", "worktrees")
"""What lies in the state directory beside the folders of runs."""


class JsonlStore:
    """Keep journals under *root*, safe from crashes and power cuts.

    A run has one owner at a time, on one machine: the holder of its lock. What an owner killed half-way left is read
    up to its last whole line. Reading takes no lock and disturbs no other process; a reader can see a record a
    moment before it is durable, between its write and its sync.

        store = JsonlStore(Path(".coterie"))
        for record in store.read("20261121-154233-9f3a1c"): ...

    Args:
        root: The state directory; made at the first claim.
        poll: Seconds between two looks of `follow` at the file.
    """

    def __init__(self, root: Path, poll: float = 0.05) -> None:
        self.root = root
        self._poll = poll
        self._writers: dict[str, JsonlWriter] = {}
        self._readings: dict[str, Reading] = {}
        """What was read of runs that go on, until their owner has read it."""
        self._claims = Claims()
        self._syncer = Syncer()

    def folder(self, run: str) -> Path:
        """Where everything of *run* lies, whether it exists or not; inside its root's folder when it is a child."""
        return folder_of(self.root, run)

    def file(self, run: str) -> Path:
        """The file of the journal of *run*, whether it exists or not."""
        return self.folder(run) / JOURNAL

    def claim(self, run: str) -> JsonlWriter:
        """Become the owner of *run*; see `coterie.journal.base.Archive`.

        Raises:
            JournalFailed: If its folder cannot be written, or lies where file locks do not work.
        """
        root = root_of(run)
        check_claim(run, run in self._writers, root in self._writers)
        folder = self.folder(run)
        try:
            if root == run:
                self._tighten(folder)
            folders = _make(folder, is_child=root != run)
            lock = self._writers[root].lock if root != run else RunLock(run, folder / "lock")
            try:
                path = folder / JOURNAL
                reading = self._reading(run, path) if path.exists() else None
                writer = JsonlWriter(run, path, lock, self._syncer, self._release, folders, reading)
            except BaseException:
                if root == run:
                    lock.release()
                raise
        except OSError as error:
            raise JournalFailed(run, f"{folder}: {error.strerror or error}") from error
        self._writers[run] = writer
        if reading is not None:
            self._readings[run] = reading
        self._claims.add(run)
        return writer

    def owned(self, run: str) -> bool:
        """Whether a living process owns *run*, this one included."""
        return root_of(run) in self._writers or is_held(self.folder(root_of(run)) / "lock")

    def has(self, run: str) -> bool:
        """Whether *run* has a journal."""
        try:
            os.stat(f"{self.root}/{_below(run)}/{JOURNAL}")  # asked of each attempt of a long run
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def status(self, run: str) -> RunStatus:
        """The status of the root run *run*, from the end of its journal."""
        return read_status(self.file(run), self.folder(run) / "lock")

    def place(self, run: str, seq: int = 1) -> tuple[str, int]:
        """The file and line of the record *seq*; see `coterie.journal.base.Archive`."""
        path, key = self.file(run), b'"seq":%d,' % seq
        with suppress(OSError), path.open("rb") as file:
            return str(path), next((n for n, text in enumerate(file, 1) if key in text), 1)
        return str(path), 1

    def read(self, run: str, from_seq: int = 1) -> Iterator[Record]:
        """The records of *run* from *from_seq* on; see `coterie.journal.base.Archive`.

        The first read by an owner gives what its claim has decoded, which is not kept any longer. What the owner of a
        root reads of a child run is kept for its claim.
        """
        path = self._existing(run)
        if run not in self._writers and root_of(run) in self._writers:
            return iter(self.load_for_claim(run)[max(from_seq, 1) - 1 :])
        if run in self._writers:
            reading = self._readings.pop(run, None)
            if reading is not None and reading.decoder.last == self._writers[run].last:
                return iter(reading.records[max(from_seq, 1) - 1 :])
        return _records(path, from_seq, verified=run in self._writers)

    async def load(self, run: str) -> Sequence[Record]:
        """All records of *run*, read on a thread; see `coterie.journal.base.Archive`."""
        return await asyncio.to_thread(lambda: tuple(self.read(run)))

    def load_for_claim(self, run: str) -> Sequence[Record]:
        """All records of *run*, kept for its next owner; see `coterie.journal.base.Archive`."""
        if run in self._writers:
            return tuple(self.read(run))
        reading = self._reading(run, self._existing(run))
        reading.go_on()
        if not (reading.records and isinstance(reading.records[-1], RunFinished)):
            self._readings[run] = reading
        return tuple(reading.records)

    def _reading(self, run: str, path: Path) -> Reading:
        return self._readings.pop(run, None) or Reading(path)

    async def follow(self, run: str, from_seq: int = 1) -> AsyncIterator[Record]:
        """Every record of *run*, those to come included; see `coterie.journal.base.Archive`."""
        path = self._existing(run)
        decoder = Decoder(str(path))
        last: Record | None = None
        while True:
            rests = at_rest(last, owned=False) and at_rest(last, self.owned(run))
            news = _news(path, decoder)
            for last in news:
                if last.seq >= from_seq:
                    yield last
            if rests and not news:
                return
            if not news:
                await asyncio.sleep(self._poll)

    def list(self) -> list[str]:
        """The ids of the root runs, oldest first; those whose journal is damaged too."""
        journals = ((_began(path), path) for path in self.root.glob(f"runs/*/{JOURNAL}"))
        begun = [(at, unquote(path.parent.name)) for at, path in journals if at is not None]
        return [run for _, run in sorted(begun)]

    def _tighten(self, folder: Path) -> None:
        """Make private what an earlier version, or an agent under another umask, left of the run in *folder*."""
        for shared in (*_SHARED, "runs"):
            files.tighten(self.root / shared, deep=shared == "waves")
        files.tighten(folder)

    def _existing(self, run: str) -> Path:
        path = self.file(run)
        if not path.is_file():
            raise NoSuchRun(run, self.list() if root_of(run) == run else ())
        return path

    def _release(self, run: str) -> None:
        """Called by the writer of *run* when it closes: a root takes its children with it."""
        writer = self._writers.pop(run)
        self._readings.pop(run, None)
        for child in self._claims.let_go(run):
            self._writers[child].give_up()
        if root_of(run) == run:
            writer.lock.release()
        if not self._writers:
            self._syncer.stop()


def folder_of(root: Path, run: str) -> Path:
    """Where everything of *run* lies below the state directory *root*, whether it exists or not."""
    return root / _below(run)


def _below(run: str) -> str:
    return "runs/" + "/turns/".join(map(_safe, run.split("/")))


def _safe(part: str) -> str:
    """*part* of a run's id as a file name that leads nowhere else."""
    name = folder_name(part)
    return name.replace(".", "%2E") if name in (".", "..") else name


def _make(folder: Path, is_child: bool) -> list[Path]:
    """Make the folder of a run, and give those that the first commit to its journal is to sync.

    A child's lies in its parent's, two levels down; who made the one between may not have cared for power cuts, and who
    made the folder of a root may have been killed before he could.
    """
    if is_child:
        files.make_folder(folder)
    else:
        make_folder(folder)
    return [folder, *folder.parents[:2]]


def _records(path: Path, from_seq: int = 1, *, verified: bool = False) -> Iterator[Record]:
    with files.open_private(path, "rb") as file:
        records = Decoder(str(path), verified=verified).read(file)
        yield from records if from_seq <= 1 else (record for record in records if record.seq >= from_seq)


def _news(path: Path, decoder: Decoder) -> list[Record]:
    """What was appended since *decoder* last read; a line that is not whole yet waits for the next look."""
    if os.stat(path).st_size <= decoder.end:
        return []
    with files.open_private(path, "rb") as file:
        file.seek(decoder.end)
        return list(decoder.read(file))


def _began(path: Path) -> float | None:
    """When the run began, or if that cannot be read, when its journal last changed.

    None if nothing was written, or it was deleted meanwhile.
    """
    with suppress(FileNotFoundError):
        try:
            return next((record.at for record in _records(path)), None)
        except JournalUnreadable:
            return path.stat().st_mtime
    return None
