"""The per-user index of runs, wherever their folders lie: a convenience that can be lost, and nothing with it."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from coterie import files
from coterie.errors import NoSuchRun, UsageError
from coterie.journal.lock import is_held

STATE_DIR = ".coterie"
"""Where runs are kept, in the directory they are started in; those of loops in *OF_LOOPS*, as their page says."""
OF_LOOPS = ".autoloop"
_LARGEST = 64 << 20
"""Bytes of the index that are read, from its end."""
_SHOWN = 5
"""How many runs are named where the beginning of an id fits more."""


class Entry(Struct, frozen=True, kw_only=True):
    """One run. *started* is in Unix seconds."""

    run: str
    folder: str
    topology: str = ""
    started: float = 0.0


def path() -> Path:
    """The index file: `coterie/runs.jsonl` in the user's state directory (`XDG_STATE_HOME`)."""
    home = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(home) / "coterie" / "runs.jsonl"


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
    """The runs that still exist, oldest first: those of *state_dir*, then those the index knows elsewhere.

    Beside the usual state directory lies that of loops, which counts as the same place.
    """
    found = {entry.run: entry for folder in homes(state_dir) for entry in _local(folder)}
    for entry in _indexed():
        known = found.get(entry.run)
        if known is None or Path(known.folder).resolve() == Path(entry.folder).resolve():
            found[entry.run] = entry
    return sorted(found.values(), key=lambda entry: (entry.started, entry.run))


def find(run: str, state_dir: Path) -> Path:
    """The folder of *run*: an id, a beginning of one that only one run has, or `last`.

    Raises:
        NoSuchRun: If there is none.
        UsageError: If several runs begin with *run*.
    """
    known = entries(state_dir)
    here = {folder.resolve() for folder in homes(state_dir)}
    local = [entry for entry in known if home_of(Path(entry.folder)).resolve() in here]
    if run == "last" and (local or known):
        return Path((local or known)[-1].folder)
    exact = [entry for entry in known if entry.run == run]
    fitting = exact or [entry for entry in known if run and entry.run.startswith(run)]
    if not fitting:
        raise NoSuchRun(run, [entry.run for entry in known])
    if len(fitting) > 1:
        some = ", ".join(entry.run for entry in fitting[: -_SHOWN - 1 : -1])
        more = f" and {len(fitting) - _SHOWN} more" if len(fitting) > _SHOWN else ""
        raise UsageError(f"{run!r} matches {some}{more}; give more of the id")
    return Path(fitting[0].folder)


def home_of(folder: Path) -> Path:
    """The state directory of the root run whose files lie in *folder*."""
    return folder.parent.parent


def living(state_dir: Path) -> list[Path]:
    """The folders of the runs in *state_dir* that a living process owns."""
    found = [Path(entry.folder) for folder in homes(state_dir) for entry in _local(folder)]
    return [folder for folder in found if is_held(folder / "lock")]


def is_shared(run: str) -> bool:
    """Whether runs in several places are called *run*, as those that are counted may be: `run-1`."""
    return len({Path(entry.folder).resolve() for entry in _indexed() if entry.run == run}) > 1


def health() -> tuple[int, int, int]:
    """How many runs the index names, how many of them are gone, and how many of its lines cannot be read."""
    named, torn = 0, 0
    for line in _lines():
        try:
            msgspec.json.decode(line, type=Entry)
            named += 1
        except (msgspec.DecodeError, UnicodeDecodeError):
            torn += 1
    return named, named - sum(1 for _ in _indexed()), torn


def homes(state_dir: Path | None) -> list[Path]:
    """The directories that count as *state_dir*: beside the usual one lies that of loops."""
    if state_dir is None:
        return []
    return [state_dir, state_dir.with_name(OF_LOOPS)] if state_dir.name == STATE_DIR else [state_dir]


def state_dirs(state_dir: Path) -> list[Path]:
    """Every state directory that is known: those that count as *state_dir*, and those of all runs in the index."""
    named = (home_of(Path(entry.folder)) for entry in _named())
    return [*dict.fromkeys(path.resolve() for path in (*homes(state_dir), *named) if _exists(path))]


def _local(state_dir: Path) -> Iterator[Entry]:
    for folder in sorted((state_dir / "runs").glob("*/journal.jsonl")):
        yield Entry(run=folder.parent.name, folder=str(folder.parent), started=folder.parent.stat().st_ctime)


def _lines() -> list[bytes]:
    try:
        return files.read_end(path(), _LARGEST, follow=True).splitlines()
    except (OSError, RuntimeError):
        return []


def _named() -> Iterator[Entry]:
    for line in _lines():
        with suppress(msgspec.DecodeError, UnicodeDecodeError):  # a torn line costs one listing
            yield msgspec.json.decode(line, type=Entry)


def _indexed() -> Iterator[Entry]:
    return (entry for entry in _named() if _exists(Path(entry.folder) / "journal.jsonl"))


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # a name too long, a folder that may not be entered: one listing again
        return False
