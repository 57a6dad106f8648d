"""Bringing a work tree's work back to where it came from.

The merge is computed in git's store alone, commit by commit; only its result, when it has no conflict, moves the branch
it is for. Where that branch is checked out git moves it, which leaves the user's own changes alone or refuses. So a
kill at any moment leaves the branch where it was, or where it should be, and merging again is the same as merging once.
"""

from pathlib import Path

import msgspec
from msgspec import Struct

from coterie.errors import GitFailed
from coterie.runs.trees.git import Repository, find
from coterie.runs.trees.repository_lock import locked
from coterie.runs.trees.snapshots import excluded, write_files
from coterie.runs.trees.worktree import FOLDER, Tree, returning, unlock, write

STRATEGIES = ("squash", "merge", "rebase")
TRIES = 5
"""How often a merge is computed anew because somebody else moved the branch meanwhile."""


class Computed(Struct, frozen=True, kw_only=True):
    """What merging would come to: the *commit* the branch moves to, or the *files* that disagree."""

    commit: str = ""
    files: tuple[str, ...] = ()


def merge(state_dir: Path, tree: Tree, strategy: str = "") -> Tree:
    """Commit what is left in *tree* and bring its work back; what is then known of it.

    The status is `merged`, `conflict` (then `files` names what disagrees) or `blocked` (`reason` says by what). Unless
    it is `merged`, everything is as before but for that commit.

    Args:
        strategy: Instead of the tree's own.

    Raises:
        GitFailed: If git cannot.
    """
    strategy = strategy or tree.strategy
    tree = returning(state_dir, tree)
    origin = find(Path(tree.origin))
    if origin is None:
        reason = f"{tree.origin}, where it comes from, is no git work tree any more"
        return write(state_dir, msgspec.structs.replace(tree, status="blocked", reason=reason))
    with locked(origin.common):
        tip = commit_all(tree, state_dir, f"Work of run {tree.run}\n")
        if origin.top.is_relative_to(state_dir.resolve() / FOLDER):
            unlock(origin)
        for _ in range(TRIES):
            found = _merge_once(origin, state_dir, tree, tip, strategy)
            if found is not None:
                return write(state_dir, found)
    reason = f"{tree.base_branch or 'HEAD'} moved at every try"
    return write(state_dir, msgspec.structs.replace(tree, status="blocked", reason=reason))


def commit_all(tree: Tree, state_dir: Path, message: str) -> str:
    """Commit all that is changed in *tree*, if anything is; the commit that then holds its work.

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


def _commit_all(own: Repository, tree: Tree, state_dir: Path, message: str) -> str:
    unlock(own)
    files, incomplete = write_files(own, excluded(own, [state_dir]), {})
    if incomplete:
        raise GitFailed(("add",), 1, f"in {tree.path}: {incomplete}")
    head = own.commit_of("HEAD")
    if head and own.tree_of(head) == files:
        return head
    commit = own.commit(files, (head,) if head else (), message)
    own.ask("update-ref", "HEAD", commit)
    return commit


def _merge_once(origin: Repository, state_dir: Path, tree: Tree, tip: str, strategy: str) -> Tree | None:
    """Merge *tip*; None: the branch moved meanwhile."""
    current = origin.branch()
    target = f"refs/heads/{tree.base_branch}" if tree.base_branch else "HEAD"
    if not tree.base_branch and current:
        reason = f"it began at no branch, and {tree.origin} has {current} checked out now: merge {tree.branch} by hand"
        return msgspec.structs.replace(tree, status="blocked", reason=reason)
    onto = origin.commit_of(target)
    if not onto:
        reason = f"the branch {tree.base_branch} is gone: make it anew, or merge {tree.branch} by hand"
        return msgspec.structs.replace(tree, status="blocked", reason=reason)
    done = msgspec.structs.replace(tree, status="merged", files=(), reason="", commit=tree.commit or onto)
    if origin.is_above(tip, onto) or (tree.commit and origin.is_above(tree.commit, onto)):
        return done
    found = compute(origin, onto, tip, strategy, f"Merge run {tree.run}\n\nof the branch {tree.branch}\n")
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


def compute(repository: Repository, onto: str, tip: str, strategy: str, message: str) -> Computed:
    """What the work up to *tip* is when it is brought to the commit *onto*; nothing moves.

    Raises:
        GitFailed: If git cannot; `merge-tree --write-tree` wants git 2.38.
    """
    if strategy == "rebase":
        return _replayed(repository, onto, tip)
    files, disagreeing = _merged(repository, onto, tip)
    if disagreeing:
        return Computed(files=disagreeing)
    if files == repository.tree_of(onto):
        return Computed(commit=onto)
    parents = (onto, tip) if strategy == "merge" else (onto,)
    return Computed(commit=repository.commit(files, parents, message))


def _replayed(repository: Repository, onto: str, tip: str) -> Computed:
    """The commits of *tip* that *onto* lacks, one after the other behind it; those that change nothing are left out."""
    words = ("rev-list", "--reverse", "--topo-order", "--no-merges", f"{onto}..{tip}")
    for commit in repository.ask(*words).splitlines():
        before = repository.commit_of(f"{commit}^")
        # behind a stand-in whose parent is the commit's own, so that this is what git takes for their common past
        stand_in = repository.commit(repository.tree_of(onto), (before,) if before else (), "stand-in\n")
        files, disagreeing = _merged(repository, stand_in, commit)
        if disagreeing:
            return Computed(files=disagreeing)
        if files != repository.tree_of(onto):
            message = repository.ask("log", "-1", "--format=%B", commit)
            onto = repository.commit(files, (onto,), message, _author(repository, commit))
    return Computed(commit=onto)


def _merged(repository: Repository, ours: str, theirs: str) -> tuple[str, tuple[str, ...]]:
    """The tree of both together, and the files in which they disagree."""
    words = ("merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", "--allow-unrelated-histories")
    said = repository.call(*words, ours, theirs)
    if said.status not in (0, 1):
        raise GitFailed(words, said.status, f"{said.err.strip()} (merging wants git 2.38 or newer)")
    tree, *files = said.out.rstrip("\0").split("\0")
    return tree.strip(), tuple(dict.fromkeys(name for name in files if name)) if said.status else ()


def _author(repository: Repository, commit: str) -> dict[str, str]:
    who = repository.ask("log", "-1", "--format=%an%n%ae%n%ad", "--date=raw", commit).split("\n")
    return dict(zip(("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_AUTHOR_DATE"), who, strict=True))


def _move(origin: Repository, target: str, old: str, new: str, branch: str) -> str:
    """Move *target* from *old* to *new*; why git refuses, or an empty text."""
    place = origin if not branch else _checked_out(origin, branch)
    if place is None:
        said = origin.call("update-ref", target, new, old)
    else:
        said = place.call("merge", "--ff-only", "--quiet", new)
    if said.status == 0:
        return ""
    lines = [line.strip() for line in (said.err or said.out).splitlines() if line.strip()]
    return " ".join(lines).removeprefix("error: ") or f"git says {said.status}"


def _checked_out(origin: Repository, branch: str) -> Repository | None:
    """The work tree in which *branch* is checked out, if it is in any."""
    path = ""
    for line in origin.ask("worktree", "list", "--porcelain", "-z").split("\0"):
        if line.startswith("worktree "):
            path = line.removeprefix("worktree ")
        elif line == f"branch refs/heads/{branch}" and (found := find(Path(path))) is not None:
            return found
    return None
