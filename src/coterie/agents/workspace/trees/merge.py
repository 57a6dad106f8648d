"""Merge the work of a work tree into the branch it came from.

The merge is computed in git's object store, commit by commit; the branch moves only to a result without conflicts. If
the branch is checked out, git itself moves it, which keeps the user's changes or refuses. So a kill at any moment
leaves the branch before or after the merge, and merging again changes nothing.
"""

import os
import shlex
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from coterie.agents.workspace.trees import private, worktree
from coterie.agents.workspace.trees.git import Repository, checked_out, find, readable, rebased
from coterie.agents.workspace.trees.obstacles import in_the_way, obstacle
from coterie.agents.workspace.trees.repository_lock import locked
from coterie.agents.workspace.trees.signing import commit_signed
from coterie.agents.workspace.trees.snapshots import excluded, write_files
from coterie.agents.workspace.trees.worktree import FOLDER, WorkTree, unlock, with_current_origin, write
from coterie.base import agent_writes
from coterie.base.ids import folder_name
from coterie.base.shortages import write_shortage
from coterie.errors import GitFailed, Shortage

STRATEGIES = ("squash", "merge", "rebase")
AGENTS = "agents"
"""The folder of a run for what its agents keep or leave beyond an attempt."""
TRIES = 5
"""How often a merge is computed because another process moved the branch meanwhile."""


class MergeResult(Struct, frozen=True, kw_only=True):
    """The result of a merge: the *commit* that the branch moves to, or the *files* with conflicts."""

    commit: str = ""
    files: tuple[str, ...] = ()


def merge_tree(
    state_dir: Path, tree: WorkTree, strategy: str = "", *, take_settings: bool = False, by_operator: bool = False
) -> WorkTree:
    """Commit the changes in *tree* and merge its work; returns *tree* with its new status.

    The status is `merged`, `conflict` (with `files`) or `blocked` (with `reason`). Unless it is `merged`, only that
    commit is new.

    Args:
        strategy: By default that of the tree.
        take_settings: The operator agrees to changes of the files that shape runs.
        by_operator: An operator merges it; else the merged files count as written by its agents if these are confined.

    Raises:
        GitFailed: If git cannot.
    """
    strategy = strategy or tree.strategy
    tree = with_current_origin(state_dir, tree)
    origin = worktree.origin_of(state_dir, tree)
    if origin is None:
        reason = f"{tree.origin}, its origin, is no longer a git work tree"
        return write(state_dir, msgspec.structs.replace(tree, status="blocked", reason=reason))
    with locked(origin.common):
        tip = commit_all(tree, state_dir, f"Work of run {tree.run}\n")
        if marked := private.conflicts(tree):
            names = ", ".join(map(readable, marked))
            reason = f"its agents left conflicts in {names}: solve them in {tree.path}"
            return write(state_dir, msgspec.structs.replace(tree, status="blocked", files=(), reason=reason))
        if origin.top.is_relative_to(state_dir.resolve() / FOLDER):
            unlock(origin)
        for _ in range(TRIES):
            writer = "" if by_operator or tree.guards is None else str(_writer(state_dir, tree))
            found = _merge_once(origin, state_dir, tree, tip, strategy, writer, take_settings=take_settings)
            if found is not None:
                return write(state_dir, found)
    reason = f"{tree.base_branch or 'HEAD'} moved during every attempt"
    return write(state_dir, msgspec.structs.replace(tree, status="blocked", reason=reason))


def commit_all(tree: WorkTree, state_dir: Path, message: str) -> str:
    """Commit all changes in *tree*, if there are any; returns the commit with its work.

    Raises:
        GitFailed: If git cannot, or could not read every file.
    """
    own = worktree.repository_of(tree)
    if tree.leaving or own is None:
        origin = worktree.origin_of(state_dir, tree)
        tip = origin.commit_of(f"refs/heads/{tree.branch}") if origin is not None else ""
        if not tip:
            raise GitFailed(("rev-parse",), 1, f"{tree.path} and the branch {tree.branch} are both gone")
        return tip
    with locked(own.common):
        return _commit_all(own, tree, state_dir, message)


def _commit_all(own: Repository, tree: WorkTree, state_dir: Path, message: str) -> str:
    unlock(own)
    if tree.git:  # a killed owner may have left it as an attempt without mounts had it
        private.link(tree, private=False)
    state = private.look(tree) if private.folder_of(tree).exists() else None
    files, incomplete = write_files(own, excluded(own, [state_dir]), {})
    if incomplete:
        raise GitFailed(("add",), 1, f"in {tree.path}: {incomplete}")
    ref = f"refs/heads/{tree.branch}"
    tip = own.commit_of(ref)
    if not tip:
        raise GitFailed(("rev-parse",), 1, f"the branch {tree.branch} is gone: git -C {tree.path} branch {tree.branch}")
    if own.tree_of(tip) == files:
        return tip
    found = [("checkout", own.branch(), own.commit_of("HEAD"))]
    found += [("reset --hard", state.branch, state.head)] if state is not None else []
    for step, at, head in found:
        if at != tree.branch:
            where = f"on {at}" if at else f"at {head[:12]}"
            reason = f"its files are {where}: git -C {tree.path} {step} {tree.branch}, or commit them there, then"
            again = f"coterie worktree merge {tree.run}"
            raise GitFailed(("commit",), 1, f"only the branch {tree.branch} is merged, and {reason} {again}")
    commit = commit_signed(own, files, (tip,), message)
    own.output("update-ref", ref, commit, tip)
    return commit


