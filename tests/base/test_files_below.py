"""Folders that others write: no link is followed, only this user's regular files count, and any depth is removed."""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.base import files

DEEP = 3_000


def deep(top: Path, levels: int = DEEP) -> None:
    """Nest folders deeper than recursion, open files or the length of a path allow."""
    fd = os.open(top, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d", dir_fd=fd)
        inner = os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = inner
    os.close(os.open("f", os.O_CREAT | os.O_WRONLY, dir_fd=fd))
    os.close(fd)


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    (tmp_path / "top").mkdir()
    (tmp_path / "outside" / "in").mkdir(parents=True)
    (tmp_path / "outside" / "secret").write_text("SECRET")
    return tmp_path / "outside"


@pytest.mark.parametrize("level", [0, 1, 2])
def test_a_link_at_any_level_is_refused(tmp_path: Path, outside: Path, level: int) -> None:
    """Reading, writing and opening a folder through it fails, and nothing outside changes."""
    names = ["a", "b", "secret"]
    folder = (tmp_path / "top").joinpath(*names[:level])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / names[level]).symlink_to(outside / "secret" if level == 2 else outside)
    before = sorted(outside.rglob("*"))

    with pytest.raises(OSError, match=r"Not a directory|symbolic link"):
        files.read_below(tmp_path / "top", names, 100)
    if level < 2:
        with pytest.raises(OSError, match="Not a directory"):
            files.write_below(tmp_path / "top", names, b"evil")
    else:
        files.write_below(tmp_path / "top", names, b"evil")  # replaces the link
        assert not (folder / "secret").is_symlink()
    assert sorted(outside.rglob("*")) == before
    assert (outside / "secret").read_text() == "SECRET"


@pytest.mark.parametrize("name", ["..", ".", "", "a/b", "/etc"])
def test_a_name_that_leads_elsewhere_is_refused(tmp_path: Path, name: str) -> None:
    """Names of folders are names, not paths."""
    with pytest.raises(OSError, match="not the name of a file"), files.folder_below(tmp_path, [name], create=0o700):
        raise AssertionError("opened")
    assert list(tmp_path.iterdir()) == []


def test_only_own_regular_files_with_one_name_count(tmp_path: Path) -> None:
    """Not a link, a pipe, a folder, or another user's file; of a second name of a file, neither counts."""
    (tmp_path / "plain").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "plain")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "first").write_text("y")
    os.link(tmp_path / "first", tmp_path / "second")
    others = ["others"] if os.geteuid() == 0 else []
    for name in others:
        (tmp_path / name).write_text("z")
        os.chown(tmp_path / name, 12345, 12345)

    with files.folder_below(tmp_path) as fd:
        assert [name for name, _ in files.files_in(fd, 100)] == ["plain"]
        assert len(files.files_in(fd, 0)) == 0
    for name in ("link", "pipe", "folder", "first", *others):
        with pytest.raises(OSError, match=r"not a regular file|directory|second name"):
            files.read_below(tmp_path, [name], 100)
    with pytest.raises(OSError, match="larger"):
        files.read_below(tmp_path, ["plain"], 0)


@pytest.mark.parametrize("mode", [0o700, 0o000])
def test_a_folder_of_any_depth_is_removed(tmp_path: Path, mode: int) -> None:
    """Deeper than Python recurses and a path is long, and with folders that forbid everything."""
    top = tmp_path / "top"
    top.mkdir()
    deep(top)
    (top / "closed" / "in").mkdir(parents=True)
    (top / "closed" / "in").chmod(mode)
    (top / "closed").chmod(mode)
    files.remove(top)
    assert not top.exists()


