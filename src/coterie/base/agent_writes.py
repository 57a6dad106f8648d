"""Which files an agent could have written, from the times of attempts and files.

Before an attempt that may only write a folder begins, its owner notes that folder in the user's own state, and later
that the attempt has ended. A file that changed meanwhile is not obeyed, loaded or run by any process of the user, until
an operator trusts its content. The kernel keeps the time of a file's last change (`st_ctime`), and no confined program
can set it. So nothing is scanned or hashed before an attempt, and files on no list count, too. If the machine's clock
is set while an attempt lives, the times before and after both count.
"""

import errno
import fcntl
import hashlib
import os
import sys
import threading
import time
from bisect import bisect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from itertools import chain
from pathlib import Path
from types import CodeType, ModuleType
from typing import BinaryIO

import msgspec

from coterie.base import files

FILE = "agent-writes.jsonl"
"""The file in the user's state, with a line for each begin and end of an attempt, and for each trusted content."""
ANY = "*"
"""In place of a content: the attempt cannot have changed the file."""
_LARGEST = 16 << 20
_LARGEST_STATE = 1 << 30
_COMPACTED_EACH = 1 << 18
"""After how many bytes more the file is made shorter."""
_LAST = 256
"""The bytes by which the end of what was read is known again: if others are there now, the file is another one."""
_LINKS = 40
"""As many as the kernel follows."""
_DRIFT = 10**9
"""Nanoseconds by which two clocks may differ if neither was set."""
_WINDOWS = 100_000
"""The attempts in a folder whose times are remembered one by one, at most."""


class Writes(msgspec.Struct, omit_defaults=True):
    """An attempt, or trusted content.

    Attributes:
        id: The folder of the attempt; empty: *safe* has trusted contents.
        folders: The folders that it may write.
        began, ended: When, by the clock of files in nanoseconds; 0: not yet.
        at: When this was noted, by the clock of the time since the boot, in nanoseconds; 0: not known.
        windows: If it is an entry for several attempts, when each began and ended, in order.
        safe: SHA-256 of contents that are not its own, by path.
    """

    id: str = ""
    folders: tuple[str, ...] = ()
    began: int = 0
    ended: int = 0
    at: int = 0
    windows: list[tuple[int, int]] = []
    safe: dict[str, str] = {}


class _Known:
    """What the file at *path* says, as far as it was read.

    Attributes:
        size: The bytes of the lines that were read.
        last: The last of these bytes.
        seen: The time and the size that the file had then.
        writers: The attempts, in the order of their begin, by each folder that they may write.
        trusted: The trusted contents.
        open: The attempts that have not ended, by their folders.
    """

    def __init__(self, path: str = "") -> None:
        self.path, self.size, self.last, self.seen = path, 0, b"", (0, 0)
        self.writers: dict[str, list[Writes]] = {}
        self.trusted: list[Writes] = []
        self.open: dict[str, Writes] = {}

    def of(self, name: str) -> Iterator[Writes]:
        """The attempts that may write into a folder that contains the file *name*."""
        return chain.from_iterable(self.writers.get(top, ()) for top in _above(name))

    def take(self, data: bytes) -> None:
        """Add the whole lines of *data*, which follow those that were read."""
        data = data[: data.rfind(b"\n") + 1]
        self.size, self.last = self.size + len(data), (self.last + data[-_LAST:])[-_LAST:]
        for line in data.splitlines():
            with suppress(msgspec.DecodeError):  # cut off by a kill
                one = msgspec.json.decode(line, type=Writes)
                if one.ended and not one.began:
                    if (begun := self.open.pop(one.id, None)) is not None:
                        begun.began, begun.ended = _window(begun, one.ended, one.at)
                    continue
                if not one.id:
                    self.trusted.append(one)
                    continue
                if not one.ended:
                    if one.id in self.open and self.open[one.id].folders == one.folders:
                        continue  # it goes on after its owner was killed
                    self.open[one.id] = one
                for folder in one.folders:
                    self.writers.setdefault(folder, []).append(one)


