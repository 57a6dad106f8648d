"""Where runs are kept, and how one is found by what a person types.

This is the one module that names the store on disk; `coterie.journal.runs` reads what the journals hold. The runs of a
cluster are another `RunLocation`, in `coterie.cluster.runs`. `coterie.runs.control` changes runs.
"""

import os
import shlex
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote

from coterie import files
from coterie.errors import NoSuchRun
from coterie.journal.base import Archive, JournalStore
from coterie.journal.codec import Encoder
from coterie.journal.jsonl import JOURNAL, STREAM, STREAM_MOST, JsonlStore, folder_of
from coterie.journal.records import Record
from coterie.journal.relocation import Relocation, relocation
from coterie.journal.runs import RunReader
from coterie.journal.writer import JsonlWriter
from coterie.runs import index
from coterie.runs.index import Entry
from coterie.values import dataclass

STATE_DIR = ".coterie"


class Runs(RunReader):
    """The runs of one state directory, or of another store that has some of their files there.

        runs, run = find("last", Path(".coterie"))
        for record in runs.read(run): ...

    Args:
        root: The state directory; the first run makes it.
        poll: Seconds between two checks of `follow` for new records.
        store: Keeps the journals; by default each is a file in the run's folder.
        archive: Where the journals are read, if this machine does not keep them.

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
        """Whether this machine keeps and drives them."""
        return self.store is self.local

    def relocation(self, records: Sequence[Record]) -> Relocation:
        """Where the project is that the state directory lies in."""
        return relocation(records, self.root) if self.is_here else Relocation()

    def folder(self, run: str) -> Path:
        """The folder with all files of *run*, whether it exists or not."""
        return folder_of(self.root, run)

    def file(self, run: str) -> Path:
        """The file with the journal of *run*, whether it exists or not."""
        return self.folder(run) / JOURNAL

    def claim_file(self, run: str) -> JsonlWriter:
        """Become the owner of *run*, whose journal is a file whatever else keeps journals here."""
        return self._in_files.claim(run)

    def printed(self, attempt: str, begin: int) -> bytes:
        """The lines that *attempt*, by its mark, has printed, from that byte of all its output on."""
        return files.read_lines(self.folder(attempt) / STREAM, begin, 2 * STREAM_MOST)

    def text(self, run: str) -> str:
        """The journal of *run* as it is written, or if it is no file as it would be."""
        if not self.file(run).exists():
            return Encoder(sealed=True).encode(list(self.read(run))).decode()
        with files.open_private(self.file(run), "rb") as file:
            return file.read().decode("utf-8", "replace")

    def inbox(self, run: str) -> Path:
        """The folder in which messages to the root run *run* wait."""
        return self.folder(run) / "inbox"


class RunLocation(Protocol):
    """A place that keeps runs: a directory of this machine, or a cluster."""

    @property
    def option(self) -> str:
        """The option that names it to a further command, after a blank; empty if that looks there anyway."""

    def newest(self, *, everywhere: bool = False, beginning: str = "") -> Iterator[Entry]:
        """The runs here whose id begins with *beginning*, newest first; *everywhere*: then those elsewhere."""

    def open(self, entry: Entry) -> tuple[Runs, str]:
        """The runs among which *entry* is, and its id there."""


@dataclass(frozen=True)
class LocalRuns:
    """The runs of a directory of this machine."""

    state_dir: Path

    @property
    def option(self) -> str:
        """`--state-dir`, unless it is the usual one and no variable names a cluster."""
        usual = str(self.state_dir) in (index.STATE_DIR, index.OF_LOOPS)
        if usual:
            return " --cluster ''" if os.environ.get("COTERIE_CLUSTER") else ""
        return f" --state-dir {shlex.quote(str(self.state_dir))}"

    def newest(self, *, everywhere: bool = False, beginning: str = "") -> Iterator[Entry]:
        """The runs here; see `coterie.runs.index.newest`."""
        return index.newest(self.state_dir, everywhere=everywhere, beginning=beginning)

    def open(self, entry: Entry) -> tuple[Runs, str]:
        """The state directory that holds *entry*, which may be another, and its id there."""
        return run_in(Path(entry.folder))


Where = Path | RunLocation
"""Where runs are: a state directory, or another location."""


def location_at(where: Where) -> RunLocation:
    """The location that *where* is."""
    return LocalRuns(where) if isinstance(where, Path) else where


Elsewhere = Callable[[str, Path], object]
"""Takes the id of a run that is not of this directory, and its directory; raises if it must not be used."""


def find(name: str, where: Where, elsewhere: Elsewhere | None = None) -> tuple[Runs, str]:
    """The run that *name* names, and the runs among which it is.

    Args:
        name: Here an id, a beginning of one that only one run has, or `last`; elsewhere an id. With `/TURN.ATTEMPT` it
            names a child run.
        elsewhere: Called if the run is of another directory; what changes a run passes one.

    Raises:
        NoSuchRun: If there is none.
        UsageError: If several runs fit, or none and those here may not be read.
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
    """The root run whose files are in *folder*, and the state directory that holds it."""
    return Runs(index.home_of(folder)), unquote(folder.name)
