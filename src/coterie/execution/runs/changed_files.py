"""The files that a turn changed, as a diff between two snapshots."""

import shlex
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from coterie.agents.workspace.trees import worktree
from coterie.agents.workspace.trees.git import Repository, find
from coterie.errors import GitFailed
from coterie.execution.runs.repository import Runs
from coterie.history.journal.rules import root_of
from coterie.history.views.files import TurnSnapshots, snapshots_of
from coterie.history.views.words import listed

LONGEST = 1 << 20
"""How many characters of a diff are shown."""
_OPTIONS = ("--no-color", "--no-renames")


class ChangedFile(Struct, frozen=True, kw_only=True):
    """A changed file; for a binary file the numbers of lines are None."""

    path: str
    added: int | None
    removed: int | None


class ChangedFiles(Struct, frozen=True, kw_only=True):
    """The changes of a turn.

    Attributes:
        snapshots: The commits before and after the turn, and other turns whose changes are included.
        notes: Changes in the diff that were not made by the turn, as sentences without full stop.
        diff: The output of git; *is_cut*: its end is left out.
        take: The command line that applies these changes in the folder of a checkout.
        problem: Why there is no diff.
    """

    turn: str
    snapshots: TurnSnapshots
    notes: tuple[str, ...] = ()
    files: tuple[ChangedFile, ...] = ()
    diff: str = ""
    is_cut: bool = False
    take: str = ""
    problem: str = ""


def changed_files(runs: Runs, run: str, turn: str) -> ChangedFiles:
    """List the files that *turn* of *run* changed.

    Raises:
        NoSuchRun, JournalUnreadable: If the run cannot be read.
        NoSuchTurn: If the turn never started there.
    """
    root = root_of(run)
    found = snapshots_of(runs.history(root), run, turn)
    if not found.after:
        why = found.problem or "the turn has not ended"
        return ChangedFiles(turn=turn, snapshots=found, problem=f"{why}; snapshots are kept in a git repository")
    repository = _repository(runs, root)
    if repository is None or not repository.commit_of(found.after):
        why = f"the snapshot {found.after[:12]} is not in this machine's repository"
        return ChangedFiles(turn=turn, snapshots=found, problem=why)
    try:
        before = found.before or repository.commit_of(f"{found.after}^")
        before = before or repository.output("hash-object", "-t", "tree", "--stdin")  # the id of an empty tree
        diff = repository.output("diff", *_OPTIONS, before, found.after)
        files = tuple(_files(repository.output("diff", *_OPTIONS, "--numstat", "-z", before, found.after)))
    except GitFailed as error:
        return ChangedFiles(turn=turn, snapshots=found, problem=str(error))
    git = f"git -C {shlex.quote(str(repository.top))}"
    take = f"{git} diff --binary --no-color --no-ext-diff {before} {found.after} | git apply --3way"
    cut = diff[:LONGEST]
    return ChangedFiles(
        turn=turn,
        snapshots=found,
        notes=tuple(_notes(found, worktree.read(runs.root, root) is not None)),
        files=files,
        diff=cut,
        is_cut=len(cut) < len(diff),
        take=take if files else "",
    )


def _notes(found: TurnSnapshots, in_work_tree: bool) -> Iterator[str]:
    if found.shared_with:
        yield f"{listed(found.shared_with)} worked on the same files meanwhile: their changes are in it, too"
    if not found.before and not in_work_tree:  # a work tree begins with the committed files
        yield "no turn before it left a snapshot: what was not committed by then is in it, too"


def _repository(runs: Runs, root: str) -> Repository | None:
    """The repository with the files of *root*: that of its work tree, which may be gone, or of its folder."""
    tree = worktree.read(runs.root, root)
    for folder in (tree.path, tree.origin) if tree is not None else (runs.first(root).cwd or ".",):
        if (found := find(Path(folder))) is not None:
            return found
    return None


def _files(numbers: str) -> list[ChangedFile]:
    """The files in the output of `git diff --numstat -z`."""
    found = []
    for line in filter(None, numbers.split("\0")):
        added, removed, path = line.split("\t", 2)
        counts = (int(one) if one.isdecimal() else None for one in (added, removed))
        found.append(ChangedFile(path=path, added=next(counts), removed=next(counts)))
    return found