_known, _reading = _Known(), threading.Lock()


@contextmanager
def noted(id: Path, folders: Iterable[Path], safe: Mapping[str, str]) -> Iterator[None]:
    """During the block, the attempt with the folder *id* may write *folders*.

    Args:
        safe: The contents of files in them that are not its own; `ANY`: it cannot write that file or folder.
    """
    _note(Writes(id=str(id), folders=tuple(map(files.real_path, folders)), began=1, safe={**safe}))
    try:
        yield
    finally:
        _note(Writes(id=str(id), ended=1))


def end(id: Path) -> None:
    """Note that the attempt with the folder *id*, and its gates, have ended. Idempotent."""
    for one in [one for one in [*_read().open] if Path(one).is_relative_to(id)]:
        _note(Writes(id=one, ended=1))


def is_open(id: Path) -> bool:
    """Whether an attempt in the folder *id*, or its gates, are not noted as ended."""
    return any(Path(one).is_relative_to(id) for one in _read().open)


def trust(path: Path, content: bytes | None = None) -> list[Path]:
    """Let the present content of *path* count, even if an agent wrote it, and return the files: several in a folder.

    Args:
        content: That of the file *path* which its reader has seen; an agent may have replaced it since.

    Raises:
        OSError: If it cannot be read.
    """
    found = [*written_below(path)] if path.is_dir() else [path]
    safe = {name: digest(_content(name)) for each in found for name in _names(each) if content is None or each != path}
    if content is not None:
        *ways, real = _names(path)
        safe |= {name: digest(_content(name)) for name in ways} | {real: digest(content)}
    _note(Writes(safe=safe))
    return found


def digest(content: bytes) -> str:
    """The name of *content*."""
    return hashlib.sha256(content).hexdigest()


def writer_of(path: Path) -> str:
    """The folder of an attempt that could have written the file *path*, or the link there; empty if none could."""
    return next(filter(None, map(_writer, _names(path))), "")


def resolved(path: str | Path) -> Path:
    """The real path of *path*, to which no link leads that an agent could have made.

    Raises:
        OSError: If there is nothing, or an agent could have made one.
    """
    real = files.real_path(path, strict=True)
    if why := misled(Path(path), real):
        raise OSError(errno.ELOOP, why, str(path))
    return Path(real)


def misled(path: Path, real: str = "") -> str:
    """Why *path* is not followed, and what to do; empty if no agent could have made a link on the way to it.

    Args:
        real: Where it has led; an agent may have removed a link since.
    """
    real = real or files.real_path(path)
    if real == os.path.abspath(path):
        return ""
    *links, end = _names(path)
    if end != real:
        return f"{path} led to {real}, and now leads to {end}"
    for name in links:
        if who := _writer(name):
            said = "an agent could have made this link"
            return f"{name} leads to {os.readlink(name)}, and {said} (attempt {who}): `coterie config trust {name}`"
    return ""


def _writer(name: str) -> str:
    """The folder of an attempt that could have written the file or link *name*, to which no link leads."""
    try:
        changed = os.lstat(name).st_ctime_ns
    except OSError:
        return ""
    known = _read()
    may = [one for one in known.of(name) if not one.ended or one.began <= changed <= one.ended]
    found = [one for one in may if _lived(one, changed)]
    if found:
        places = (name, *_above(name))
        found = [one for one in found if not any(one.safe.get(place) == ANY for place in places)]
    if not found:
        return ""
    trusted = {one.safe[name] for one in known.trusted if name in one.safe}
    if trusted or any(name in one.safe for one in found):
        with suppress(OSError):
            content = digest(_content(name))
            found = [one for one in found if content not in (*trusted, one.safe.get(name))]
    return found[-1].id if found else ""


