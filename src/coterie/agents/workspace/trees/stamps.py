"""Whether files changed since they were last looked at, without a process of git.

A stamp is made of what `lstat` says of each file, its ctime included, which no program can set.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

from coterie.base import files

TICK = 10_000_000
"""Nanoseconds by which the clock of files may be late."""
_LONGEST = 4096


def stamp_of(paths: Iterable[str], before: int | None = None) -> bytes | None:
    """The stamp of *paths*; None if one of them changed after *before*, in nanoseconds of Unix time."""
    digest = blake2b(digest_size=16)
    for path in paths:
        digest.update(f"{path}\0".encode("utf-8", "surrogateescape"))
        with suppress(FileNotFoundError, NotADirectoryError):
            found = os.lstat(path)
            if before is not None and found.st_ctime_ns > before - TICK:
                return None
            digest.update(
                f"{found.st_ino} {found.st_mode} {found.st_size} {found.st_mtime_ns} {found.st_ctime_ns}".encode()
            )
    return digest.digest()


def files_below(folder: Path) -> Iterator[str]:
    """The paths of all that is below *folder* and no folder; no link is followed."""
    for above, folders, names in os.walk(folder):
        folders.sort()
        links = (name for name in folders if os.path.islink(f"{above}/{name}"))
        yield from (f"{above}/{name}" for name in sorted((*names, *links)))


def with_folders(top: Path, names: Iterable[str]) -> Iterator[str]:
    """The paths of the files *names* of the work tree *top*, and of their folders, without *top*."""
    folders = {os.path.dirname(name) for name in names}
    for name in list(folders):
        while name := os.path.dirname(name):
            folders.add(name)
    yield from (f"{top}/{name}" for name in (*names, *sorted(folders - {""})))


def head_of(own: Path, common: Path) -> tuple[str, str]:
    """What HEAD of the git folder *own* names, and its commit; empty if no file says that."""
    head = _text(own / "HEAD")
    return head, tip_of(common, head.removeprefix("ref: ")) if head.startswith("ref: ") else head


def tip_of(common: Path, ref: str) -> str:
    """The commit of *ref* of the repository *common*; empty if it has no file there."""
    return _text(common / ref)


def _text(path: Path) -> str:
    with suppress(OSError, ValueError):
        return files.read(path, _LONGEST).decode("ascii").strip()
    return ""
