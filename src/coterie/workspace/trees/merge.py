"""Merge the work of a work tree into the branch it came from.

The merge is computed in git's object store, commit by commit; the branch moves only to a result without conflicts. If
the branch is checked out, git itself moves it, which keeps the user's changes or refuses. So a kill at any moment
leaves the branch before or after the merge, and merging again changes nothing.
"""

from pathlib import Path

import msgspec
from msgspec import Struct

from coterie.errors import GitFailed
from coterie.workspace.trees.git import Repository, find
from coterie.workspace.trees.repository_lock import locked
from coterie.workspace.trees.snapshots import excluded, write_files
from coterie.workspace.trees.worktree import FOLDER, WorkTree, unlock, with_current_origin, write

STRATEGIES = ("squash", "merge", "rebase")
TRIES = 5
"""How often a merge is computed because another process moved the branch meanwhile."""


class MergeResult(Struct, frozen=True, kw_only=True):
    """The result of a merge: the *commit* that the branch moves to, or the *files* with conflicts."""

    commit: str = ""
    files: tuple[str, ...] = ()


def merge_tree(state_dir: Path, tree: WorkTree, strategy: str = "") -> WorkTree:
    """Commit the changes in *tree* and merge its work; returns *tree* with its new status.

    The status is `merged`, `conflict` (with `files`) or `blocked` (with `reason`). Unless it is `merged`, only that
    commit is new.

    Args:
        strategy: By default that of the tree.

    Raises:
        GitFailed: If git cannot.
    """
    strategy = strategy or tree.strategy
    tree = with_current_origin(state_dir, tree)
    origin = find(Path(tree.origin))
    if origin is None:
        reason = f"{tree.origin}, its origin, is no longer a git work tree"
        return write(state_dir, msgspec.structs.replace(tree, status="blocked", reason=reason))
    with locked(origin.common):
        tip = commit_all(tree, state_dir, f"Work of run {tree.run}\n")
        if origin.top.is_relative_to(state_dir.resolve() / FOLDER):
            unlock(origin)
        for _ in range(TRIES):
            found = _merge_once(origin, state_dir, tree, tip, strategy)
            if found is not None:
                return write(state_dir, found)
    reason = f"{tree.base_branch or 'HEAD'} moved during every attempt"
    return write(state_dir, msgspec.structs.replace(tree, status="blocked", reason=reason))


def commit_all(tree: WorkTree, state_dir: Path, message: str) -> str:
    """Commit all changes in *tree*, if there are any; returns the commit with its work.

    Raises:
        GitFailed: If git cannot, or could not read every file.
    """
    own = find(Path(tree.path))
    if tree.leaving or own is None or own.top.resolve() != Path(tree.path).resolve():
        origin = find(Path(tree.origin))
        tip = origin.commit_of(f"refs/heads/{tree.branch}") if origin is not None else ""
        if not tip:
            raise GitFailed(("rev-parse",), 1, f"{tree.path} and the branch {tree.branch} are both gone")
        return tip
    with locked(own.common):
        return _commit_all(own, tree, state_dir, message)


def _commit_all(own: Repository, tree: WorkTree, state_dir: Path, message: str) -> str:
    unlock(own)
    files, incomplete = write_files(own, excluded(own, [state_dir]), {})
    if incomplete:
        raise GitFailed(("add",), 1, f"in {tree.path}: {incomplete}")
    head = own.commit_of("HEAD")
    if head and own.tree_of(head) == files:
        return head
    commit = own.commit(files, (head,) if head else (), message)
    own.output("update-ref", "HEAD", commit)
    return commit