def _writer(state_dir: Path, tree: WorkTree) -> Path:
    """The folder that names the merge among those of the attempts of its run."""
    root, _, _ = tree.run.partition("/")
    return state_dir.resolve() / "runs" / folder_name(root) / AGENTS / folder_name(f"merge of {tree.branch}")


def _merge_once(
    origin: Repository, state_dir: Path, tree: WorkTree, tip: str, strategy: str, writer: str, *, take_settings: bool
) -> WorkTree | None:
    """Merge *tip*; None: the branch moved meanwhile."""

    def blocked(reason: str) -> WorkTree:
        return msgspec.structs.replace(tree, status="blocked", files=(), reason=reason)

    current = origin.branch()
    target = f"refs/heads/{tree.base_branch}" if tree.base_branch else "HEAD"
    if not tree.base_branch and current:
        return blocked(
            f"it began without a branch, but {tree.origin} has {current} checked out: merge {tree.branch} by hand"
        )
    onto = origin.commit_of(target)
    if not onto:
        return blocked(f"the branch {tree.base_branch} is gone: create it again, or merge {tree.branch} by hand")
    since = tree.since or (tree.base if tree.by_itself else "")
    if since and not origin.is_ancestor(since, tip):
        return blocked(
            f"its branch no longer contains {since[:12]}, the commit it began with: "
            f"git -C {tree.path} reset --soft {since[:12]}, and commit"
        )
    done = msgspec.structs.replace(tree, status="merged", files=(), reason="", commit=tree.commit or onto)
    if origin.is_ancestor(tip, onto) or (tree.commit and origin.is_ancestor(tree.commit, onto)):
        return done
    rewritten = since if since and not origin.is_ancestor(since, onto) else ""
    message = f"Merge run {tree.run}\n\nof the branch {tree.branch}\n"
    found = compute_merge(origin, onto, tip, strategy, message, rewritten)
    if found.files:
        reason = f"it and {tree.base_branch or 'HEAD'} changed the same places"
        return msgspec.structs.replace(tree, status="conflict", files=found.files, reason=reason)
    if found.commit == onto:
        return done
    if refused := obstacle(origin, tree, onto, found.commit, take_settings=take_settings):
        return blocked(refused)
    done = msgspec.structs.replace(done, commit=found.commit)
    write(state_dir, msgspec.structs.replace(tree, commit=found.commit))
    refused = _move(origin, target, onto, found.commit, tree.base_branch, writer)
    if not refused:
        return done
    if origin.commit_of(target) != onto:
        return None
    return blocked(refused)


def compute_merge(
    repository: Repository, onto: str, tip: str, strategy: str, message: str, since: str = ""
) -> MergeResult:
    """Compute the merge of *tip* into the commit *onto*; no branch moves.

    Args:
        since: A commit that *onto* no longer has, and must not get back: only what *tip* has beyond it is brought over.

    Raises:
        GitFailed: If git cannot; `merge-tree --write-tree` needs git 2.38.
    """
    merges = repository.output("rev-list", "--merges", f"{since or onto}..{tip}") if strategy != "squash" else ""
    if strategy == "rebase" or (since and strategy == "merge" and not merges):
        return _rebased(repository, onto, tip, since, whole=bool(merges))
    ours = repository.commit(repository.tree_of(onto), (since,), "stand-in\n") if since else onto
    files, conflicts = _merged(repository, ours, tip)
    if conflicts:
        return MergeResult(files=conflicts)
    if files == repository.tree_of(onto):
        return MergeResult(commit=onto)
    parents = (onto, tip) if strategy == "merge" and not since else (onto,)
    return MergeResult(commit=commit_signed(repository, files, parents, message))


def _rebased(repository: Repository, onto: str, tip: str, since: str, *, whole: bool) -> MergeResult:
    """Rebase the commits of *tip* onto *onto*, without those that change nothing.

    Args:
        since: The commit after which they begin; by default *onto*.
        whole: There are merges among them, so each is taken with all that it merged: none of it is left out.
    """
    words = (
        "rev-list",
        "--reverse",
        "--topo-order",
        *(("--first-parent",) if whole else ()),
        f"{since or onto}..{tip}",
    )
    for commit in repository.lines(*words):
        before = repository.commit_of(f"{commit}^")
        # a stand-in with the parent of the commit makes that parent the merge base
        stand_in = repository.commit(repository.tree_of(onto), (before,) if before else (), "stand-in\n")
        files, conflicts = _merged(repository, stand_in, commit)
        if conflicts:
            return MergeResult(files=conflicts)
        if files != repository.tree_of(onto):
            message = repository.output("log", "-1", "--format=%B", commit)
            onto = commit_signed(repository, files, (onto,), message, _author(repository, commit))
    return MergeResult(commit=onto)