def written_below(path: Path) -> Iterator[Path]:
    """The file *path*, or those files and links in the folder *path*, that an attempt could have written."""
    if not os.path.isdir(path):
        if writer_of(path):
            yield path
        return
    real = files.real_path(path)
    tops = [*_read().writers]
    if not any(_is_in(real, top) or _is_in(top, real) or top == real for top in tops):
        return
    for folder, folders, names in os.walk(path):
        links = (name for name in folders if os.path.islink(os.path.join(folder, name)))
        yield from (found for name in (*names, *links) if writer_of(found := Path(folder, name)))


def refusal(path: Path) -> str:
    """Why *path* is not used, and what to do; empty if no agent could have written it."""
    who = writer_of(path)
    return f"an agent could have written it (attempt {who}): read it, then `coterie config trust {path}`" if who else ""


def guard_imports() -> None:
    """From now on, refuse to import modules that an agent could have written. Idempotent."""
    if not any(isinstance(one, _Guard) for one in sys.meta_path):
        sys.meta_path.insert(0, _Guard())


class _Guard:
    """Finds modules in the folders that agents may write, other than those of this Python."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path, target)
        if spec is None or not spec.has_location or spec.origin is None or spec.origin.startswith(f"{sys.prefix}/"):
            return None
        origin = files.real_path(spec.origin)
        if not any(_read().of(origin)):
            return None
        if why := refusal(Path(spec.origin)):
            raise ImportError(f"{spec.origin} is not imported: {why}", name=name, path=spec.origin)
        if isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Source(spec.loader.name, spec.loader.path)
        return spec


class _Source(SourceFileLoader):
    """Compiles the source: what lies in `__pycache__` could be an agent's."""

    def get_code(self, fullname: str) -> CodeType | None:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


def _names(path: Path) -> list[str]:
    """The file *path* without links, after the links that lead to it."""
    found, name = list[str](), str(path.absolute())
    if (real := files.real_path(name)) == name:
        return [real]
    with suppress(OSError):  # one is removed meanwhile
        while len(found) < _LINKS:
            if (link := next(filter(os.path.islink, (*reversed(_above(name)), name)), None)) is None:
                break
            above = os.path.dirname(link)
            found.append(os.path.join(files.real_path(above), os.path.basename(link)))
            name = os.path.join(above, os.readlink(link)) + name.removeprefix(link)
    return [*found, files.real_path(name)]


def _content(name: str) -> bytes:
    """The content of the file *name*, or where the link *name* leads."""
    return os.fsencode(os.readlink(name)) if os.path.islink(name) else files.read(name, _LARGEST)


def _lived(one: Writes, at: int) -> bool:
    if not one.windows:
        began, ended = (one.began, one.ended) if one.ended else _window(one, time.time_ns(), _since_boot())
        return began <= at <= (ended if one.ended else max(at, ended))
    began, ended = one.windows[max(bisect(one.windows, (at, sys.maxsize)) - 1, 0)]
    return began <= at <= ended


def _window(begun: Writes, now: int, at: int) -> tuple[int, int]:
    """From when to when *begun* has lived if it is *now*, and *at* by the clock of the time since the boot."""
    lasted = at - begun.at if at and begun.at else -1
    if lasted < 0 or abs(now - begun.began - lasted) < _DRIFT:  # not known, or since a reboot: that clock counts anew
        return min(begun.began, now), max(begun.began, now)
    return min(begun.began, now - lasted), max(now, begun.began + lasted)


def _since_boot() -> int:
    return time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def _is_in(name: str, folder: str) -> bool:
    return name.startswith(os.path.join(folder, ""))


def _above(name: str) -> list[str]:
    """The folders above *name*, from the inmost to the root."""
    found = list[str]()
    while (above := os.path.dirname(name)) != name:
        found.append(name := above)
    return found


def are_known(within: str = "") -> bool:
    """Whether any agent is known that could have written files: any whose attempt has a folder that begins so."""
    return any(one.id.startswith(within) for one in chain.from_iterable(_read().writers.values()))


