"""Restore after an attempt what git would take commands from, and the links by which it finds a repository.

What is to be restored is written down before the program starts, in a file that no sandbox lets an agent write: who
takes the attempt over, or ends it, after its owner was killed restores it too.
"""

import os
import shutil
import stat
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from coterie import files

FILE = "restore.json"
"""The file in the folder of an attempt."""
_LARGEST = 1 << 20


class GitState(msgspec.Struct, frozen=True):
    """What was there before the attempt: the paths that did not exist, and the contents of those that did."""

    absent: list[str]
    contents: dict[str, bytes]


def remember(folder: Path, absent: Iterable[Path], contents: Mapping[Path, bytes]) -> None:
    """Write down what to restore once the attempt with that *folder* is over, unless an earlier program of it has."""
    if not (folder / FILE).exists():
        known = GitState([*map(str, absent)], {str(path): content for path, content in contents.items()})
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
    if not lives:
        with suppress(OSError):
            (folder / FILE).unlink()


def _remove(path: Path) -> None:
    with suppress(OSError):
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def content_of(path: Path) -> bytes | None:
    """What the file *path* contains; None if it is no regular file."""
    with suppress(OSError):
        return path.read_bytes() if stat.S_ISREG(path.lstat().st_mode) else None
    return None
