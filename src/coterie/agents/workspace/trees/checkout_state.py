"""Move what the user has checked out to what an agent left: branch, HEAD and index, or none of them.

They move only if the user has not moved them meanwhile. Git's lock of the index is held from the comparison to the end,
so no command of the user's comes between. A kill leaves each of the three before or after its move, and moving again
ends the same way.
"""

import hashlib
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from coterie.agents.workspace.trees.git import Repository, checked_out, rebased
from coterie.base.links import give_name

HEADS = "refs/heads/"
_INDEX, _LOCK = "coterie.index", "index.lock"
_PATIENCE, _PAUSE = 5.0, 0.02
"""Seconds to wait for a command of the user's that has locked the index, and between two looks."""
_TRIES = 3
_STEPS = {
    "a merge": ("MERGE_HEAD",),
    "a rebase": ("rebase-merge", "rebase-apply"),
    "a cherry-pick": ("CHERRY_PICK_HEAD", "sequencer"),
    "a revert": ("REVERT_HEAD",),
    "a bisection": ("BISECT_LOG",),
}
OPERATIONS = {name: what for what, names in _STEPS.items() for name in names}
"""What is under way by the names of the files and folders that say so in git's folder of a work tree."""


class CheckoutState(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is checked out.

    Attributes:
        branch: The ref that HEAD names; empty: none.
        head: The commit that is checked out; empty: there is none yet.
        index: The git tree that the index would commit; empty: it cannot, since it has conflicts.
    """

    branch: str = ""
    head: str = ""
    index: str = ""


def state_of(own: Repository, scratch: Path, index: str = "") -> CheckoutState:
    """The state of the checkout *own*.

    Args:
        scratch: A file for the time of the call.
        index: The tree of the index, if it is known.
    """
    branch = own.call("symbolic-ref", "--quiet", "HEAD").out.strip()
    return CheckoutState(branch=branch, head=own.commit_of("HEAD"), index=index or _index_tree(own, scratch))


def operation_in(own: Repository) -> str:
    """What is under way in the checkout *own*, such as `a merge`; empty: nothing."""
    return next((what for name, what in OPERATIONS.items() if os.path.lexists(own.own / name)), "")


def fingerprint(own: Repository) -> str:
    """A digest of the index of *own*, which also changes if only times of files do; empty: there is no index."""
    with suppress(FileNotFoundError), (own.own / "index").open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
    return ""


def _index_tree(own: Repository, scratch: Path) -> str:
    """The git tree of the index, found in a copy, since git would lock the index itself."""
    try:
        with suppress(FileNotFoundError):
            shutil.copyfile(own.own / "index", scratch)
        done = own.call("write-tree", "--missing-ok", env={"GIT_INDEX_FILE": str(scratch)})
    finally:
        scratch.unlink(missing_ok=True)
    return done.out.strip() if not done.status else ""


def move(
    own: Repository, began: CheckoutState, left: CheckoutState, refs: Mapping[str, str], message: str, scratch: Path
) -> str:
    """Move the checkout *own* from *began* to *left*, whose objects it has; returns why not, or an empty text.

    Args:
        refs: The refs as they were at the beginning, which tells whether the user moved one meanwhile.
        message: For the reflogs.
        scratch: A file for the time of the call.

    Raises:
        GitFailed: If git cannot prepare it.
    """
    where = checked_out(own, left.branch) if left.branch != began.branch else None
    if where is not None and where.resolve() != own.top.resolve():
        return f"{left.branch.removeprefix(HEADS)} is checked out in {where}"
    if left.branch and (under_way := rebased(own, left.branch)) is not None:
        return f"a rebase of {left.branch.removeprefix(HEADS)} is under way, as {under_way} says"
    clear(own)
    for _ in range(_TRIES):
        seen = fingerprint(own)
        try:
            has_index = _prepare(own, left)
            with _held(own) as is_held:
                if not is_held:
                    return "another command of git has the index locked"
                if fingerprint(own) != seen:
                    continue
                now = state_of(own, scratch)
                if (now.branch, now.head) not in ((began.branch, began.head), (left.branch, left.head)):
                    return f"{now.branch.removeprefix(HEADS) or 'HEAD'} was moved meanwhile"
                if now.index not in (began.index, left.index):
                    return "something else was staged meanwhile"
                if refused := _move_head(own, now, left, refs, message):
                    return refused
                if has_index:
                    (own.own / _LOCK).replace(own.own / "index")
                return ""
        finally:
            clear(own)
    return "the index changed all the time"


def clear(own: Repository) -> None:
    """Remove what a killed owner left of `move`: its lock is known by its content, which is that of its file."""
    mine, lock = own.own / _INDEX, own.own / _LOCK
    with suppress(FileNotFoundError):
        if os.path.samefile(mine, lock):
            lock.unlink()
    mine.unlink(missing_ok=True)


def _prepare(own: Repository, left: CheckoutState) -> bool:
    """Write the next index beside the current one, of which it keeps flags and times; False: it stays as it is."""
    mine = own.own / _INDEX
    mine.touch()
    with suppress(FileNotFoundError):
        shutil.copy(own.own / "index", mine)
    wanted = left.index or (own.tree_of(left.head) if left.head else "")
    if not wanted:
        return False
    env = {"GIT_INDEX_FILE": str(mine)}
    if not mine.stat().st_size:
        mine.unlink()
    intended = own.output("diff-files", "--name-only", "--diff-filter=A", "-z", env=env)
    if own.call("read-tree", "-i", "-m", wanted, env=env).status:  # it has conflicts, which the agent has solved
        own.output("read-tree", "-i", "--reset", wanted, env=env)
    if intended:  # `git add --intent-to-add` of the user's
        words = ("add", "--intent-to-add", "--pathspec-from-file=-", "--pathspec-file-nul")
        own.call(*words, stdin=intended, env=env | {"GIT_LITERAL_PATHSPECS": "1"})
    own.call("update-index", "-q", "--refresh", env=env)
    return True


@contextmanager
def _held(own: Repository) -> Iterator[bool]:
    """Hold git's lock of the index, or give up: a second name of the prepared index, so that it can be put in place."""
    lock, end = own.own / _LOCK, time.monotonic() + _PATIENCE
    while True:
        try:
            give_name(own.own / _INDEX, lock)
            break
        except FileExistsError:
            if time.monotonic() > end:
                yield False
                return
            time.sleep(_PAUSE)
    yield True


def _move_head(own: Repository, now: CheckoutState, left: CheckoutState, refs: Mapping[str, str], message: str) -> str:
    """Let HEAD, and the branch that it is to name, follow *left*; returns why not, or an empty text."""
    ref = left.branch or "HEAD"
    before = own.commit_of(ref) if left.branch else now.head
    if before != left.head:
        old = now.head if left.branch == now.branch else refs.get(left.branch, "")
        words = () if left.branch else ("--no-deref",)
        if own.call("update-ref", *words, "-m", message, ref, left.head, old).status:
            return f"{ref.removeprefix(HEADS)} was moved meanwhile"
    if left.branch not in ("", now.branch):
        own.output("symbolic-ref", "-m", message, "HEAD", left.branch)
    elif not left.branch and now.branch and before == left.head:
        own.output("update-ref", "--no-deref", "-m", message, "HEAD", left.head)
    return ""
