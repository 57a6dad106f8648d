"""What a work tree holds that no merge brings over: repositories inside it, and files that git ignores."""

import os
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from coterie.agents.workspace.trees import worktree
from coterie.agents.workspace.trees.git import readable
from coterie.agents.workspace.trees.worktree import WorkTree

MOST = 64 << 20
"""Bytes of ignored files with which a tree is removed by itself; one that holds more stays."""
_SHOWN = 20


class Leftovers(Struct, frozen=True, kw_only=True):
    """What would be gone with the files of a tree.

    Attributes:
        repositories: Repositories inside the tree, and folders of submodules with files that no repository has.
        ignored: Ignored files and folders, with the bytes in each; those that the tree began with are left out.
    """

    repositories: tuple[str, ...] = ()
    ignored: tuple[tuple[str, int], ...] = ()

    @property
    def obstacle(self) -> str:
        """Why the tree must not be removed by itself; empty if it may."""
        size = sum(size for _, size in self.ignored)
        if self.repositories:
            return f"it holds repositories that are nowhere else: {', '.join(self.repositories[:_SHOWN])}"
        return f"it holds {size >> 20} MB of ignored files: {self.describe()}" if size > MOST else ""

    def describe(self) -> str:
        """The ignored files, the largest first; empty if there are none."""
        found = sorted(self.ignored, key=lambda one: -one[1])
        shown = [f"{name} ({size:,} bytes)" for name, size in found[:_SHOWN]]
        return ", ".join(shown) + (f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else "")


def find_leftovers(tree: WorkTree) -> Leftovers:
    """What *tree* holds besides files that were committed or that git tracks.

    Raises:
        GitFailed: If git cannot.
    """
    own, top = worktree.repository_of(tree), Path(tree.path)
    if own is None:
        return Leftovers()
    words = ("ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z")
    names = [name for name in own.output(*words).split("\0") if name and name not in tree.brought]
    staged = own.output("ls-files", "--stage", "-z").split("\0")
    links = [line.partition("\t")[2] for line in staged if line.startswith("160000 ")]
    inner = {*_repositories(top), *(name for name in links if (top / name).is_dir() and any((top / name).iterdir()))}
    return Leftovers(
        repositories=tuple(map(readable, sorted(inner))),
        ignored=tuple((readable(name), _size(top / name)) for name in names),
    )


def _repositories(top: Path) -> Iterator[str]:
    """The folders below *top* that are repositories, by their paths in it."""
    for folder, folders, names in os.walk(top):
        if folder != str(top) and ".git" in (*folders, *names):
            yield os.path.relpath(folder, top)
            folders.clear()


def _size(path: Path) -> int:
    if path.is_symlink() or not path.is_dir():
        return path.lstat().st_size
    return sum(os.lstat(os.path.join(folder, name)).st_size for folder, _, names in os.walk(path) for name in names)
