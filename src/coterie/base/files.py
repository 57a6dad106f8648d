"""Open, read and write files that other processes can replace at any time.

Opening never blocks, and only a regular file is opened: not a pipe, a socket, a device or a folder. A read stops at a
limit. Errors are `OSError`s whose `strerror` names the reason. State is private: folders have mode 0700 and files 0600,
whatever the umask. Whatever sets `NOTED` learns each path that is opened or looked up.

`folder_below` is the one way into a folder that an agent can write: each name is opened beneath the folder before it,
none may be a link, and the functions that build on it take only regular files of this user with no other name.
"""

import errno
import os
import re
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import IO, BinaryIO, cast

from coterie.base import links

NOTED: ContextVar[Callable[[str], object] | None] = ContextVar("noted", default=None)
"""Called in this context with each path before it is opened or looked up, missing ones included."""
PRIVATE_FILE, PRIVATE_FOLDER = 0o600, 0o700
SECRET_SIZE = 32
NO_HOME = Path("/dev/null/home")
"""The home of users without one: nothing is there, and not even root can make it."""

_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
_CHUNK = 1 << 20
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_ONE_WORD = re.compile(r"[A-Za-z0-9_./+-]+")
_RUNTIME_MOST = 75
"""Bytes of the folder of sockets."""


def open_fd(
    path: str | Path, flags: int = os.O_RDONLY, *, follow: bool = False, private: bool = True, dir_fd: int | None = None
) -> int:
    """Open the regular file *path* without blocking and return its descriptor.

    Args:
        follow: Whether a symbolic link in the last component of *path* is followed.
        private: Whether a file opened for writing is made private, be it new or not.
        dir_fd: The folder in which *path* begins; such a path is not noted.

    Raises:
        OSError: If it cannot be opened or is not a regular file.
    """
    if dir_fd is None and (noted := NOTED.get()) is not None:
        noted(os.fspath(path))
    safe = os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    try:
        fd = os.open(path, flags | safe, PRIVATE_FILE if private else 0o666, dir_fd=dir_fd)
    except FileNotFoundError:
        raise
    except OSError:
        with suppress(FileNotFoundError):  # the kind of the file says more than the system's error
            _check(path, os.stat(path, follow_symlinks=follow, dir_fd=dir_fd).st_mode)
        raise
    try:
        status = os.fstat(fd)
        mode = status.st_mode
        _check(path, mode)
        is_writing = flags & (os.O_WRONLY | os.O_RDWR) and status.st_nlink == 1
        if private and is_writing and stat.S_IMODE(mode) != PRIVATE_FILE:
            os.fchmod(fd, PRIVATE_FILE)
    except BaseException:
        os.close(fd)
        raise
    return fd


def open_private(path: str | Path, mode: str, *, follow: bool = False) -> BinaryIO:
    """Open a private file of state: *mode* is `rb`, `r+b`, `a+b` or `ab`, which also create it.

    Raises:
        OSError: As for `open_fd`.
    """
    flags = {"rb": os.O_RDONLY, "r+b": os.O_RDWR, "ab": _APPEND | os.O_WRONLY, "a+b": _APPEND | os.O_RDWR}[mode]
    return cast(BinaryIO, open(open_fd(path, flags, follow=follow), mode))


def read(path: str | Path, most: int, *, follow: bool = False) -> bytes:
    """The content of the regular file *path*.

    Raises:
        OSError: As for `open_fd`, or if it is larger than *most* bytes.
    """
    with open(open_fd(path, follow=follow), "rb") as file:
        return _read(file, most, path)


