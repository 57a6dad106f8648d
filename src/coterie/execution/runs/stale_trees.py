"""Find work trees and snapshots of runs that are over."""

import time
from pathlib import Path

from coterie.agents.workspace.trees.git import find
from coterie.agents.workspace.trees.snapshots import delete_old
from coterie.agents.workspace.trees.worktree import WorkTree, with_current_origin
from coterie.errors import CoterieError
from coterie.execution.runs import index
from coterie.execution.runs.repository import Runs
from coterie.history.journal.records import TreeMade
from coterie.history.journal.rules import root_of
from coterie.history.journal.status import ENDS

KEPT_FOR = 14 * 24 * 3600.0
"""Seconds for which snapshots of unknown runs are kept."""


def is_over(state_dir: Path, tree: WorkTree) -> bool:
    """Whether the run of *tree* has ended or is gone."""
    runs, root = Runs(state_dir), root_of(tree.run)
    return not runs.has(root) or runs.status(root) in ENDS


def is_recorded(state_dir: Path, tree: WorkTree) -> bool:
    """Whether the journal of its run says that *tree* was made on its branch, which an agent could have named.

    A run that was killed before it had recorded this has no work; its branch then has its name.
    """
    runs, root = Runs(state_dir), root_of(tree.run)
    try:
        made = [one for _, one in runs.history(root) if isinstance(one, TreeMade) and one.run == tree.run]
    except CoterieError:
        made = []
    if not made:
        return tree.status == "making" and tree.branch.rpartition("/")[2].startswith(root)
    return any(one.branch == tree.branch for one in made)


def is_of(folder: Path, state_dir: Path, tree: WorkTree) -> bool:
    """Whether *tree* belongs to the git repository that contains *folder*."""
    here, origin = find(folder), find(Path(with_current_origin(state_dir, tree).origin))
    return here is not None and origin is not None and here.common == origin.common


def is_cut_off(state_dir: Path, tree: WorkTree) -> bool:
    """Whether the run of *tree* was interrupted: it has not ended and no process drives it."""
    state = Runs(state_dir).status(root_of(tree.run))
    return state != "running" and state not in ENDS


def delete_old_snapshots(folder: Path, state_dir: Path) -> int:
    """Delete the snapshots of unknown runs in the repository that contains *folder*; return the number of runs.

    Snapshots of the last two weeks stay: their runs may be in a state directory that is not in the index.
    """
    repository = find(folder)
    if repository is None:
        return 0
    return delete_old(repository, [entry.run for entry in index.entries(state_dir)], time.time() - KEPT_FOR)
