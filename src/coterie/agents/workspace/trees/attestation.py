"""Where a git work tree is, and whether an attempt has left it.

In a work tree of the run's own an attempt has to stay on its branch, since only that is merged. In the user's checkout
it may change the branch, but not the repository.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from coterie.agents.workspace.trees import git
from coterie.agents.workspace.trees.private import PrivateState
from coterie.agents.workspace.trees.worktree import WorkTree, repository_of
from coterie.base.shortages import shortage
from coterie.errors import GitFailed
from coterie.history.journal.records import TreePosition

T = TypeVar("T")
_PLACE = ("--show-toplevel", git.BREAK, "--git-common-dir", git.BREAK)
_COMMITS = ("HEAD", "main-worktree/HEAD", "--symbolic-full-name", "HEAD")


def position(folder: Path) -> TreePosition | None:
    """Where the git work tree is that contains *folder*; None if there is none, or git is missing.

    Without a commit it has neither a head nor a branch.
    """
    found = _tried(lambda: git.call(folder, "rev-parse", *_PLACE, *_COMMITS))
    if isinstance(found, str):
        return None
    top, *parts = git.parts_of(found.out)
    if len(parts) < len(_PLACE[::2]):
        return None
    repository = str(git.resolved(folder, parts[0]))
    if found.status:
        return TreePosition(top=top, repository=repository)
    head, main, branch = parts[1].split("\n")
    return TreePosition(
        top=top,
        repository=repository,
        head=head,
        branch=branch.removeprefix("refs/heads/") if branch != "HEAD" else "",
        main=main if Path(repository) != Path(top) / ".git" else "",
    )


def private_position(tree: WorkTree, look: Callable[[WorkTree], PrivateState]) -> TreePosition | str:
    """Where the agents of *tree* have their private repository, by *look*; a text says why it cannot be used."""
    own, state = repository_of(tree), _tried(lambda: look(tree))
    if isinstance(state, str):
        return state
    common = str(own.common) if own is not None else ""
    return TreePosition(top=tree.path, repository=common, head=state.head, branch=state.branch)


def taken_over(leave: Callable[[], tuple[str, ...]]) -> tuple[tuple[str, ...], str | None]:
    """What *leave*, which takes over the agents' repository, says about it, or why that cannot be used."""
    found = _tried(leave)
    return ((), found) if isinstance(found, str) else (found, None)


def _tried(work: Callable[[], T]) -> T | str:
    """What *work* gives, or why git cannot do it."""
    try:
        return work()
    except (GitFailed, OSError) as error:
        if shortage(error):
            raise
        return str(error)


def problem(before: TreePosition | None, after: TreePosition | str | None, tree: WorkTree | None) -> str:
    """How an attempt has left its work tree; empty if it has not.

    Args:
        tree: The run's own work tree, if it has one.
    """
    place = tree.path if tree is not None else before.top if before is not None else ""
    if isinstance(after, str):
        return f"the repository of the agents in {place} cannot be used, so nothing of this attempt came back: {after}"
    if after is None:
        return f"the work tree {place} is gone, or is no git work tree any more: the attempt removed it"
    if Path(after.top).resolve() != Path(place).resolve() or (before and before.repository != after.repository):
        return f"the work tree {place} belongs to another repository now: {after.top} ({after.repository})"
    if tree is not None and after.branch != tree.branch:
        where = f"on the branch {after.branch}" if after.branch else f"at {after.head[:12]}, on no branch"
        return (
            f"the work tree {place} is {where}, and only the branch {tree.branch} is merged: "
            f"`git checkout {tree.branch}` there, and bring the work to it"
        )
    return ""