def _merge_once(origin: Repository, state_dir: Path, tree: WorkTree, tip: str, strategy: str) -> WorkTree | None:
    """Merge *tip*; None: the branch moved meanwhile."""
    current = origin.branch()
    target = f"refs/heads/{tree.base_branch}" if tree.base_branch else "HEAD"
    if not tree.base_branch and current:
        reason = f"it began without a branch, but {tree.origin} has {current} checked out: merge {tree.branch} by hand"
        return msgspec.structs.replace(tree, status="blocked", reason=reason)
    onto = origin.commit_of(target)
    if not onto:
        reason = f"the branch {tree.base_branch} is gone: create it again, or merge {tree.branch} by hand"
        return msgspec.structs.replace(tree, status="blocked", reason=reason)
    done = msgspec.structs.replace(tree, status="merged", files=(), reason="", commit=tree.commit or onto)
    if origin.is_ancestor(tip, onto) or (tree.commit and origin.is_ancestor(tree.commit, onto)):
        return done
    found = compute_merge(origin, onto, tip, strategy, f"Merge run {tree.run}\n\nof the branch {tree.branch}\n")
    if found.files:
        reason = f"it and {tree.base_branch or 'HEAD'} changed the same places"
        return msgspec.structs.replace(tree, status="conflict", files=found.files, reason=reason)
    if found.commit == onto:
        return done
    done = msgspec.structs.replace(done, commit=found.commit)
    write(state_dir, msgspec.structs.replace(tree, commit=found.commit))
    refused = _move(origin, target, onto, found.commit, tree.base_branch)
    if not refused:
        return done
    if origin.commit_of(target) != onto:
        return None
    return msgspec.structs.replace(tree, status="blocked", reason=refused)


def compute_merge(repository: Repository, onto: str, tip: str, strategy: str, message: str) -> MergeResult:
    """Compute the merge of *tip* into the commit *onto*; no branch moves.

    Raises:
        GitFailed: If git cannot; `merge-tree --write-tree` needs git 2.38.
    """
    if strategy == "rebase":
        return _rebased(repository, onto, tip)
    files, conflicts = _merged(repository, onto, tip)
    if conflicts:
        return MergeResult(files=conflicts)
    if files == repository.tree_of(onto):
        return MergeResult(commit=onto)
    parents = (onto, tip) if strategy == "merge" else (onto,)
    return MergeResult(commit=repository.commit(files, parents, message))


def _rebased(repository: Repository, onto: str, tip: str) -> MergeResult:
    """Rebase the commits of *tip* onto *onto*, without those that change nothing."""
    words = ("rev-list", "--reverse", "--topo-order", "--no-merges", f"{onto}..{tip}")
    for commit in repository.output(*words).splitlines():
        before = repository.commit_of(f"{commit}^")
        # a stand-in with the parent of the commit makes that parent the merge base
        stand_in = repository.commit(repository.tree_of(onto), (before,) if before else (), "stand-in\n")
        files, conflicts = _merged(repository, stand_in, commit)
        if conflicts:
            return MergeResult(files=conflicts)
        if files != repository.tree_of(onto):
            message = repository.output("log", "-1", "--format=%B", commit)
            onto = repository.commit(files, (onto,), message, _author(repository, commit))
    return MergeResult(commit=onto)


def _merged(repository: Repository, ours: str, theirs: str) -> tuple[str, tuple[str, ...]]:
    """The git tree of both merged, and the files with conflicts."""
    words = ("merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", "--allow-unrelated-histories")
    completed = repository.call(*words, ours, theirs)
    if completed.status not in (0, 1):
        raise GitFailed(words, completed.status, f"{completed.err.strip()} (merging needs git 2.38 or newer)")
    tree, *files = completed.out.rstrip("\0").split("\0")
    return tree.strip(), tuple(dict.fromkeys(name for name in files if name)) if completed.status else ()


def _author(repository: Repository, commit: str) -> dict[str, str]:
    author = repository.output("log", "-1", "--format=%an%n%ae%n%ad", "--date=raw", commit).split("\n")
    return dict(zip(("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_AUTHOR_DATE"), author, strict=True))


def _move(origin: Repository, target: str, old: str, new: str, branch: str) -> str:
    """Move *target* from *old* to *new*; returns why git refused, or an empty text."""
    place = origin if not branch else _checked_out(origin, branch)
    if place is None:
        completed = origin.call("update-ref", target, new, old)
    else:
        completed = place.call("merge", "--ff-only", "--quiet", new)
    if completed.status == 0:
        return ""
    lines = [line.strip() for line in (completed.err or completed.out).splitlines() if line.strip()]
    return " ".join(lines).removeprefix("error: ") or f"git ended with {completed.status}"


def _checked_out(origin: Repository, branch: str) -> Repository | None:
    """The work tree in which *branch* is checked out; None if there is none."""
    path = ""
    for line in origin.output("worktree", "list", "--porcelain", "-z").split("\0"):
        if line.startswith("worktree "):
            path = line.removeprefix("worktree ")
        elif line == f"branch refs/heads/{branch}" and (found := find(Path(path))) is not None:
            return found
    return None