def _merged(repository: Repository, ours: str, theirs: str) -> tuple[str, tuple[str, ...]]:
    """The git tree of both merged, and the files with conflicts."""
    words = ("merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", "--allow-unrelated-histories")
    completed = repository.call(*words, ours, theirs)
    if completed.status not in (0, 1):
        raise GitFailed(words, completed.status, f"{completed.err.strip()} (merging needs git 2.38 or newer)")
    tree, *files = completed.out.rstrip("\0").split("\0")
    return tree.strip(), tuple(dict.fromkeys(readable(name) for name in files if name)) if completed.status else ()


def _author(repository: Repository, commit: str) -> dict[str, str]:
    author = repository.output("log", "-1", "--format=%an%n%ae%n%ad", "--date=raw", commit).split("\n")
    return dict(zip(("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_AUTHOR_DATE"), author, strict=True))


def _options(branch: str) -> dict[str, str]:
    """Variables with which `git merge` into *branch* has no options of the user's, such as `--squash`."""
    key = f"branch.{branch}.mergeoptions".replace("'", "'\\''")
    return {"GIT_CONFIG_PARAMETERS": f"'{key}'=''"} if branch else {}


def _move(origin: Repository, target: str, old: str, new: str, branch: str, writer: str) -> str:
    """Move *target* from *old* to *new*, on behalf of *writer*; returns why git refused, or an empty text."""
    at = origin.top if not branch else checked_out(origin, target)
    place = origin if at is not None and at.resolve() == origin.top.resolve() else find(at) if at is not None else None
    if branch and (under_way := rebased(origin, target)) is not None:
        return f"a rebase of {branch} is under way, as {under_way} says: end or abort it"
    if place is None and at is not None and at.exists():
        return f"{branch} is checked out elsewhere, as git worktree list says, but {at} is no work tree: switch there"
    if place is None:
        completed = origin.call("update-ref", target, new, old)
    else:
        if found := in_the_way(place, old, new):
            return found
        before = {name: _stamp(place.top / name) for name in _changed(place, old, new)}
        with agent_writes.noted(Path(writer), [place.top], {}) if writer else nullcontext():
            completed = place.call("merge", "--ff-only", "--no-overwrite-ignore", "--quiet", new, env=_options(branch))
        if completed.status and origin.commit_of(target) == old:
            lacks = write_shortage(place.top) or write_shortage(place.own)
            _take_back(place, new, before)
            if lacks:
                raise Shortage(f"the files in {place.top} cannot be written: {lacks}")
    if completed.status == 0:
        return ""
    lines = [line.strip() for line in (completed.err or completed.out).splitlines() if line.strip()]
    return " ".join(lines).removeprefix("error: ") or f"git ended with {completed.status}"


def _changed(place: Repository, old: str, new: str) -> list[str]:
    """The files that differ between two commits."""
    return place.output("diff-tree", "-r", "-z", "--no-renames", "--name-only", old, new).split("\0")[:-1]


def _stamp(path: Path) -> tuple[int, ...] | None:
    """What changes when the file *path* is written; None if there is none."""
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _take_back(place: Repository, new: str, before: Mapping[str, tuple[int, ...] | None]) -> None:
    """Give the user back the files of which git wrote some for *new*, as on a full disk, and then gave up.

    Git began only since all of them were as the index has them, or absent. One that has anything else by now than the
    beginning of what git writes stays as it is.

    Raises:
        GitFailed: If they cannot be written.
    """
    written = [name for name, stamp in before.items() if _stamp(place.top / name) != stamp]
    for path in (place.top / name for name in written if before[name] is None and _is_begun(place, new, name)):
        path.unlink(missing_ok=True)
        with suppress(OSError):
            for folder in path.relative_to(place.top).parents[:-1]:
                (place.top / folder).rmdir()
    had = [name for name in written if before[name] is not None and _is_begun(place, new, name)]
    words = ("checkout-index", "--force", "-z", "--stdin")
    if had and (done := place.call(*words, stdin="\0".join([*had, ""]))).status:
        names = shlex.join(["git", "-C", str(place.top), "checkout", "--", *map(readable, had)])
        raise GitFailed(words, done.status, f"{done.err.strip()}; to have your files as they were: {names}")


def _is_begun(place: Repository, new: str, name: str) -> bool:
    """Whether the file *name* is gone, or has the beginning of what it is to have in the commit *new*."""
    path = place.top / name
    try:
        found = os.readlink(path) if path.is_symlink() else path.read_bytes().decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        return True
    except OSError:
        return False
    wanted = place.call("cat-file", "--filters", f"{new}:{name}")
    return wanted.status == 0 and wanted.out.startswith(found)
