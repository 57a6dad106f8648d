"""What of runs' work trees and kept files nobody needs any more."""

import time
from pathlib import Path

from coterie.journal.rules import root_of
from coterie.journal.status import ENDS
from coterie.runs import index
from coterie.runs.repository import Runs
from coterie.runs.trees.git import find
from coterie.runs.trees.snapshots import forget
from coterie.runs.trees.worktree import Tree, returning

KEPT_FOR = 14 * 24 * 3600.0
"""Seconds for which git keeps the files of a run that nobody knows any more."""


def is_over(state_dir: Path, tree: Tree) -> bool:
    """Whether the run of *tree* will not go on in it: it has ended, or is gone."""
    runs, root = Runs(state_dir), root_of(tree.run)
    return not runs.has(root) or runs.status(root) in ENDS


def is_of(folder: Path, state_dir: Path, tree: Tree) -> bool:
    """Whether *tree* belongs to the git repository that *folder* lies in."""
    here, origin = find(folder), find(Path(returning(state_dir, tree).origin))
    return here is not None and origin is not None and here.common == origin.common


def is_cut_off(state_dir: Path, tree: Tree) -> bool:
    """Whether the run of *tree* has neither an owner nor an end."""
    state = Runs(state_dir).status(root_of(tree.run))
    return state != "running" and state not in ENDS


def forget_old(folder: Path, state_dir: Path) -> int:
    """Drop what is kept, in the repository that *folder* lies in, of runs that nobody knows any more; how much it was.

    What is younger than two weeks stays: it may be of a run that is only kept where nobody looked.
    """
    repository = find(folder)
    if repository is None:
        return 0
    return forget(repository, [entry.run for entry in index.entries(state_dir)], time.time() - KEPT_FOR)
