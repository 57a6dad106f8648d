"""Where runs are kept, and how to find one by the name that a person types.

Only this module names the store on disk; `coterie.history.journal.runs` reads the journals. The runs of a cluster are
another `RunLocation`, in `coterie.execution.cluster.runs`. `coterie.execution.runs.control` changes runs.
"""

import os
import shlex
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote

from msgspec import Struct

from coterie.base import files
from coterie.errors import NoSuchRun
from coterie.execution.runs import index
from coterie.execution.runs.index import Entry
from coterie.history.journal.base import Archive, JournalStore
from coterie.history.journal.codec import Encoder
from coterie.history.journal.jsonl import JOURNAL, STREAM, STREAM_MOST, JsonlStore, folder_of
from coterie.history.journal.records import Record
from coterie.history.journal.relocation import Relocation, relocation
from coterie.history.journal.runs import RunReader
from coterie.history.journal.writer import JsonlWriter

STATE_DIR = ".coterie"
_PART = 1 << 20
"""How many bytes of a journal are shown at once."""


class Runs(RunReader):
    """The runs of one state directory, or of another store with some of their files in it.

        runs, run = find("last", Path(".coterie"))
        for record in runs.read(run): ...

    Args:
        root: The state directory; the first run creates it.
        poll: Seconds between two checks of `follow` for new records.
        store: Keeps the journals; by default each is a file in the run's folder.
        archive: The source of the journals, if this machine does not keep them.

    Attributes:
        local: The store in which runs of this machine are claimed.
    """

    def __init__(
        self, root: Path, poll: float = 0.05, store: JournalStore | None = None, archive: Archive | None = None
    ) -> None:
        self._in_files = JsonlStore(root, poll)
        self.local: JournalStore = store or self._in_files
        super().__init__(archive or self.local)
        self.root = root

    @property
    def is_here(self) -> bool:
        """Whether this machine keeps and drives the runs."""
        return self.store is self.local

    def be_patient(self) -> None:
        """Wait longer for what stores the runs: the caller follows one. A disk is not waited for."""

    def relocation(self, records: Sequence[Record]) -> Relocation:
        """The present location of the project that contains the state directory."""
        return relocation(records, self.root) if self.is_here else Relocation()

    def folder(self, run: str) -> Path:
        """The folder with all files of *run*, whether it exists or not."""
        return folder_of(self.root, run)

    def file(self, run: str) -> Path:
        """The file with the journal of *run*, whether it exists or not."""
        return self.folder(run) / JOURNAL

    def claim_file(self, run: str) -> JsonlWriter:
        """Become the owner of *run*, whose journal is a file even if another store keeps the other journals."""
        return self._in_files.claim(run)

    def printed(self, attempt: str, begin: int) -> bytes:
        """The lines that the attempt with the mark *attempt* has printed, from the byte *begin* of its output."""
        return files.read_lines(self.folder(attempt) / STREAM, begin, 2 * STREAM_MOST)

    def text(self, run: str) -> Iterator[str]:
        """The journal of *run* as stored in its file, or as a file would store it, in parts of whole lines."""
        if not self.file(run).exists():
            yield Encoder(sealed=True).encode(list(self.read(run))).decode()
            return
        with files.open_private(self.file(run), "rb") as file:
            while part := file.read(_PART):
                yield (part + file.readline()).decode("utf-8", "replace")

    def inbox(self, run: str) -> Path:
        """The folder for messages to the root run *run*."""
        return self.folder(run) / "inbox"


class RunLocation(Protocol):
    """A place that keeps runs: a directory of this machine, or a cluster."""

    @property
    def option(self) -> str:
        """The option, after a blank, that names this place in a further command; empty if it is the default."""

    def newest(self, *, everywhere: bool = False, beginning: str = "") -> Iterator[Entry]:
        """The runs here whose id begins with *beginning*, newest first; with *everywhere*, then those elsewhere."""

    def open(self, entry: Entry) -> tuple[Runs, str]:
        """The store that has the run *entry*, and its id there."""


class LocalRuns(Struct, frozen=True):
    """The runs of a directory of this machine."""

    state_dir: Path

    @property
    def option(self) -> str:
        """`--state-dir`, unless it is the default and no variable names a cluster."""
        usual = str(self.state_dir) in (index.STATE_DIR, index.OF_LOOPS)
        if usual:
            return " --cluster ''" if os.environ.get("COTERIE_CLUSTER") else ""
        return f" --state-dir {shlex.quote(str(self.state_dir))}"

    def newest(self, *, everywhere: bool = False, beginning: str = "") -> Iterator[Entry]:
        """The runs here; see `coterie.execution.runs.index.newest`."""
        return index.newest(self.state_dir, everywhere=everywhere, beginning=beginning)

    def open(self, entry: Entry) -> tuple[Runs, str]:
        """The state directory that contains *entry*, possibly another one, and its id there."""
        return run_in(Path(entry.folder))


Where = Path | RunLocation
"""A place with runs: a state directory, or another location."""


def location_at(where: Where) -> RunLocation:
    """Turn *where* into a location."""
    return LocalRuns(where) if isinstance(where, Path) else where


Elsewhere = Callable[[str, Path], object]
"""Called with the id and the directory of a run of another directory; raises if it must not be used."""


def find(name: str, where: Where, elsewhere: Elsewhere | None = None) -> tuple[Runs, str]:
    """Find the run that *name* names; return its store and its id.

    Args:
        name: For runs of this directory an id, an unambiguous beginning of an id, or `last`; for others an id. With
            `/TURN.ATTEMPT` it names a child run.
        elsewhere: Called if the run belongs to another directory; commands that change runs pass it.

    Raises:
        NoSuchRun: If there is none.
        UsageError: If several runs match, or none and those here cannot be read.
    """
    location = location_at(where)
    root, _, below = name.partition("/")
    try:
        entry, is_here = index.choose(root, location.newest)
    except NoSuchRun:
        if isinstance(where, Path):
            index.check_readable(where)
        raise
    runs, run = location.open(entry)
    if elsewhere is not None and not is_here:
        elsewhere(run, index.project_of(runs.root))
    if below:
        run = f"{run}/{below}"
        if not runs.has(run):
            raise NoSuchRun(run)
    return runs, run


def run_in(folder: Path) -> tuple[Runs, str]:
    """The state directory and the id of the root run whose files are in *folder*."""
    return Runs(index.home_of(folder)), unquote(folder.name)
