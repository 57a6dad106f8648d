"""Ids of runs that their callers give: the folder of the run is the claim."""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from coterie.base import files
from coterie.errors import RunExists, UsageError
from coterie.execution.runs import index
from coterie.history.journal.jsonl import folder_of

RESERVED = ("schedule-", "webhook-", "face-")
"""How ids begin that Coterie derives itself."""
KEPT_DAYS = 90
"""How long the id of a removed run stays taken."""
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_TAKEN = "ids.jsonl"
"""The file in the state directory with the ids of removed runs that their callers had given."""


_GIVEN = "given-id"
"""The file in the folder of a run whose caller gave its id."""


class _Removed(Struct, frozen=True):
    run: str
    at: float


def claim(run: str, state_dir: Path) -> bool:
    """Take the id *run* by making the folder of the run; False: there is one already.

    Raises:
        UsageError: If it is no id.
        RunExists: If a run that had it was removed in the last `KEPT_DAYS` days, or if the other of the project's state
            directories has one.
    """
    if not _ID.fullmatch(run) or run == "last":
        raise UsageError(f"the id of a run is letters, digits, '.', '_' and '-', up to 128 of them, not {run!r}")
    if run.startswith(RESERVED):
        raise UsageError(f"ids that begin with {', '.join(RESERVED)} are those of Coterie itself: choose another id")
    folder = folder_of(state_dir, run)
    removed = {one: at for home in index.homes(state_dir) for one, at in _removed(home).items()}
    if not folder.exists() and (at := removed.get(run)):
        day = time.strftime("%Y-%m-%d", time.localtime(at))
        raise RunExists(run, f"it was removed on {day}, and its id is kept for {KEPT_DAYS} days")
    files.make_folder(folder.parent)
    try:
        folder.mkdir(files.PRIVATE_FOLDER)
    except FileExistsError:
        return False
    files.write(folder / _GIVEN, b"")
    if (other := index.place_of(run, state_dir)) is not None:
        unclaim(folder)
        raise RunExists(run, f"it is kept in {other}")
    return True


def unclaim(folder: Path) -> None:
    """Give the id back whose run never began."""
    with suppress(OSError):
        if not any(path.name != _GIVEN for path in folder.iterdir()):
            (folder / _GIVEN).unlink(missing_ok=True)
            folder.rmdir()


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Give the id back if the block raises before its run has begun in *folder*."""
    try:
        yield
    except BaseException:
        unclaim(folder)
        raise


def is_given(folder: Path) -> bool:
    """Whether the caller of the run in *folder* gave its id."""
    return (folder / _GIVEN).exists()


def keep_id(run: str, state_dir: Path) -> None:
    """Keep the id *run* of a run that is removed, if its caller gave it; drop those that were kept for long enough."""
    if not is_given(folder_of(state_dir, run)):
        return
    kept = {**_removed(state_dir), run: time.time()}
    lines = b"".join(msgspec.json.encode(_Removed(name, at)) + b"\n" for name, at in kept.items())
    files.write(state_dir / _TAKEN, lines)


def _removed(state_dir: Path) -> dict[str, float]:
    try:
        lines = files.read(state_dir / _TAKEN, 1 << 26).splitlines()
    except OSError:
        return {}
    found = [msgspec.json.decode(line, type=_Removed) for line in lines]
    return {one.run: one.at for one in found if one.at > time.time() - KEPT_DAYS * 86400}
