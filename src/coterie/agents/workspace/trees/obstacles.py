"""Reasons not to move a branch to a computed merge: what it would bring or overwrite without a word of the user."""

import os
import posixpath
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path, PurePosixPath

from coterie.agents.workspace.trees.git import Repository, is_sparse, readable
from coterie.agents.workspace.trees.worktree import WorkTree
from coterie.team.formats.folders import OBEYED

_SHOWN = 5
_SUFFIXES = (".at", ".pattern.yaml")
_TOPS = (".autoloop", ".coterie")
_NAMES = frozenset(name.casefold() for name in (*OBEYED, "topology.yaml", *_TOPS))
_FOLDERS = tuple(f"{top}/{name}/" for top in _TOPS for name in ("overrides", "profiles"))
_GITLINK = "160000"


def obstacle(origin: Repository, tree: WorkTree, onto: str, commit: str, *, take_settings: bool = False) -> str:
    """Why the merge *commit* of the work in *tree* must not replace *onto*; empty if it may.

    Args:
        take_settings: The operator agrees to changes of the files that shape runs.
    """
    words = ("diff-tree", "-r", "-z", "--no-renames", "--raw", onto, commit)
    fields = origin.output(*words).split("\0")
    changes = dict(zip(fields[1::2], fields[::2], strict=False))
    if tree.guards is not None and not take_settings and (names := _guarded(changes, tree.guards)):
        return (
            f"it changes {_listed(names)}, which shapes this run or later ones; to take that over: "
            f"coterie worktree merge {tree.run} --take-settings"
        )
    linked = {name: raw.split()[3] for name, raw in changes.items() if raw.split()[1] == _GITLINK}
    return next(_unknown_repositories(origin, tree, commit, linked), "")


def shaping_changes(repository: Repository, before: str, after: str, guards: Collection[str]) -> str:
    """The files that shape runs and differ between two commits, for people; empty if none does."""
    changed = repository.output("diff-tree", "-r", "-z", "--no-renames", "--name-only", before, after)
    return _listed(_guarded(filter(None, changed.split("\0")), guards))


def _guarded(names: Iterable[str], guards: Collection[str]) -> list[str]:
    """Those of *names* that are among *guards* or named like files that runs obey, lie in one, or lead to one."""
    touches = touching(guards)
    return [name for name in names if touches(name) or _shapes(name.casefold())]


def touching(guards: Iterable[str]) -> Callable[[str], bool]:
    """Tells whether a file or link is one of *guards*, lies in one, or is where one needs a folder.

    Some file systems do not distinguish case.
    """
    names = [PurePosixPath(guard.casefold()) for guard in guards]
    folders, above = tuple(f"{one}/" for one in names), {f"{parent}/" for one in names for parent in one.parents}

    def touches(name: str) -> bool:
        wanted = f"{name}/".casefold()
        return wanted in above or wanted.startswith(folders)

    return touches


def _shapes(name: str) -> bool:
    base = posixpath.basename(name)
    return base in _NAMES or base.endswith(_SUFFIXES) or any(f"/{folder}" in f"/{name}/" for folder in _FOLDERS)


def _unknown_repositories(origin: Repository, tree: WorkTree, commit: str, linked: dict[str, str]) -> Iterator[str]:
    """Why the commits of repositories inside the tree, by path, would lead to nothing in the user's."""
    if not linked:
        return
    named = origin.call("config", "--blob", f"{commit}:.gitmodules", "-z", "--get-regexp", r"^submodule\..*\.path$")
    modules = {}
    for entry in filter(None, named.out.split("\0")):
        key, _, path = entry.partition("\n")
        modules[path] = key.removeprefix("submodule.").removesuffix(".path")
    for path, wanted in linked.items():
        shown = readable(path)
        if path not in modules:
            yield (
                f"{shown} is a repository inside the tree that .gitmodules does not name, so its files would be "
                f"missing: make it a submodule (git submodule add), or remove {tree.path}/{shown}/.git"
            )
            continue
        places = (origin.top / path, origin.common / "modules" / modules[path])
        if not any(_has(place, wanted) for place in places):
            yield (
                f"the submodule {shown} is at {wanted[:12]}, a commit that {origin.top / shown} does not have: "
                f"git -C {origin.top / shown} fetch {tree.path}/{shown} {wanted}"
            )


def _has(place: Path, commit: str) -> bool:
    """Whether *place* is a repository, or git's folder of one, with *commit*."""
    if not (place / ".git").exists() and not (place / "HEAD").exists():
        return False
    return Repository(top=place, own=place, common=place).call("cat-file", "-e", f"{commit}^{{commit}}").status == 0


def in_the_way(place: Repository, onto: str, commit: str) -> str:
    """The untracked files in the sparse checkout *place* that moving it from *onto* to *commit* would overwrite.

    In any other checkout git itself refuses; here it overwrites what lies outside of the patterns.
    """
    if not is_sparse(place):
        return ""
    added = place.output("diff-tree", "-r", "-z", "--no-renames", "--name-only", "--diff-filter=A", onto, commit)
    names = [name for name in filter(None, added.split("\0")) if _occupied(place.top, name)]
    return f"{_listed(names)} in {place.top}, which git does not track, would be overwritten: move it" if names else ""


def _occupied(top: Path, name: str) -> bool:
    """Whether something is at *name* below *top*, or a file or link where it needs a folder."""
    above = [top / parent for parent in PurePosixPath(name).parents if parent.name]
    return os.path.lexists(top / name) or any(one.is_symlink() or one.is_file() for one in above)


def _listed(names: Collection[str]) -> str:
    shown = [readable(name) for name in sorted(names)]
    return ", ".join(shown[:_SHOWN]) + (f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else "")
