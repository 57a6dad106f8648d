"""The files inside a checkout that git obeys: an agent that writes them decides what the user's next command runs.

They are what the effective configuration names there (`core.hooksPath`, `core.attributesFile`, included files), whether
it exists or not, and by what git enters a submodule.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from coterie.agents.workspace.trees.git import Repository

_GITLINK = "160000 "


class ObeyedFiles(Struct, frozen=True):
    """The paths of such files by what is to be there; a folder includes everything in it."""

    files: tuple[Path, ...] = ()
    folders: tuple[Path, ...] = ()

    @property
    def paths(self) -> tuple[Path, ...]:
        """All of them."""
        return (*self.files, *self.folders)


def find_obeyed(own: Repository) -> ObeyedFiles:
    """The files inside the checkout *own* that git obeys.

    Raises:
        GitFailed: If git cannot read the configuration.
    """
    entries = list(_entries(own))
    named = {key: own.top / os.path.expanduser(value) for _, key, value in entries if value}  # the last one counts
    files = [*_included(own, entries), *filter(None, [named.get("core.attributesfile")])]
    links, folders = _submodules(own)
    folders += filter(None, [named.get("core.hookspath")])
    return ObeyedFiles(*(tuple(path for path in paths if _is_inside(own, path)) for paths in (files + links, folders)))


def _entries(own: Repository) -> Iterator[tuple[str, str, str]]:
    """The settings but for those of Coterie's own call: the file, the key and the value."""
    fields = own.output("config", "--list", "--show-origin", "-z").split("\0")
    for origin, entry in zip(fields[::2], fields[1::2], strict=False):
        key, _, value = entry.partition("\n")
        if origin.startswith("file:"):
            yield origin.removeprefix("file:"), key, value


def _included(own: Repository, entries: Iterable[tuple[str, str, str]]) -> list[Path]:
    """The files that configurations include, on whatever condition."""
    return [
        (own.top / origin).parent / os.path.expanduser(value)
        for origin, key, value in entries
        if key.partition(".")[0] in ("include", "includeif") and key.endswith(".path") and value
    ]


def _submodules(own: Repository) -> tuple[list[Path], list[Path]]:
    """The `.git` of each submodule, by which git enters it, and the folders of those that are not initialised."""
    listed = own.output("ls-files", "--stage", "-z").split("\0")
    modules = [own.top / line.partition("\t")[2] for line in listed if line.startswith(_GITLINK)]
    entered = [os.path.lexists(module / ".git") for module in modules]
    links = [module / ".git" for module, is_entered in zip(modules, entered, strict=True) if is_entered]
    return links, [module for module, is_entered in zip(modules, entered, strict=True) if not is_entered]


def _is_inside(own: Repository, path: Path) -> bool:
    """Whether *path* is in the checkout, and not in git's folder or the whole of it."""
    top, real = own.top.resolve(), path.parent.resolve() / path.name
    git = (own.own.resolve(), own.common.resolve())
    return real.is_relative_to(top) and real != top and not any(real.is_relative_to(one) for one in git)
