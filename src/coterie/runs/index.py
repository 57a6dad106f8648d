"""The per-user index of runs, wherever their folders lie: a convenience that can be lost, and nothing with it."""

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote

import msgspec
from msgspec import Struct

from coterie import files
from coterie.errors import JournalUnreadable, NoSuchRun, UsageError
from coterie.journal.codec import Decoder
from coterie.journal.lock import is_held
from coterie.journal.records import RunStarted

STATE_DIR = ".coterie"
"""Where runs are kept, in the directory they are started in; those of loops in *OF_LOOPS*, as their page says."""
OF_LOOPS = ".autoloop"
_LARGEST = 64 << 20
"""Bytes of the index that are read, from its end."""
_SHOWN = 5
"""How many runs are named where the beginning of an id fits more."""


class Entry(Struct, frozen=True, kw_only=True):
    """One run. *started* is in Unix seconds; *cwd* is the directory it was started in, if known."""

    run: str
    folder: str
    topology: str = ""
    started: float = 0.0
    cwd: str = ""


def path() -> Path:
    """The index file: `coterie/runs.jsonl` in the user's state directory (`XDG_STATE_HOME`)."""
    return files.user_state() / "runs.jsonl"


def add(entry: Entry) -> None:
    """Put a run into the index; a read-only home only means that it is not listed from elsewhere.

    So does no home at all, or a folder whose name is not text.
    """
    try:
        line = msgspec.json.encode(entry) + b"\n"
        files.make_folder(path().parent)
        with files.open_private(path(), "ab", follow=True) as file:
            file.write(line)
    except (OSError, RuntimeError, UnicodeEncodeError):
        return


def entries(state_dir: Path | None = None) -> list[Entry]:
    """The runs that still exist, oldest first: those of *state_dir*, then those the index knows elsewhere."""
    return oldest_first(newest(state_dir, everywhere=True))


def oldest_first(entries: Iterable[Entry]) -> list[Entry]:
    """*entries* in the order in which their runs began."""
    return sorted(entries, key=lambda entry: (entry.started, entry.run))


def newest(state_dir: Path | None, *, everywhere: bool = False, beginning: str = "") -> Iterator[Entry]:
    """The runs of the directory of *state_dir* that still exist, newest first.

    The files of a run are looked at when it is its turn, or when the index does not know it: it was copied here.

    Args:
        everywhere: Then those that the index knows elsewhere, newest first.
        beginning: Only those whose id begins with it.
    """
    named = {entry.folder: entry for entry in _named() if entry.run.startswith(beginning)}
    here = {entry.folder: entry for entry in _here(state_dir, named, beginning)}
    found = sorted(here.values(), key=lambda entry: (entry.started, entry.run), reverse=True)
    if everywhere:
        found += [entry for folder, entry in reversed(named.items()) if folder not in here]
    return filter(_is_there, found)


class Newest(Protocol):
    """Gives runs, newest first; see `newest`."""

    def __call__(self, *, everywhere: bool = False, beginning: str = "") -> Iterator[Entry]:
        """The runs here, then those elsewhere."""


def find(run: str, state_dir: Path) -> Path:
    """The folder of *run*; see `choose`."""
    return Path(choose(run, partial(newest, state_dir))[0].folder)


def choose(run: str, newest: Newest) -> tuple[Entry, bool]:
    """The run that *run* names, and whether it is one of this directory.

    Here *run* is `last`, an id, or a beginning of one that only one run has; elsewhere it is an id.

    Raises:
        NoSuchRun: If there is none.
        UsageError: If several runs fit.
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
    """The state directory of the root run whose files lie in *folder*."""
    return folder.parent.parent


def project_of(state_dir: Path) -> Path:
    """The directory whose runs are in *state_dir*: the one that contains it, if it has one of the usual names."""
    return state_dir.parent if state_dir.name in (STATE_DIR, OF_LOOPS) else state_dir


def state_dir_of(project: Path) -> Path:
    """The state directory of *project*, which may itself be one; the inverse of `project_of`."""
    usual = homes(project / STATE_DIR)
    return project if (project / "runs").is_dir() and not any(map(_exists, usual)) else usual[0]


def living(state_dir: Path) -> list[Path]:
    """The folders of the runs in *state_dir* that a living process owns."""
    return [Path(entry.folder) for entry in newest(state_dir) if is_held(Path(entry.folder, "lock"))]


def ids() -> set[str]:
    """The ids of all runs that the index has known, also of those that are gone."""
    return {entry.run for entry in _named()}


def is_shared(run: str) -> bool:
    """Whether runs in several places are called *run*, as those that are counted may be: `run-1`."""
    return len({entry.folder for entry in _named() if entry.run == run and _is_there(entry)}) > 1


def health() -> tuple[int, int, int]:
    """How many runs the index names, how many of them are gone, and how many of its lines cannot be read."""
    named = list(_named())
    return len(named), len(named) - sum(map(_is_there, named)), len(_lines()) - len(named)


def homes(state_dir: Path | None) -> list[Path]:
    """The directories that count as *state_dir*: beside the usual one lies that of loops."""
    if state_dir is None:
        return []
    return [state_dir, state_dir.with_name(OF_LOOPS)] if state_dir.name == STATE_DIR else [state_dir]


def state_dirs(state_dir: Path) -> list[Path]:
    """Every state directory that is known: those that count as *state_dir*, and those of all runs in the index."""
    named = dict.fromkeys(home_of(Path(entry.folder)) for entry in _named())
    return [*dict.fromkeys(path.resolve() for path in (*homes(state_dir), *named) if _exists(path))]


def check_readable(state_dir: Path) -> None:
    """Do nothing if the runs in *state_dir* can be listed, or if there are none.

    Raises:
        UsageError: They are those of another user.
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
    if state_dir is not None and state_dir.name == STATE_DIR:
        cwd = os.path.realpath(state_dir.parent)
        yield from (entry for entry in named.values() if entry.cwd == cwd)


def _read(folder: str) -> Entry | None:
    """The run in *folder*, from its journal; None if it has none."""
    run, journal, first = unquote(os.path.basename(folder)), Path(folder, "journal.jsonl"), None
    try:
        with files.open_private(journal, "rb") as file, suppress(JournalUnreadable):
            changed = os.fstat(file.fileno()).st_mtime
            first = next(Decoder(str(journal)).read(file), None)
    except OSError:
        return None
    if isinstance(first, RunStarted):
        return Entry(run=run, folder=folder, topology=first.topology, started=first.at)
    return Entry(run=run, folder=folder, started=changed)


def _lines() -> list[bytes]:
    try:
        return files.read_end(path(), _LARGEST, follow=True).splitlines()
    except (OSError, RuntimeError):
        return []


def _named() -> Iterator[Entry]:
    for line in _lines():
        with suppress(msgspec.DecodeError, UnicodeDecodeError):  # a torn line costs one listing
            yield msgspec.json.decode(line, type=Entry)


def _is_there(entry: Entry) -> bool:
    return _exists(Path(entry.folder, "journal.jsonl"))


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # a name too long, a folder that may not be entered: one listing again
        return False
