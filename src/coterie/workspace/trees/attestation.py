"""Where a git work tree is, and whether an attempt has left it.

In a work tree of the run's own an attempt has to stay on its branch, since only that is merged. In the user's checkout
it may change the branch, but not the repository.
"""

from pathlib import Path

from coterie.errors import GitFailed
from coterie.journal.records import TreePosition
from coterie.shortages import shortage
from coterie.workspace.trees import git
from coterie.workspace.trees.worktree import WorkTree

_PLACE = ("--show-toplevel", "--git-common-dir")
_COMMITS = ("HEAD", "main-worktree/HEAD", "--symbolic-full-name", "HEAD")


def position(folder: Path) -> TreePosition | None:
    """Where the git work tree is that contains *folder*; None if there is none, or git is missing.

    Without a commit it has neither a head nor a branch.
    """
    try:
        found = git.call(folder, "rev-parse", "--path-format=absolute", *_PLACE, *_COMMITS)
    except (GitFailed, OSError) as error:
        if shortage(error):
            raise
        return None
    lines = found.out.splitlines()
    if len(lines) < len(_PLACE):
        return None
    top, repository, *commits = lines
    if found.status:
        return TreePosition(top=top, repository=repository)
    head, main, branch = commits
    return TreePosition(
        top=top,
        repository=repository,
        head=head,
        branch=branch.removeprefix("refs/heads/") if branch != "HEAD" else "",
        main=main if Path(repository) != Path(top) / ".git" else "",
    )


def problem(before: TreePosition | None, after: TreePosition | None, tree: WorkTree | None) -> str:
    """How an attempt has left its work tree; empty if it has not.

    Args:
        tree: The run's own work tree, if it has one.
    """
    place = tree.path if tree is not None else before.top if before is not None else ""
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
