"""Whether a run gets a work tree of its own, and its making before the run begins."""

from collections.abc import Callable
from pathlib import Path

import msgspec
from msgspec import Struct

from coterie.errors import UsageError
from coterie.journal.jsonl import JOURNAL
from coterie.journal.lock import is_held
from coterie.planning.loop import LoopPlace
from coterie.runs import index
from coterie.runs.listing import first_line
from coterie.runs.trees.git import Repository, find, need
from coterie.runs.trees.merging import STRATEGIES
from coterie.runs.trees.worktree import Tree, described, make


class Wish(Struct, frozen=True, kw_only=True):
    """What whoever starts a run says of its files.

    Attributes:
        worktree: Whether it gets a work tree of its own; None: as the settings say.
        strategy: How its work gets back, instead of the settings' way.
        snapshots: Whether the files are kept at each turn's end.
        tell: Takes what has to be said before the run begins.
    """

    worktree: bool | None = None
    strategy: str = ""
    snapshots: bool = True
    tell: Callable[[str], object] = str


class Decision(Struct, frozen=True, kw_only=True):
    """Whether a run gets a work tree of its own, and by whose word: `flag`, `settings`, `auto` or `default`."""

    apart: bool
    by: str


def decide(*, flag: bool | None, setting: bool | None, others: Callable[[], bool]) -> Decision:
    """The rule: the command line, then the settings, then whether *others* work in the same tree."""
    if flag is not None:
        return Decision(apart=flag, by="flag")
    if setting is not None:
        return Decision(apart=setting, by="settings")
    return Decision(apart=True, by="auto") if others() else Decision(apart=False, by="default")


def isolate(run: str, cwd: Path, state_dir: Path, wish: Wish, place: LoopPlace | None) -> Tree | None:
    """The work tree that *run*, started in *cwd*, is to have, made if it has to be; None: it works in *cwd*.

    Args:
        place: The settings of a loop; without them a run has one only on *wish*.

    Raises:
        UsageError: If it must have one and cannot.
        GitFailed: If git cannot make it.
    """
    if wish.strategy and wish.strategy not in STRATEGIES:
        raise UsageError(f"--merge-strategy {wish.strategy!r} is not one of {', '.join(STRATEGIES)}")
    repository = find(cwd)
    setting = place.worktree if place is not None else False

    def others() -> bool:
        return repository is not None and is_used(repository, state_dir)

    decision = decide(flag=wish.worktree, setting=setting, others=others)
    if not decision.apart:
        return None
    why = {"flag": "--worktree", "settings": "worktree.enabled = true"}.get(decision.by, "another run works here")
    repository = repository or need(cwd, f"{why} wants a git work tree")
    base = repository.commit_of("HEAD")
    if not base and decision.by == "auto":
        wish.tell("another run works in this git work tree, which has no commit yet: both work in the same files")
        return None
    if not base:
        raise UsageError(f"{why} wants a commit to begin with, and {repository.top} has none: commit something first")
    place = place or LoopPlace()
    tree = described(repository, state_dir, run, prefix=place.branch_prefix, base=base)
    strategy = wish.strategy or place.merge_strategy
    tree = make(repository, state_dir, msgspec.structs.replace(tree, strategy=strategy, cleanup=place.cleanup))
    if decision.by == "auto":
        wish.tell("another run works in this git work tree, so this one gets its own (--no-worktree: the same)")
    wish.tell(f"working in {tree.path}, on the branch {tree.branch}{_left_out(repository)}")
    return tree


def is_used(repository: Repository, state_dir: Path) -> bool:
    """Whether a living process runs a run in the same git work tree."""
    for entry in index.entries(state_dir):
        folder = Path(entry.folder)
        if is_held(folder / "lock"):
            cwd = first_line(folder / JOURNAL).get("cwd")
            there = find(Path(cwd)) if isinstance(cwd, str) and cwd else None
            if there is not None and there.top.resolve() == repository.top.resolve():
                return True
    return False


def _left_out(repository: Repository) -> str:
    """A word on what the user has not committed, which a fresh work tree does not have."""
    changed = repository.call("status", "--porcelain", "--untracked-files=no").out.splitlines()
    if not changed:
        return ""
    files = f"{len(changed)} files are" if len(changed) > 1 else "1 file is"
    return f"; {files} changed here and not committed: the run does not see that"
