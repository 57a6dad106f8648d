"""A store that keeps each run's journal as one file of JSON lines, in the run's own folder.

    <root>/runs/<run>/journal.jsonl                         the run
    <root>/runs/<run>/lock                                  held by its owner
    <root>/runs/<run>/turns/<turn>.<attempt>/journal.jsonl  a child run; its own children lie below it likewise

A run can be copied, moved and deleted as one folder. `coterie.history.journal.writer` describes the writer.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from urllib.parse import unquote

from coterie.base import files
from coterie.base.ids import folder_name
from coterie.errors import JournalFailed, JournalUnreadable, NoSuchRun
from coterie.history.journal.codec import Decoder
from coterie.history.journal.lines import Reading, make_folder
from coterie.history.journal.lock import RunLock, is_held
from coterie.history.journal.pace import pace_of
from coterie.history.journal.records import Record, RunFinished
from coterie.history.journal.rules import Claims, at_rest, check_claim, root_of
from coterie.history.journal.status import RunStatus, read_status
from coterie.history.journal.syncer import Syncer
from coterie.history.journal.writer import JsonlWriter

JOURNAL = "journal.jsonl"
STREAM = "stream.jsonl"
"""The file with the output and events of an attempt, in the folder that a child run of it would have."""
STREAM_MOST = 32_000_000
"""The largest size of that file, in bytes."""
_SHARED = ("memory.jsonl", "tasks.jsonl", "waves", "worktrees")
"""Entries of the state directory beside the folders of runs."""


class JsonlStore:
    """Keeps journals under *root*, safe from crashes and power cuts.

    A run has one owner at a time, on one machine: the holder of its lock. The journal of a killed owner is read up to
    its last complete line. Reading takes no lock and disturbs no other process; a reader can see a record a moment
    before it is durable, between its write and its sync.

        store = JsonlStore(Path(".coterie"))
        for record in store.read("20261121-154233-9f3a1c"): ...

    Args:
        root: The state directory; created at the first claim.
        poll: Seconds between two checks of the file by `follow`.
    """

    def __init__(self, root: Path, poll: float = 0.05) -> None:
        self.root = root
        self._poll = poll
        self._writers: dict[str, JsonlWriter] = {}
        self._readings: dict[str, Reading] = {}
        """Records read from unfinished runs, until their owner has read them."""
        self._claims = Claims()
        self._syncer, self._pace = Syncer(), pace_of(root.absolute())

    def folder(self, run: str) -> Path:
        """The folder with all files of *run*, whether it exists or not; a child run's is inside its root's folder."""
        return folder_of(self.root, run)

    def file(self, run: str) -> Path:
        """The journal file of *run*, whether it exists or not."""
        return self.folder(run) / JOURNAL

    def claim(self, run: str) -> JsonlWriter:
        """Become the owner of *run*; see `coterie.history.journal.base.Archive`.

        Raises:
            JournalFailed: If its folder cannot be written, or file locks do not work there.
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
                writer = JsonlWriter(run, path, lock, self._syncer, self._pace, self._release, folders, reading)
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
        """Whether a living process, possibly this one, owns *run*."""
        return root_of(run) in self._writers or is_held(self.folder(root_of(run)) / "lock")

    def has(self, run: str) -> bool:
        """Whether *run* has a journal."""
        try:
            os.stat(f"{self.root}/{_below(run)}/{JOURNAL}")  # called for each attempt of a long run
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def status(self, run: str) -> RunStatus:
        """The status of the root run *run*, from the end of its journal."""
        return read_status(self.file(run), self.folder(run) / "lock")

    def place(self, run: str, seq: int = 1) -> tuple[str, int]:
        """The file and line of the record *seq*; see `coterie.history.journal.base.Archive`."""
        path, key = self.file(run), b'"seq":%d,' % seq
        with suppress(OSError), path.open("rb") as file:
            return str(path), next((n for n, text in enumerate(file, 1) if key in text), 1)
        return str(path), 1

    def read(self, run: str, from_seq: int = 1) -> Iterator[Record]:
        """The records of *run* from *from_seq* on; see `coterie.history.journal.base.Archive`.

        The first read by an owner returns the records that its claim has decoded, and drops them from memory. Records
        of a child run that the owner of its root reads are kept for the child run's claim.
        """
        path = self._existing(run)
        if root_of(run) in self._writers and (run in self._readings or run not in self._writers):
            return iter(self.load_now(run)[max(from_seq, 1) - 1 :])
        return _records(path, from_seq, verified=run in self._writers)

    def load_now(self, run: str, *, is_claimed_next: bool = False) -> Sequence[Record]:
        """All records of *run*; see `read`, and `coterie.history.journal.base.Loader`."""
        path, owner = self._existing(run), self._writers.get(run)
        is_kept = is_claimed_next or root_of(run) in self._writers
        reading = self._reading(run, path) if is_kept else Reading(path)
        if owner is None or reading.decoder.last != owner.last:
            reading.go_on()
        if is_kept and owner is None and not isinstance(reading.last, RunFinished):
            self._readings[run] = reading
        return reading.records

    async def load(self, run: str) -> Sequence[Record]:
        """All records of *run*, read on a thread; see `coterie.history.journal.base.Archive`."""
        return await asyncio.to_thread(self.load_now, run)

    def _reading(self, run: str, path: Path) -> Reading:
        return self._readings.pop(run, None) or Reading(path)

    async def follow(self, run: str, from_seq: int = 1) -> AsyncIterator[Record]:
        """Every existing and further record of *run*; see `coterie.history.journal.base.Archive`."""
        path = self._existing(run)
        decoder = Decoder(str(path))
        last: Record | None = None
        while True:
            rests = at_rest(last, owned=False) and at_rest(last, self.owned(run))
            try:
                news = _news(path, decoder)
            except FileNotFoundError:
                raise NoSuchRun(run) from None
            for last in news:
                if last.seq >= from_seq:
                    yield last
            if rests and not news:
                return
            if not news:
                await asyncio.sleep(self._poll)

    def list(self) -> list[str]:
        """The ids of the root runs, oldest first, including those with a damaged journal."""
        journals = ((_began(path), path) for path in self.root.glob(f"runs/*/{JOURNAL}"))
        begun = [(at, unquote(path.parent.name)) for at, path in journals if at is not None]
        return [run for _, run in sorted(begun)]

    def _tighten(self, folder: Path) -> None:
        """Make files of the run in *folder* private that an earlier version, or an agent with another umask, left."""
        for shared in (*_SHARED, "runs"):
            files.tighten(self.root / shared, deep=shared == "waves")
        files.tighten(folder)

    def _existing(self, run: str) -> Path:
        path = self.file(run)
        if not path.is_file():
            raise NoSuchRun(run, self.list() if root_of(run) == run else ())
        return path

    def _release(self, run: str) -> None:
        """Release *run* when its writer closes; a root releases its children, too."""
        writer = self._writers.pop(run)
        self._readings.pop(run, None)
        for child in self._claims.let_go(run):
            self._writers[child].give_up()
        if root_of(run) == run:
            writer.lock.release()
        if not self._writers:
            self._syncer.stop()


