"""Protect the files of a team while a confined attempt runs.

A sandbox makes existing files read-only, but cannot keep an agent from creating others in a writable folder.
"""

import os
import shutil
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path

import msgspec

from coterie.agents.backends.base import Say, discard
from coterie.base import agent_writes, files

LEFT = "left"
"""The subfolder of an attempt's folder for files that it created in place of such files."""
FILE = "team.json"
"""The file in the folder of an attempt with the state before it, which no sandbox lets an agent write."""
_LARGEST = 16 << 20
_STATE_MOST = 1 << 30
_MOST = 10_000
"""Entries of a folder."""


class TeamState(msgspec.Struct, frozen=True):
    """The team's files before an attempt.

    Attributes:
        absent: The paths that did not exist.
        links: The targets of those that were links.
        contents: The contents to restore.
        entries: All files and folders in those that were folders, if these are restored.
    """

    paths: list[str]
    absent: list[str]
    links: dict[str, str]
    contents: dict[str, bytes]
    restores: bool
    entries: list[str] = []


@contextmanager
def kept(paths: Sequence[Path], folder: Path, say: Say, *, restores: bool) -> Iterator[None]:
    """After the block, move files created at *paths*, which may be folders, into *folder*, with a line to *say*.

    Args:
        restores: Whether to restore existing files, because the sandbox cannot protect them.
    """
    if not (folder / FILE).exists():  # otherwise the attempt is adopted
        paths = [path.parent.resolve() / path.name for path in paths]
        files.write(folder / FILE, msgspec.json.encode(_state_of(paths, restores)))
    try:
        yield
    finally:
        put_back(folder, say)


def _state_of(paths: Sequence[Path], restores: bool) -> TeamState:
    """The state of *paths*; of a file that an attempt under way could have changed, as it was before that attempt."""
    below = _below(paths) if restores else []
    names = [*map(str, paths), *below]
    earlier = {name: state for name in names if (state := _before(Path(name))) is not None}
    absent = [name for name in map(str, paths) if not os.path.lexists(name)]
    links = {str(path): os.readlink(path) for path in paths if path.is_symlink()}
    entries = [name for name in below if name not in earlier or name in earlier[name].entries]
    contents = dict[str, bytes]()
    for name in names if restores else ():
        content = earlier[name].contents.get(name) if name in earlier else _content(Path(name))
        if content is not None:
            contents[name] = content
    for name, state in earlier.items():
        links.pop(name, None)
        absent += [name] if name in state.absent else []
        links |= {name: state.links[name]} if name in state.links else {}
    return TeamState([*map(str, paths)], absent, links, contents, restores, entries)


def _before(path: Path) -> TeamState | None:
    """The state before the attempt that could have changed *path*; None if none could, or its owner restored it."""
    with suppress(OSError, msgspec.DecodeError):
        writer = agent_writes.writer_of(path)
        return msgspec.json.decode(files.read(Path(writer, FILE), _STATE_MOST), type=TeamState) if writer else None
    return None


def own_python(cwd: Path) -> list[Path]:
    """The environment of this Python if it is in *cwd*: the owner and its helpers import from it."""
    python = Path(files.real_path(sys.prefix))
    return [python] if Path(files.real_path(cwd)) in python.parents else []


def unchanged(paths: Sequence[Path], *, protects: bool) -> dict[str, str]:
    """The files of *paths* that have their content after an attempt, by path, for `agent_writes.noted`."""
    real = [path.parent.resolve() / path.name for path in paths if os.path.lexists(path)]
    if protects:
        return dict.fromkeys(map(str, real), agent_writes.ANY)
    return {name: agent_writes.digest(content) for name, content in _state_of(real, True).contents.items()}


def put_back(folder: Path, say: Say = discard) -> None:
    """Do the work of `kept` after its block, for the attempt with *folder*, if its owner has not. Idempotent."""
    try:
        state = msgspec.json.decode((folder / FILE).read_bytes(), type=TeamState)
    except FileNotFoundError:
        return
    except msgspec.DecodeError:  # cut off while it was written, before any program started
        (folder / FILE).unlink()
        return
    above = {parent for path in (*state.paths, *state.contents) for parent in Path(path).parents}
    for parent in sorted(filter(Path.is_symlink, above)):  # otherwise its target would be moved away and written
        _move(parent, folder, say, "was no link")
    for path in map(Path, state.absent):
        _move(path, folder, say, "did not exist when the attempt began")
    for path, target in ((Path(name), target) for name, target in state.links.items()):
        if not path.is_symlink() or os.readlink(path) != target:
            _move(path, folder, say, "was a link")
            with suppress(OSError):
                path.symlink_to(target)
    known = {*state.paths, *state.entries, *state.contents}
    for path in map(Path, _below(map(Path, state.paths), known) if state.restores else ()):
        if str(path) not in known:
            _move(path, folder, say, "did not exist when the attempt began")
    for path, content in ((Path(name), content) for name, content in state.contents.items()):
        if _content(path) != content:
            _move(path, folder, say, "was changed")
            try:
                files.write_below("/", path.parts[1:], content, mode=0o644)
            except OSError as error:
                say(f"the team's file {path} cannot be restored: {error.strerror}")
            else:
                say(f"the team's file {path} is as before")
    (folder / FILE).unlink(missing_ok=True)


def _move(path: Path, folder: Path, say: Say, why: str) -> None:
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


def _below(paths: Iterable[Path], known: Collection[str] | None = None) -> list[str]:
    """All files and folders in *paths*, without those in a folder that is not *known*; no link is followed."""
    found = list[str]()
    folders = [os.path.realpath(path) for path in paths if path.is_dir()]
    while folders:
        with suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in islice(entries, _MOST):
                found.append(entry.path)
                if entry.is_dir(follow_symlinks=False) and (known is None or entry.path in known):
                    folders.append(entry.path)
    return found


def _content(path: Path) -> bytes | None:
    """The content of the file *path*; None if it is not a regular file."""
    try:
        return files.read(path, _LARGEST, follow=path.is_symlink())
    except OSError:
        return None
