"""Open, read and write files that other processes can replace at any time.

Opening never blocks, and only a regular file is opened: not a pipe, a socket, a device or a folder. A read stops at a
limit. Errors are `OSError`s whose `strerror` names the reason. State is private: folders have mode 0700 and files 0600,
whatever the umask. Whatever sets `NOTED` learns each path that is opened or looked up.
"""

import errno
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from pathlib import Path
from typing import IO, BinaryIO, cast

NOTED: ContextVar[Callable[[str], object] | None] = ContextVar("noted", default=None)
"""Called in this context with each path before it is opened or looked up, missing ones included."""
PRIVATE_FILE, PRIVATE_FOLDER = 0o600, 0o700
SECRET_SIZE = 32

_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
_CHUNK = 1 << 20


def open_fd(
    path: str | Path,
    flags: int = os.O_RDONLY,
    *,
    follow: bool = False,
    private: bool = True,
    dir_fd: int | None = None,
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
    except OSError:
        with suppress(FileNotFoundError):  # the kind of the file says more than the system's error
            _check(path, os.stat(path, follow_symlinks=follow, dir_fd=dir_fd).st_mode)
        raise
    try:
        mode = os.fstat(fd).st_mode
        _check(path, mode)
        if private and flags & (os.O_WRONLY | os.O_RDWR) and stat.S_IMODE(mode) != PRIVATE_FILE:
            os.fchmod(fd, PRIVATE_FILE)
    except BaseException:
        os.close(fd)
        raise
    return fd


def open_private(path: Path, mode: str, *, follow: bool = False) -> BinaryIO:
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
        data = _up_to(file, most + 1)
    if len(data) > most:
        raise OSError(errno.EOVERFLOW, f"it is larger than {_size(most)}", str(path))
    return data


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


def write(path: str | Path, data: bytes, *, mode: int = PRIVATE_FILE) -> None:
    """Write *data* to a new private file that replaces what is at *path*, be it a pipe or a link, but not a folder.

    Raises:
        OSError: If it cannot be written.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        fd = os.open(path, flags, mode)
    except FileExistsError:
        os.unlink(path)
        fd = os.open(path, flags, mode)
    with open(fd, "wb") as file:
        if stat.S_IMODE(os.fstat(fd).st_mode) != mode:
            os.fchmod(fd, mode)
        file.write(data)


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
            except FileExistsError:
                if found() is None:  # else another process has just made it
                    os.replace(part, path)
        finally:
            part.unlink(missing_ok=True)
    return known


def secret(path: Path) -> bytes:
    """The secret of 32 random bytes in the private file *path*, which is made if it is missing.

    Raises:
        OSError: As for `write_once`.
    """
    return write_once(path, lambda: os.urandom(SECRET_SIZE), SECRET_SIZE, lambda found: len(found) == SECRET_SIZE)


def user_state() -> Path:
    """The user's folder of state that belongs to no project: `coterie` in `XDG_STATE_HOME`.

    Raises:
        RuntimeError: If the user has no home.
    """
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "coterie"


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
    """Make the file or folder *path* private, and if *deep* all below it; links are left alone."""
    with suppress(OSError):
        mode = os.lstat(path).st_mode
        if stat.S_ISDIR(mode):
            _set_mode(path, mode, PRIVATE_FOLDER)
            for entry in os.scandir(path) if deep else ():
                tighten(entry.path)
        elif stat.S_ISREG(mode):
            _set_mode(path, mode, mode & 0o700)


def _set_mode(path: str | Path, found: int, wanted: int) -> None:
    if stat.S_IMODE(found) != wanted:
        os.chmod(path, wanted)


def _check(path: str | Path, mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "special")
        raise OSError(errno.EINVAL, f"it is {kind}, not a regular file", str(path))


def _up_to(file: IO[bytes], most: int) -> bytes:
    """At most *most* bytes; memory use depends on the content, not on *most*."""
    parts, left = list[bytes](), most
    while left and (part := file.read(min(left, _CHUNK))):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _size(count: int) -> str:
    return f"{count // 2**20} MB" if count >= 2**20 else f"{count} bytes"


_APPEND = os.O_CREAT | os.O_APPEND
