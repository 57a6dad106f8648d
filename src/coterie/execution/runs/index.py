"""The per-user index of runs in all folders. It is a convenience: losing it loses no run."""

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO, Protocol
from urllib.parse import unquote

import msgspec
from msgspec import Struct

from coterie.base import files
from coterie.errors import JournalUnreadable, NoSuchRun, UsageError
from coterie.history.journal.codec import Decoder
from coterie.history.journal.jsonl import folder_of
from coterie.history.journal.lock import is_held
from coterie.history.journal.records import RunStarted

try:
    import fcntl
except ImportError:  # not Unix
    fcntl = None  # type: ignore[assignment]

STATE_DIR = ".coterie"
"""The state directory of runs, in the directory where they start; see `usual_home`."""
OF_LOOPS = ".autoloop"
"""The state directory of loops. All runs are found from either."""
_LARGEST = 64 << 20
"""How many bytes of the index are read, from its end."""
_SHOWN = 5
"""How many runs a message names if the beginning of an id matches several."""


class Entry(Struct, frozen=True, kw_only=True):
    """A run in the index.

    Attributes:
        started: When, in Unix seconds; *cwd* is the directory where, if known.
        kind: The kind of its team, `flow` or `loop` for example; empty if it is unknown.
    """

    run: str
    folder: str
    topology: str = ""
    started: float = 0.0
    cwd: str = ""
    kind: str = ""


def path() -> Path:
    """The index file: `coterie/runs.jsonl` in the user's state directory (`XDG_STATE_HOME`)."""
    return files.user_state() / "runs.jsonl"


def add(entry: Entry) -> None:
    """Add a run to the index. Failures are ignored: the run is then not listed from other directories.

    This happens if the home directory is read-only or missing, or if the folder's name is not text.
    """
    try:
        line = msgspec.json.encode(entry) + b"\n"
        files.make_folder(path().parent)
        with _locked() as file:
            file.write(line)
    except (OSError, RuntimeError, UnicodeEncodeError):
        return


def forget_removed() -> None:
    """Rewrite the index without runs that no longer exist; those of a whole folder that is missing may come back."""
    with suppress(OSError, RuntimeError), _locked():
        named = list(_named())
        left = [one for one in named if _is_there(one) or not os.path.exists(os.path.dirname(one.folder))]
        if len(left) < len(named):
            files.replace_text(path(), "".join(f"{msgspec.json.encode(one).decode()}\n" for one in left))


@contextmanager
def _locked() -> Iterator[BinaryIO]:
    """The index, opened to add lines; no other process adds any, or rewrites it, in the meantime."""
    while True:
        with files.open_private(path(), "ab", follow=True) as file:
            if fcntl is not None:
                with suppress(OSError):  # a file system without locks
                    fcntl.flock(file, fcntl.LOCK_EX)
            if os.path.samestat(os.fstat(file.fileno()), os.stat(path())):
                yield file
                return


def entries(state_dir: Path | None = None) -> list[Entry]:
    """The runs that still exist, oldest first: those of *state_dir*, then those of the index in other directories."""
    return oldest_first(newest(state_dir, everywhere=True))


def started(first: RunStarted) -> float:
    """When the run with the record *first* began: in a fork, that record has the time of the run it was made from."""
    made = first.forked_from.at if first.forked_from is not None else 0.0
    return made or first.at


def oldest_first(entries: Iterable[Entry]) -> list[Entry]:
    """*entries* in the order in which their runs began."""
    return sorted(entries, key=lambda entry: (entry.started, entry.run))


def newest(state_dir: Path | None, *, everywhere: bool = False, beginning: str = "") -> Iterator[Entry]:
    """The runs of the directory of *state_dir* that still exist, newest first.

    The files of a run are read only when it is yielded, or if it is not in the index because it was copied here.

    Args:
        everywhere: Then also yield those of the index in other directories, newest first.
        beginning: Yield only runs whose id begins with this.
    """
    named = {entry.folder: entry for entry in _named() if entry.run.startswith(beginning)}
    here = {entry.folder: entry for entry in _here(state_dir, named, beginning)}
    found = sorted(here.values(), key=lambda entry: (entry.started, entry.run), reverse=True)
    if everywhere:
        found += [entry for folder, entry in reversed(named.items()) if folder not in here]
    return filter(_is_there, found)


class Newest(Protocol):
    """Yields runs, newest first; see `newest`."""

    def __call__(self, *, everywhere: bool = False, beginning: str = "") -> Iterator[Entry]:
        """The runs of this directory, then those of other directories."""


def find(run: str, state_dir: Path) -> Path:
    """The folder of *run*; see `choose`."""
    return Path(choose(run, partial(newest, state_dir))[0].folder)


def choose(run: str, newest: Newest) -> tuple[Entry, bool]:
    """Find the run that *run* names, and whether it is one of this directory.

    For runs of this directory, *run* is `last`, an id, or an unambiguous beginning of an id; for other runs it is an
    id.

    Raises:
        NoSuchRun: If there is none.
        UsageError: If several runs match.
    """
    if run == "last":
        for entry in newest():
            return entry, True
        raise NoSuchRun(run)
    here: dict[str, Entry] = {}
    for entry in newest(beginning=run) if run else ():
        here.setdefault(entry.run, entry)
    if run in here or len(here) == 1:
        return here.get(run) or next(iter(here.values())), True
    if here:
        some = ", ".join(list(here)[:_SHOWN])
        more = f" and {len(here) - _SHOWN} more" if len(here) > _SHOWN else ""
        raise UsageError(f"{run!r} matches {some}{more}; give more of the id")
    there = {entry.folder: entry for entry in newest(everywhere=True, beginning=run) if entry.run == run}
    if not there:
        raise NoSuchRun(run, [entry.run for entry in newest(everywhere=True)])
    if len(there) > 1:
        homes = ", ".join(str(home_of(Path(folder))) for folder in list(there)[:_SHOWN])
        raise UsageError(f"there are several runs {run!r}, in {homes}; choose one of these with --state-dir")
    return next(iter(there.values())), False


