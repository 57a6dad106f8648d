"""The files that a run changed and that the user's own tools obey, in the project or in its work tree."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from coterie.agents.workspace.trees import worktree
from coterie.agents.workspace.trees.git import find
from coterie.agents.workspace.trees.worktree import WorkTree
from coterie.base import agent_writes, files
from coterie.errors import CoterieError
from coterie.execution.runs.repository import Runs
from coterie.history.journal.rules import root_of
from coterie.history.views.words import listed
from coterie.team.options.states import OBEYED_IN_PROJECT, is_obeyed

_MOST = 1_000
"""How many files of a folder are inspected."""
_SHOWN = 8


def changed_tool_files(state_dir: Path, run: str, tree: WorkTree | None, cwd: Path) -> Iterator[str]:
    """A line with what the user's own tools obey and *run*, in *tree* or else *cwd*, changed; none if it changed none.

    Of an attempt without a sandbox only what is in a work tree of the run is known.
    """
    runs, root = Runs(state_dir), root_of(run)
    found = set[str]()
    with suppress(CoterieError, OSError):
        if tree is not None:
            found |= {*filter(is_obeyed, _merged(state_dir, tree))}
        own, tops = os.path.join(files.real_path(runs.folder(root)), ""), set[Path]()
        if agent_writes.are_known(own):
            place = Path(tree.path) if tree is not None else cwd
            repository = find(place)
            tops = {place.resolve(), *([repository.top.resolve()] if repository is not None else [])}
        for top in tops:
            written = ((path, agent_writes.writer_of(path)) for path in _existing(top))
            found |= {path.relative_to(top).as_posix() for path, who in written if who.startswith(own)}
    if found:
        names = sorted(found)
        shown = names if len(names) <= _SHOWN else [*names[:_SHOWN], f"{len(names) - _SHOWN} more"]
        yield f"it changed files that your own tools obey; read them before you go on: {listed(shown)}"


def _merged(state_dir: Path, tree: WorkTree) -> list[str]:
    """The files that differ between what *tree* began with and its branch, or what was merged of it."""
    origin = worktree.origin_of(state_dir, tree)
    if origin is None:
        return []
    before, after = tree.base, f"refs/heads/{tree.branch}"
    if tree.status == "merged" and tree.commit:
        before, after = (tree.base if tree.strategy == "rebase" else f"{tree.commit}^1"), tree.commit
    return origin.output("diff", "--name-only", "--no-renames", "-z", before, after).split("\0")


def _existing(top: Path) -> Iterator[Path]:
    for pattern in OBEYED_IN_PROJECT:
        path = top / pattern.removesuffix("/*")
        if not pattern.endswith("/*") or path.is_symlink():
            if os.path.lexists(path):
                yield path
            continue
        for folder, folders, names in os.walk(path):
            yield from (Path(folder, name) for name in names[:_MOST])
            del folders[_MOST:]
