"""Restore files after an attempt from which git would read commands, and the links by which it finds a repository.

Symbolic links that an attempt left in git's folders are removed, since git, called by the owner, would write to other
places through them.

The state to restore is written before the program starts, to a file that no sandbox lets an agent write, so that a
process that takes over or ends the attempt after the owner was killed can also restore it.
"""

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from coterie.agents.backends.base import Say, discard
from coterie.base import files

FILE = "restore.json"
"""The file in the folder of an attempt."""
_LARGEST = 16 << 20


class GitState(msgspec.Struct, frozen=True):
    """The state before the attempt.

    Attributes:
        absent: The paths that did not exist.
        contents: The contents of existing files.
        folders: The folders of git that the attempt writes.
        links: The symbolic links in them.
    """

    absent: list[str]
    contents: dict[str, bytes]
    folders: list[str] = []
    links: list[str] = []


def remember(
    folder: Path, absent: Iterable[Path], contents: Mapping[Path, bytes], written: Collection[Path] = ()
) -> None:
    """Write the state to restore after the attempt with that *folder*, unless an earlier program of it has.

    Args:
        written: The folders of git that it writes.
    """
    if not (folder / FILE).exists():
        known = GitState(
            [str(path.parent.resolve() / path.name) for path in absent],
            {str(path.parent.resolve() / path.name): content for path, content in contents.items()},
            folders := [str(one) for one in written if not {*one.parents} & {*written}],
            [link for top in folders for link in _links(top)],
        )
        files.write(folder / FILE, msgspec.json.encode(known))


def restore(folder: Path, say: Say = discard, *, lives: bool = False) -> None:
    """Restore the state that `remember` has written; *say* gets a line for each difference. Idempotent.

    Args:
        lives: Whether the program may still live, so that this is called again.
    """
    try:
        known = msgspec.json.decode(files.read(folder / FILE, _LARGEST), type=GitState)
    except (
        FileNotFoundError,
        msgspec.DecodeError,
    ):  # or incomplete, because the write was interrupted before any program started
        known = GitState([], {})
    for path in map(Path, known.absent):
        if os.path.lexists(path):
            say(f"sandbox: removed {path}, from which git would take commands")
            _remove(path)
    for name, content in known.contents.items():
        if content_of(path := Path(name)) != content:
            say(f"sandbox: put back {path}, by which git finds the repository")
            _remove(path)
            with suppress(OSError):
                files.write_below("/", path.parts[1:], content, mode=0o644)
    for link in [link for top in known.folders for link in _links(top)]:
        if link not in known.links:
            say(f"sandbox: removed {link}, a link through which git would write elsewhere")
            _remove(Path(link))
    if not lives:
        with suppress(OSError):
            (folder / FILE).unlink()


def _links(folder: str, *, deep: bool = False) -> Iterator[str]:
    """The symbolic links in a *folder* of git through which git may write, except in folders of objects."""
    name = os.path.basename(folder)
    deep = deep or name in ("refs", "logs")
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_symlink():
                yield entry.path
            elif not entry.is_dir(follow_symlinks=False):
                continue
            elif deep or (name != "objects" and entry.name in ("refs", "logs", "objects")):
                yield from _links(entry.path, deep=deep)


def _remove(path: Path) -> None:
    with suppress(OSError), files.folder_below("/", path.parts[1:-1]) as folder:
        files.remove(path.name, dir_fd=folder)


def content_of(path: Path) -> bytes | None:
    """The content of the file *path*; None if it is not a regular file."""
    with suppress(OSError):
        return files.read_below("/", path.parts[1:], _LARGEST)
    return None
