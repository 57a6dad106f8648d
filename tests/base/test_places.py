"""File systems without links, users without a home: state is kept all the same."""

import errno
import os
import pwd
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from coterie.agents.backends import wrapper
from coterie.base import files, links
from coterie.history.journal.lines import sync_folder


def refuse(number: int) -> object:
    def call(*words: object, **more: object) -> None:
        raise OSError(number, os.strerror(number))

    return call


@pytest.fixture(params=sorted(links.NO_LINKS))
def no_links(request: pytest.FixtureRequest) -> Iterator[None]:
    """A file system without hard and symbolic links, which says so in one of its ways."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "link", refuse(request.param))
        patch.setattr(os, "symlink", refuse(request.param))
        links.has_symbolic.cache_clear()
        yield
    links.has_symbolic.cache_clear()  # else the tests behind these have no links, either


def test_a_secret_is_made_once_without_links(no_links: None, tmp_path: Path) -> None:
    """All that make it at once have the same; what a killed one left is replaced."""
    (tmp_path / "secret").write_bytes(b"half")
    os.chmod(tmp_path / "secret", 0o600)
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lambda _: files.secret(tmp_path / "secret"), range(8)))

    assert {len(one) for one in found} == {files.SECRET_SIZE}
    assert found == {(tmp_path / "secret").read_bytes()}
    assert [one.name for one in tmp_path.iterdir()] == ["secret"]


def test_another_error_than_that_of_links_is_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk is not taken for a file system without links."""
    monkeypatch.setattr(os, "link", refuse(errno.ENOSPC))
    with pytest.raises(OSError, match="No space"):
        files.secret(tmp_path / "secret")
    with pytest.raises(OSError, match="No space"):
        links.give_name(tmp_path / "secret", tmp_path / "other")


def test_a_second_name_is_a_copy_without_links(no_links: None, tmp_path: Path) -> None:
    """And no name that exists is taken over."""
    (tmp_path / "a").write_bytes(b"text")
    links.give_name(tmp_path / "a", tmp_path / "b")

    assert (tmp_path / "b").read_bytes() == b"text"
    with pytest.raises(FileExistsError):
        links.give_name(tmp_path / "a", tmp_path / "b")


def test_an_attempt_finds_its_command_without_links(no_links: None, tmp_path: Path) -> None:
    """By each of its names, in the attempt's own folder."""
    wrapper.write(tmp_path, {})

    assert wrapper.link_of(tmp_path) == tmp_path
    assert wrapper.link(tmp_path, tmp_path) == tmp_path
    scripts = {name: (tmp_path / name).read_text() for name in (wrapper.NAME, *wrapper.ALIASES)}
    assert len({*scripts.values()}) == 1
    assert all(os.access(tmp_path / name, os.X_OK) for name in scripts)


@pytest.mark.parametrize(("number", "is_raised"), [(errno.EINVAL, False), (errno.ENOTSUP, False), (errno.EIO, True)])
def test_a_folder_that_cannot_be_synced_is_no_fault_of_the_disk(
    number: int, is_raised: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some file systems sync files alone; a broken disk is still an error."""
    monkeypatch.setattr(os, "fsync", refuse(number))
    if is_raised:
        with pytest.raises(OSError, match=os.strerror(number)):
            sync_folder(tmp_path)
    else:
        sync_folder(tmp_path)


def test_a_user_without_a_home_has_no_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container with a number for a user; a folder of state that is named is used."""

    def unknown(number: int) -> object:
        raise KeyError(number)

    monkeypatch.delenv("HOME")
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)

    assert files.user_home() == files.NO_HOME
    assert files.user_state() == files.NO_HOME / ".local" / "state" / "coterie"
    with pytest.raises(OSError, match=os.strerror(errno.ENOTDIR)):
        files.make_folder(files.user_state())
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert files.user_state() == Path("/state/coterie")