def home_of(folder: Path) -> Path:
    """The state directory of the root run whose files are in *folder*."""
    return folder.parent.parent


def project_of(state_dir: Path) -> Path:
    """The directory whose runs are in *state_dir*: its parent folder, if *state_dir* has one of the usual names."""
    return state_dir.parent if state_dir.name in (STATE_DIR, OF_LOOPS) else state_dir


def state_dir_of(project: Path) -> Path:
    """The state directory of *project*, which may be a state directory itself; the inverse of `project_of`."""
    usual = homes(project / STATE_DIR)
    return project if (project / "runs").is_dir() and not any(map(os.path.exists, usual)) else usual[0]


def living(state_dir: Path) -> list[Path]:
    """The folders of runs in *state_dir* with a living owner."""
    return [Path(entry.folder) for entry in newest(state_dir) if is_held(Path(entry.folder, "lock"))]


def place_of(run: str, state_dir: Path) -> Path | None:
    """The other directory that counts as *state_dir* and has the folder of *run*; None if there is none."""
    return next((home for home in homes(state_dir)[1:] if os.path.lexists(folder_of(home, run))), None)


def ids() -> set[str]:
    """The ids of all runs in the index, including runs that no longer exist."""
    return {entry.run for entry in _named()}


def is_shared(run: str) -> bool:
    """Whether runs in several places have the id *run*, as numbered ids such as `run-1` may be."""
    return len({entry.folder for entry in _named() if entry.run == run and _is_there(entry)}) > 1


def health() -> tuple[int, int, int]:
    """The number of runs in the index, of those that no longer exist, and of unreadable lines."""
    named = list(_named())
    return len(named), len(named) - sum(map(_is_there, named)), len(_lines()) - len(named)


def usual_home(project: Path = Path()) -> Path:
    """The state directory of new runs in *project* by default: that of loops if only it has runs, so that it is one."""
    usual, of_loops = project / STATE_DIR, project / OF_LOOPS
    return of_loops if os.path.isdir(of_loops / "runs") and not os.path.lexists(usual) else usual


def homes(state_dir: Path | None) -> list[Path]:
    """The directories that count as *state_dir*, which comes first: both usual ones if it is one of them."""
    if state_dir is None:
        return []
    usual = {STATE_DIR: OF_LOOPS, OF_LOOPS: STATE_DIR}
    return [state_dir, *(state_dir.with_name(usual[name]) for name in (state_dir.name,) if name in usual)]


def state_dirs(state_dir: Path) -> list[Path]:
    """All known state directories: those that count as *state_dir*, and those of all runs in the index."""
    named = dict.fromkeys(home_of(Path(entry.folder)) for entry in _named())
    return [*dict.fromkeys(path.resolve() for path in (*homes(state_dir), *named) if os.path.exists(path))]


def check_readable(state_dir: Path) -> None:
    """Check that the runs in *state_dir* can be listed, or that there are none.

    Raises:
        UsageError: If they belong to another user.
    """
    for home in homes(state_dir):
        try:
            os.scandir(home / "runs").close()
        except PermissionError:
            where = f"the runs in {home} are those of another user, and you may not read them"
            raise UsageError(f"{where}: work as that user, or keep yours elsewhere with --state-dir DIR") from None
        except OSError:
            continue


def _here(state_dir: Path | None, named: Mapping[str, Entry], beginning: str) -> Iterator[Entry]:
    """The runs in *state_dir*, and those of *named* that were started in its directory, in no order."""
    for home in homes(state_dir):
        with suppress(OSError, ValueError):
            runs = os.path.realpath(home / "runs")
            for name in os.listdir(runs):
                folder = f"{runs}/{name}"
                entry = named.get(folder) or (_read(folder) if unquote(name).startswith(beginning) else None)
                if entry is not None:
                    yield entry
    if state_dir is not None and len(homes(state_dir)) > 1:
        cwd = os.path.realpath(state_dir.parent)
        yield from (entry for entry in named.values() if entry.cwd == cwd)


def _read(folder: str) -> Entry | None:
    """Read the run in *folder* from its journal; None if there is none."""
    run, journal, first = unquote(os.path.basename(folder)), Path(folder, "journal.jsonl"), None
    try:
        with files.open_private(journal, "rb") as file, suppress(JournalUnreadable):
            changed = os.fstat(file.fileno()).st_mtime
            first = next(Decoder(str(journal)).read(file), None)
    except OSError:
        return None
    if isinstance(first, RunStarted):
        return Entry(run=run, folder=folder, topology=first.topology, started=started(first))
    return Entry(run=run, folder=folder, started=changed)


def _lines() -> list[bytes]:
    try:
        return files.read_end(path(), _LARGEST, follow=True).splitlines()
    except (OSError, RuntimeError):
        return []


def _named() -> Iterator[Entry]:
    for line in _lines():
        with suppress(msgspec.DecodeError, UnicodeDecodeError):  # a torn line only loses one entry
            yield msgspec.json.decode(line, type=Entry)


def _is_there(entry: Entry) -> bool:
    return os.path.exists(f"{entry.folder}/journal.jsonl")