def test_a_folder_is_removed_on_btrfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There an open folder lists what was in it when it was opened or last rewound, which closing a scan does."""
    listed, opens, seeks, scans = dict[int, set[str]](), os.open, os.lseek, os.scandir

    def rewound(fd: int) -> int:
        with suppress(OSError):  # it is no folder, or open as a path only
            listed[fd] = set(os.listdir(fd))
        return fd

    @contextmanager
    def scandir(fd: int) -> Iterator[list[os.DirEntry[str]]]:
        with scans(fd) as entries:
            yield [entry for entry in entries if entry.name in listed[fd]]
        rewound(fd)

    (tmp_path / "top" / "a" / "b" / "c").mkdir(parents=True)
    monkeypatch.setattr(os, "open", lambda *given, **more: rewound(opens(*given, **more)))
    monkeypatch.setattr(os, "lseek", lambda fd, at, whence: (seeks(fd, at, whence), rewound(fd))[0])
    monkeypatch.setattr(os, "scandir", scandir)
    files.remove(tmp_path / "top")
    assert not (tmp_path / "top").exists()


def test_removing_follows_no_link(tmp_path: Path, outside: Path) -> None:
    """A link is removed, be it the path itself or below it; what is missing is no error."""
    top = tmp_path / "top"
    (top / "a").mkdir()
    (top / "a" / "link").symlink_to(outside)
    (tmp_path / "itself").symlink_to(outside)
    for path in (top, tmp_path / "itself", tmp_path / "missing"):
        files.remove(path)
        assert not os.path.lexists(path)
    assert (outside / "in").is_dir()
    assert (outside / "secret").read_text() == "SECRET"


@given(paths=st.lists(st.lists(st.sampled_from("abc"), min_size=1, max_size=6), max_size=12))
def test_what_is_written_below_is_read_below(tmp_path_factory: pytest.TempPathFactory, paths: list[list[str]]) -> None:
    """Any tree of files can be written, read, and removed."""
    top = tmp_path_factory.mktemp("tree")
    known: dict[tuple[str, ...], bytes] = {}
    for number, names in enumerate(paths):
        try:
            files.write_below(top, names, data := str(number).encode())
        except OSError:  # a file is in the way of a folder, or a folder of a file
            continue
        known[tuple(names)] = data
    assert {names: files.read_below(top, names, 10) for names in known} == known
    files.remove(top)
    assert not top.exists()


@pytest.mark.parametrize("way", ["kernel", "python"])
@pytest.mark.parametrize("strict", [True, False])
def test_a_real_path_is_that_of_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str, strict: bool) -> None:
    """For links, what is missing, circles, and names as the kernel writes for a removed file; without `/proc`, too."""
    top = tmp_path / "top"
    (top / "in").mkdir(parents=True)
    (top / "in" / "gone (deleted)").touch()
    for name, target in (("link", "in"), ("dangling", "none"), ("circle", "circle"), ("up", "link/../in")):
        (top / name).symlink_to(target)
    monkeypatch.chdir(top)
    if way == "python":
        monkeypatch.setattr(os, "readlink", _no_proc(os.readlink))

    names = ("in", "link", "link/..", "dangling", "circle", "up", "link/gone (deleted)", "none", "in/none/..", ".", "")
    for path in (*names, *(top / name for name in names), Path("link/in"), "link/gone (deleted)/x"):
        assert _outcome(files.real_path, path, strict) == _outcome(os.path.realpath, path, strict), path


def test_a_real_path_is_found_without_a_descriptor_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule of a sandbox would otherwise be left out."""
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "file").touch()

    def full(*_: object) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(os, "open", full)
    assert files.real_path(tmp_path / "link", strict=True) == str(tmp_path.resolve() / "file")


def _no_proc(real: Callable[..., str]) -> Callable[..., str]:
    def readlink(path: str | Path, **more: int) -> str:
        if str(path).startswith("/proc/"):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return real(path, **more)

    return readlink


def _outcome(function: Callable[..., str], path: str | Path, strict: bool) -> str | int | None:
    try:
        return function(path, strict=strict)
    except OSError as error:
        return error.errno