def _read() -> _Known:
    """What the file says now: what was added is read, and all of it if the file was replaced meanwhile."""
    global _known
    try:
        path = f"{files.user_state()}/{FILE}"
        status = os.stat(path)
    except (OSError, RuntimeError):
        return _Known()
    seen = status.st_mtime_ns, status.st_size
    if (path, seen) != (_known.path, _known.seen):
        with _reading, suppress(OSError), open(files.open_fd(path), "rb") as file:
            file.seek(_known.size - len(_known.last))
            if path != _known.path or file.read(len(_known.last)) != _known.last:
                _known = _Known(path)
                file.seek(0)
            _known.take(file.read(_LARGEST_STATE))
            _known.seen = seen
    return _known


def _note(one: Writes) -> None:
    """Add *one* with the time of the file system, which is not exactly that of the clock."""
    try:
        path = files.user_state() / FILE
        files.make_folder(path.parent)
        with _locked(path) as file:
            os.utime(file.fileno())
            now = os.fstat(file.fileno()).st_ctime_ns
            one.began, one.ended, one.at = one.began and now, one.ended and now, _since_boot()
            line = msgspec.json.encode(one) + b"\n"
            if file.seek(0, os.SEEK_END) and (file.seek(-1, os.SEEK_END), file.read(1))[1] != b"\n":
                line = b"\n" + line  # the line before it was cut off
            before = file.tell()
            file.write(line)
            if before // _COMPACTED_EACH != file.tell() // _COMPACTED_EACH:
                _compact(file, path)
    except (OSError, RuntimeError):  # no home, or a full disk: the sandbox holds, and the run goes on
        return


@contextmanager
def _locked(path: Path) -> Iterator[BinaryIO]:
    """The file at *path*, which no other process writes or replaces during the block."""
    is_there = False
    while not is_there:
        with files.open_private(path, "a+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            with suppress(FileNotFoundError):
                is_there = os.path.samestat(os.fstat(file.fileno()), os.stat(path))
            if is_there:
                yield file


def _compact(file: BinaryIO, path: Path) -> None:
    """Replace *file* by one with an entry for each folder of the ended attempts, and one for all trusted contents."""
    file.seek(0)
    known = _Known()
    known.take(file.read(_LARGEST_STATE))
    trusted, whole = Writes(), list[Writes]()
    for one in known.trusted:
        trusted.safe |= one.safe  # of a file, the content that was trusted last
    for folder, writers in known.writers.items():
        ended = [one for one in writers if one.ended]
        if ended and not _is_removed(folder, ended[-1].id):
            safe = set[tuple[str, str]].intersection(*({*one.safe.items()} for one in ended))
            windows = _joined(sorted(chain.from_iterable(one.windows or [(one.began, one.ended)] for one in ended)))
            began, end = windows[0][0], max(end for _, end in windows)
            of_folder = {name: content for name, content in safe if _concerns(name, folder)}
            whole.append(Writes(ended[-1].id, (folder,), began, end, windows=windows, safe=of_folder))
    part = path.with_name(f".{path.name}.part")
    lines = map(msgspec.json.encode, (trusted, *whole, *known.open.values()))
    files.write(part, b"".join(line + b"\n" for line in lines))
    part.replace(path)


def _is_removed(folder: str, id: str) -> bool:
    """Whether *folder*, which belongs to the attempt *id* alone, was removed: not if its disk is not there now."""
    runs = id.rpartition("/runs/")[0]
    return _is_in(folder, id) and not os.path.lexists(folder) and os.path.isdir(f"{runs}/runs")


def _concerns(name: str, folder: str) -> bool:
    """Whether it matters for files in *folder* that *name*, a file or a folder, is safe."""
    return name == folder or _is_in(name, folder) or _is_in(folder, name)


def _joined(windows: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Those of *windows*, in order, with one in place of several that overlap, or that are too many: the oldest."""
    joined = windows[:1]
    for began, ended in windows[1:]:
        if began <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], ended)
        else:
            joined.append((began, ended))
    many = max(len(joined) - _WINDOWS, 0)
    return [(joined[0][0], joined[many][1]), *joined[many + 1 :]]