@lru_cache(maxsize=1024)
def folder_of(root: Path, run: str) -> Path:
    """The folder with all files of *run* below the state directory *root*, whether it exists or not."""
    return root / _below(run)


def _below(run: str) -> str:
    return "runs/" + "/turns/".join(map(_safe, run.split("/")))


def _safe(part: str) -> str:
    """Turn *part* of a run's id into a file name that cannot point elsewhere."""
    name = folder_name(part)
    return name.replace(".", "%2E") if name in (".", "..") else name


def _make(folder: Path, is_child: bool) -> list[Path]:
    """Make the folder of a run, and return the folders that the first commit to its journal must sync.

    The folder of a child run is two levels below its parent's. The folder between them may have been created without a
    sync, and the creator of a root's folder may have been killed before it could sync.
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
    """Records appended since *decoder* last read; an incomplete line waits for the next check."""
    if os.stat(path).st_size <= decoder.end:
        return []
    with files.open_private(path, "rb") as file:
        file.seek(decoder.end)
        return list(decoder.read(file))


def _began(path: Path) -> float | None:
    """When the run began or, if that cannot be read, when its journal last changed.

    None if nothing was written, or if the run was deleted meanwhile.
    """
    with suppress(FileNotFoundError):
        try:
            return next((record.at for record in _records(path)), None)
        except JournalUnreadable:
            return path.stat().st_mtime
    return None
