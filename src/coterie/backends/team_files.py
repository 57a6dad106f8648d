"""Keep the files that a team is read from as they are while a confined attempt runs.

A sandbox makes those that exist read-only, and cannot keep an agent from creating others in a folder that it may write.
"""

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from coterie import files

LEFT = "left"
"""The folder, in that of the attempt, of what it left in place of such files."""
FILE = "team.json"
"""The file in the folder of an attempt with what was there before; no sandbox lets an agent write it."""
_LARGEST = 16 << 20


class TeamState(msgspec.Struct, frozen=True):
    """The team's files before an attempt: the paths that did not exist, the links, and contents to be restored."""

    paths: list[str]
    absent: list[str]
    links: dict[str, str]
    contents: dict[str, bytes]
    restores: bool


@contextmanager
def kept(paths: Sequence[Path], folder: Path, say: Callable[[str], object], *, restores: bool) -> Iterator[None]:
    """Move what was created at *paths*, which may be folders, into *folder* after the block, with a line to *say*.

    Args:
        restores: Put those that existed back as they were, because the sandbox cannot protect them.
    """
    if not (folder / FILE).exists():  # else the attempt is adopted
        paths = [path.parent.resolve() / path.name for path in paths]
        absent = [str(path) for path in paths if not os.path.lexists(path)]
        links = {str(path): os.readlink(path) for path in paths if path.is_symlink()}
        contents = {str(path): content for path, content in _contents(paths)} if restores else {}
        state = TeamState([*map(str, paths)], absent, links, contents, restores)
        files.write(folder / FILE, msgspec.json.encode(state))
    try:
        yield
    finally:
        put_back(folder, say)


def put_back(folder: Path, say: Callable[[str], object] = str) -> None:
    """Do what `kept` does after its block, for the attempt with that *folder*, if its owner has not. Idempotent."""
    try:
        state = msgspec.json.decode((folder / FILE).read_bytes(), type=TeamState)
    except (FileNotFoundError, msgspec.DecodeError):  # or cut off while it was written, before any program started
        return
    above = {parent for path in (*state.paths, *state.contents) for parent in Path(path).parents}
    for parent in sorted(filter(Path.is_symlink, above)):  # else what it leads to would be moved away and written
        _move(parent, folder, say, "was no link")
    for path in map(Path, state.absent):
        _move(path, folder, say, "did not exist when the attempt began")
    for path, target in ((Path(name), target) for name, target in state.links.items()):
        if not path.is_symlink() or os.readlink(path) != target:
            _move(path, folder, say, "was a link")
            with suppress(OSError):
                path.symlink_to(target)
    for path, _ in list(_contents([*map(Path, state.paths)])) if state.restores else ():
        if str(path) not in state.contents:
            _move(path, folder, say, "did not exist when the attempt began")
    for path, content in ((Path(name), content) for name, content in state.contents.items()):
        if _content(path) != content:
            _move(path, folder, say, "was changed")
            with suppress(OSError):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            say(f"the team's file {path} is as before")
    (folder / FILE).unlink(missing_ok=True)


def _move(path: Path, folder: Path, say: Callable[[str], object], why: str) -> None:
    if not os.path.lexists(path):
        return
    target = folder / LEFT / f"{path.name}-{os.urandom(4).hex()}"
    try:
        files.make_folder(target.parent)
        shutil.move(path, target)
    except OSError as error:
        say(f"the team's file {path} {why}, and it cannot be moved away: {error.strerror or error}")
    else:
        say(f"the team's file {path} {why}: it was moved to {target}")


def _contents(paths: Sequence[Path]) -> Iterator[tuple[Path, bytes]]:
    for top in paths:
        for path in (top, *sorted(top.rglob("*"))) if top.is_dir() else (top,):
            if (content := _content(path)) is not None:
                yield path, content


def _content(path: Path) -> bytes | None:
    """What the file *path* holds; None if it is no regular file."""
    try:
        return files.read(path, _LARGEST, follow=path.is_symlink())
    except OSError:
        return None
