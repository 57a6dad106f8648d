"""Restore after an attempt what git would take commands from, and the links by which it finds a repository.

Symbolic links that an attempt left in git's folders are removed: through them git, called by the owner, would write
elsewhere.

What is to be restored is written down before the program starts, in a file that no sandbox lets an agent write: who
takes the attempt over, or ends it, after its owner was killed restores it too.
"""

import os
import shutil
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from coterie import files

FILE = "restore.json"
"""The file in the folder of an attempt."""
_LARGEST = 16 << 20


class GitState(msgspec.Struct, frozen=True):
    """What was there before the attempt.

    Attributes:
        absent: The paths that did not exist.
        contents: The contents of those that did.
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
    """Write down what to restore once the attempt with that *folder* is over, unless an earlier program of it has.

    Args:
        written: The folders of git that it writes.
    """
    if not (folder / FILE).exists():
        known = GitState(
            [*map(str, absent)],
            {str(path): content for path, content in contents.items()},
            folders := [str(one) for one in written if not {*one.parents} & {*written}],
            [link for top in folders for link in _links(top)],
        )
        files.write(folder / FILE, msgspec.json.encode(known))


def restore(folder: Path, say: Callable[[str], object] = str, *, lives: bool = False) -> None:
    """Restore what `remember` has written down, with a line to *say* for each difference. Idempotent.

    Args:
        lives: The program may live on, so this is not the last time.
    """
    try:
        known = msgspec.json.decode(files.read(folder / FILE, _LARGEST), type=GitState)
    except (FileNotFoundError, msgspec.DecodeError):  # or cut off while it was written, before any program started
        known = GitState([], {})
    for path in map(Path, known.absent):
        if os.path.lexists(path):
            say(f"sandbox: removed {path}, from which git would take commands")
            _remove(path)
    for path, content in ((Path(name), content) for name, content in known.contents.items()):
        if content_of(path) != content:
            say(f"sandbox: put back {path}, by which git finds the repository")
            _remove(path)
            with suppress(OSError):
                path.write_bytes(content)
    for link in [link for top in known.folders for link in _links(top)]:
        if link not in known.links:
            say(f"sandbox: removed {link}, a link through which git would write elsewhere")
            _remove(Path(link))
    if not lives:
        with suppress(OSError):
            (folder / FILE).unlink()


def _links(folder: str) -> Iterator[str]:
    """The symbolic links in a *folder* of git; files of objects are never written through one."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_symlink():
                yield entry.path
            elif os.path.basename(folder) != "objects" and entry.is_dir(follow_symlinks=False):
                yield from _links(entry.path)


def _remove(path: Path) -> None:
    with suppress(OSError):
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def content_of(path: Path) -> bytes | None:
    """What the file *path* contains; None if it is no regular file."""
    with suppress(OSError):
        return path.read_bytes() if stat.S_ISREG(path.lstat().st_mode) else None
    return None