def read_end(path: str | Path, most: int, *, follow: bool = False) -> bytes:
    """The last *most* bytes of the regular file *path*.

    Raises:
        OSError: As for `open_fd`.
    """
    with open(open_fd(path, follow=follow), "rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - most))
        return _up_to(file, most)


def read_lines(path: str | Path, begin: int, most: int) -> bytes:
    """The whole lines of the regular file *path* in at most *most* bytes from *begin* on; none if there is no file.

    Raises:
        OSError: As for `open_fd`.
    """
    try:
        with open(open_fd(path), "rb") as file:
            file.seek(begin)
            data = _up_to(file, most)
    except FileNotFoundError:
        return b""
    return data[: data.rfind(b"\n") + 1]


def write(path: str | Path, data: bytes, *, mode: int = PRIVATE_FILE, dir_fd: int | None = None) -> None:
    """Write *data* to a new private file that replaces what is at *path*, be it a pipe or a link, but not a folder.

    Raises:
        OSError: If it cannot be written.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        fd = os.open(path, flags, mode, dir_fd=dir_fd)
    except FileExistsError:
        os.unlink(path, dir_fd=dir_fd)
        fd = os.open(path, flags, mode, dir_fd=dir_fd)
    with open(fd, "wb") as file:
        if stat.S_IMODE(os.fstat(fd).st_mode) != mode:
            os.fchmod(fd, mode)
        file.write(data)


@contextmanager
def folder_below(top: str | Path, names: Sequence[str] = (), *, create: int = 0) -> Iterator[int]:
    """Open the folder at *names* below the folder *top*, and close it afterwards; no name may be `..` or a link.

    Args:
        create: The mode of folders to make where there are none; 0: none are made.

    Raises:
        OSError: If one cannot be opened or made.
    """
    fd = os.open(top, _FOLDER & ~os.O_NOFOLLOW)
    try:
        for name in names:
            if name in ("", os.curdir, os.pardir) or os.sep in name:
                raise OSError(errno.EINVAL, "it is not the name of a file", name)
            if create:
                with suppress(FileExistsError):
                    os.mkdir(name, create, dir_fd=fd)
            inner = os.open(name, _FOLDER, dir_fd=fd)
            os.close(fd)
            fd = inner
        yield fd
    finally:
        os.close(fd)


def files_in(fd: int, most: int) -> list[tuple[str, os.stat_result]]:
    """The regular files of this user, each with no other name, among *most* entries of the open folder *fd*."""
    with os.scandir(fd) as entries:
        found = [(entry.name, entry.stat(follow_symlinks=False)) for entry in islice(entries, most)]
    return [(name, status) for name, status in found if _is_ours(status)]


def read_below(top: str | Path, names: Sequence[str], most: int) -> bytes:
    """The content of the regular file at *names* below the folder *top*.

    Raises:
        OSError: As for `folder_below` and `read`, or if it is another user's, or has another name elsewhere.
    """
    with folder_below(top, names[:-1]) as folder, open(open_fd(names[-1], dir_fd=folder), "rb") as file:
        check_ours(file.fileno(), names[-1])
        return _read(file, most, names[-1])


def write_below(top: str | Path, names: Sequence[str], data: bytes, *, mode: int = PRIVATE_FILE) -> None:
    """Write *data* as `write` does to *names* below the folder *top*; missing folders are made, as private as the file.

    Raises:
        OSError: As for `folder_below` and `write`.
    """
    with folder_below(top, names[:-1], create=mode | (mode & 0o444) >> 2) as folder:
        write(names[-1], data, mode=mode, dir_fd=folder)


@lru_cache
def names_below(top: Path, path: Path) -> tuple[Path, tuple[str, ...]]:
    """The folder and the names by which `folder_below` and the like reach *path*: *top*, or if outside, its parent."""
    path = Path(os.path.normpath(path))
    return (top, path.relative_to(top).parts) if path.is_relative_to(top) else (path.parent, (path.name,))


def remove(path: str | Path, *, dir_fd: int | None = None) -> None:
    """Remove the file, the link, or the folder of any depth at *path*; no link is followed. None there: nothing.

    A folder within is first moved to the top, so neither memory nor open files depend on the depth.

    Raises:
        OSError: If a part of it cannot be removed; the rest is.
    """
    try:
        if not stat.S_ISDIR(os.stat(path, dir_fd=dir_fd, follow_symlinks=False).st_mode):
            return os.unlink(path, dir_fd=dir_fd)
        top = _unlocked(path, dir_fd)
    except FileNotFoundError:
        return
    try:
        while _flatten(top):
            pass
    finally:
        os.close(top)
    os.rmdir(path, dir_fd=dir_fd)


def discard(path: str | Path) -> None:
    """As `remove`; a part that cannot be removed stays."""
    with suppress(OSError):
        remove(path)


def _flatten(top: int) -> bool:
    """Remove the files in the open folder *top* and its subfolders, and move their subfolders to it; False if none."""
    moved = False
    for name, is_folder in _entries(top):
        with suppress(OSError):  # what cannot be removed makes removing the folder fail
            if not is_folder:
                os.unlink(name, dir_fd=top)
                continue
            inner = _unlocked(name, top)
            try:
                for each, is_folder in _entries(inner):
                    with suppress(OSError):
                        if is_folder:
                            os.close(_unlocked(each, inner))
                            os.rename(each, f".{os.urandom(8).hex()}", src_dir_fd=inner, dst_dir_fd=top)
                            moved = True
                        else:
                            os.unlink(each, dir_fd=inner)
            finally:
                os.close(inner)
            os.rmdir(name, dir_fd=top)
    return moved


def _entries(fd: int) -> list[tuple[str, bool]]:
    os.lseek(fd, 0, os.SEEK_SET)  # btrfs lists only what was there when the folder was opened, or since then rewound
    with os.scandir(fd) as entries:
        return [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]


def _unlocked(path: str | Path, dir_fd: int | None) -> int:
    """Open the folder *path*, even if its mode forbids it."""
    if sys.platform == "linux":
        known = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=dir_fd)
        try:
            if os.fstat(known).st_mode & PRIVATE_FOLDER != PRIVATE_FOLDER:
                os.chmod(f"/proc/self/fd/{known}", PRIVATE_FOLDER)
        finally:
            os.close(known)
    return os.open(path, _FOLDER, dir_fd=dir_fd)


def check_ours(fd: int, path: str | Path) -> None:
    """Raise `OSError` if the open file *path* is not a regular file of this user with no other name."""
    if not _is_ours(os.fstat(fd)):
        raise OSError(errno.EPERM, "it is another user's, or has a second name", str(path))


def _is_ours(status: os.stat_result) -> bool:
    return stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and status.st_nlink == 1


def write_once(path: Path, make: Callable[[], bytes], most: int, is_whole: Callable[[bytes], bool]) -> bytes:
    """Return what the private file *path* holds; make it durably if it is missing or not whole.

    Of several processes that make it at once, all return what the first has made.

    Args:
        most: Bytes that are read at most; a larger file is not whole.

    Raises:
        OSError: If it can neither be read nor made.
    """

    def found() -> bytes | None:
        try:
            data = read(path, most)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.EINVAL, errno.EOVERFLOW):
                return None
            raise
        return data if is_whole(data) else None

    part = path.with_name(f".{path.name}.{os.urandom(4).hex()}.part")
    while (known := found()) is None:
        try:
            with open(open_fd(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
                file.write(make())
                file.flush()
                os.fsync(file.fileno())
            try:
                os.link(part, path)
            except OSError as error:
                if error.errno != errno.EEXIST and error.errno not in links.NO_LINKS:
                    raise
                with links.alone(path.parent):
                    if found() is None:  # else another process has just made it
                        os.replace(part, path)
        finally:
            part.unlink(missing_ok=True)
    return known


@contextmanager
def claimed(path: Path) -> Iterator[bool]:
    """Claim the file *path* for the block; False if it is not there, or another process has claimed it."""
    import fcntl  # not on Windows

    fd, is_ours = -1, False
    with suppress(OSError):
        fd = open_fd(path)
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        is_ours = os.fstat(fd).st_nlink > 0  # not removed before it was claimed
    try:
        yield is_ours
    finally:
        if fd >= 0:
            os.close(fd)


def secret(path: Path) -> bytes:
    """The secret of 32 random bytes in the private file *path*, which is made if it is missing.

    Raises:
        OSError: As for `write_once`.
    """
    return write_once(path, lambda: os.urandom(SECRET_SIZE), SECRET_SIZE, lambda found: len(found) == SECRET_SIZE)


def user_state() -> Path:
    """The user's folder of state that belongs to no project: `coterie` in `XDG_STATE_HOME`."""
    return Path(os.environ.get("XDG_STATE_HOME") or f"{user_home()}/.local/state", "coterie")


def user_home() -> Path:
    """The user's home; without HOME and an entry in the user database `NO_HOME`, where nothing is found."""
    try:
        return Path.home()
    except RuntimeError:
        return NO_HOME


def runtime_folder() -> Path | None:
    """The user's private folder for sockets and links; None if there is none.

    Its path is short, so that sockets in it bind, and one word to every shell and reader of commands.
    """
    import tempfile  # only runs need it

    for base in filter(os.path.isdir, (os.environ.get("XDG_RUNTIME_DIR", ""), tempfile.gettempdir(), "/tmp")):
        if not (home := _runtime_folder_in(base)):
            continue
        with suppress(OSError):
            try:
                found = os.lstat(home)
            except FileNotFoundError:
                with suppress(FileExistsError):
                    os.mkdir(home, PRIVATE_FOLDER)
                found = os.lstat(home)
            # /tmp is everybody's: no link that somebody left there, no folder others write to
            if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022:
                return Path(home)
    return None


@lru_cache
def _runtime_folder_in(base: str) -> str:
    """Its path in *base*; empty if that is too long, or not one word."""
    home = f"{os.path.realpath(base)}/coterie-{os.getuid()}"
    return home if len(home) <= _RUNTIME_MOST and _ONE_WORD.fullmatch(home) else ""


def replace_text(path: Path, text: str) -> None:
    """Replace the text of the file *path* atomically, following links. It keeps its mode; a new file has 0644.

    Raises:
        OSError: If it cannot be written; it is unchanged.
    """
    import tempfile  # only commands that change a user's files need it

    path, mode = path.resolve(), 0o644
    with suppress(FileNotFoundError), path.open("r+b") as file:  # a read-only file is not replaced
        mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
    fd, part = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with open(fd, "w", encoding="utf-8", newline="") as new:
            new.write(text)
            new.flush()
            os.fsync(fd)
            os.fchmod(fd, mode)
        os.replace(part, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(part)
        raise


def is_file(path: str | Path) -> bool:
    """Whether *path*, which need not be a valid path, is a regular file or leads to one."""
    if (noted := NOTED.get()) is not None:
        noted(os.fspath(path))
    return os.path.isfile(path)


def is_folder(path: str | Path) -> bool:
    """Whether *path*, which need not be a valid path, is a folder or leads to one."""
    if (noted := NOTED.get()) is not None:
        noted(os.fspath(path))
    return os.path.isdir(path)


def exists(path: str | Path) -> bool:
    """Whether there is anything at *path*, which need not be a valid path."""
    if (noted := NOTED.get()) is not None:
        noted(os.fspath(path))
    return os.path.exists(path)


def inside(folder: Path, name: str, within: Path | None = None) -> Path | None:
    """The path of *name* in *folder*, symbolic links followed; None if it is no valid path.

    It is also None if it lies outside of *within*, by default the folder itself.
    """
    if (noted := NOTED.get()) is not None:
        noted(os.fspath(folder / name))
    try:
        path = (folder / name).resolve()
        return path if path.is_relative_to((within or folder).resolve()) else None
    except (OSError, RuntimeError, ValueError):  # a loop of links, or not a valid path
        return None


def real_path(path: str | Path, *, strict: bool = False) -> str:
    """As `os.path.realpath`, in one step of the kernel where it can."""
    if flag := getattr(os, "O_PATH", 0):
        try:
            fd = os.open(path or os.curdir, flag | os.O_CLOEXEC)
        except FileNotFoundError:
            if strict:
                raise
        except OSError:  # also if no descriptor is left
            pass
        else:
            found = ""
            with suppress(OSError):  # no `/proc`
                found = os.readlink(f"/proc/self/fd/{fd}")
            os.close(fd)
            if found.startswith("/") and not found.endswith(" (deleted)"):
                return found
    return os.path.realpath(path, strict=strict)


def make_folder(path: str | Path) -> None:
    """Make the private folder *path* and, likewise, those above it that do not exist.

    Raises:
        OSError: If it cannot be made, or is not a folder.
    """
    try:
        os.mkdir(path, PRIVATE_FOLDER)
    except FileNotFoundError:
        make_folder(os.path.dirname(os.path.abspath(path)))
        make_folder(path)
    except FileExistsError:
        if not os.path.isdir(path):
            raise
    else:
        os.chmod(path, PRIVATE_FOLDER)


def tighten(path: str | Path, *, deep: bool = True) -> None:
    """Make the file or folder *path* private, and if *deep* all below it; links, and files with two names, stay."""
    with suppress(OSError):
        status = os.lstat(path)
        is_folder, mode = stat.S_ISDIR(status.st_mode), stat.S_IMODE(status.st_mode)
        wanted = PRIVATE_FOLDER if is_folder else mode & 0o700
        if mode != wanted and (is_folder or (stat.S_ISREG(status.st_mode) and status.st_nlink == 1)):
            os.chmod(path, wanted)
        for entry in os.scandir(path) if is_folder and deep else ():
            tighten(entry.path)


def _check(path: str | Path, mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "special")
        raise OSError(errno.EINVAL, f"it is {kind}, not a regular file", str(path))


def _read(file: IO[bytes], most: int, path: str | Path) -> bytes:
    is_large = os.fstat(file.fileno()).st_size > most  # also if it has holes: they are not read
    data = b"" if is_large else _up_to(file, most + 1)
    if is_large or len(data) > most:
        size = f"{most // 2**20} MB" if most >= 2**20 else f"{most} bytes"
        raise OSError(errno.EOVERFLOW, f"it is larger than {size}", str(path))
    return data


def _up_to(file: IO[bytes], most: int) -> bytes:
    """At most *most* bytes; memory use depends on the content, not on *most*."""
    parts, left = list[bytes](), most
    while left and (part := file.read(min(left, _CHUNK))):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


_APPEND = os.O_CREAT | os.O_APPEND
