"""`coterie worktree …`: the git work trees of runs, and bringing their work back by hand."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from coterie.cli.options import STATE_DIR, AsJson, Run, StateDir
from coterie.cli.output import complain, say, say_json

if TYPE_CHECKING:
    from coterie.runs.trees.worktree import Tree


def list_(as_json: AsJson = False, state_dir: StateDir = STATE_DIR) -> int:
    """List the work trees of runs, in every state directory that is known."""
    found = [tree for _, tree in _trees(state_dir)]
    if as_json:
        say_json(found)
    elif not found:
        complain(f"no run kept in {state_dir}, or in another known state directory, has a git work tree of its own")
    for tree in [] if as_json else found:
        say(f"{tree.run}  {tree.status}{' (removed)' if tree.removed else ''}  {tree.branch}  {tree.path}")
    return 0


def show(run: Run, as_json: AsJson = False, state_dir: StateDir = STATE_DIR) -> int:
    """Show how it stands with a run's work tree, and what to do next."""
    from coterie.runs.trees.settling import told
    from coterie.runs.trees.tidying import is_cut_off

    home, tree = _tree(run, state_dir)
    if as_json:
        say_json(tree)
        return 0
    say("\n".join([f"run {tree.run}: {tree.status}", *told(tree)]))
    if tree.status == "running" and is_cut_off(home, tree):
        say(f"no process runs it now; to go on: coterie resume {tree.run.partition('/')[0]}")
    return 0


def diff(run: Run, state_dir: StateDir = STATE_DIR) -> int:
    """Show what a run changed in its work tree, as git does."""
    from coterie.runs.trees.settling import changes

    home, tree = _tree(run, state_dir)
    if shown := changes(home, tree):
        say(shown)
    return 0


def merge(
    run: Run,
    strategy: Annotated[
        str | None, typer.Option(metavar="S", help="squash, merge or rebase, instead of what the run's settings say.")
    ] = None,
    as_json: AsJson = False,
    state_dir: StateDir = STATE_DIR,
) -> int:
    """Bring a run's work back to the branch it began at, and remove its work tree as its settings say.

    The status is 1 if it cannot be merged; then everything is as before, and it is said how to go on.
    """
    from coterie.errors import UsageError
    from coterie.runs.trees import merging
    from coterie.runs.trees.settling import clean as cleaned
    from coterie.runs.trees.settling import is_due, told

    if strategy is not None and strategy not in merging.STRATEGIES:
        raise UsageError(f"--strategy {strategy!r} is not one of {', '.join(merging.STRATEGIES)}")
    home, tree = _tree(run, state_dir)
    _check_idle(home, tree)
    if tree.status != "merged":
        tree = merging.merge(home, tree, strategy or "")
    tree = cleaned(home, tree) if is_due(tree) else tree
    if as_json:
        say_json(tree)
    else:
        say("\n".join([f"run {tree.run}: {tree.status}", *told(tree)]))
    return int(tree.status != "merged")


def clean(
    run: Annotated[
        str | None, typer.Argument(metavar="[RUN]", help="Only this run's; by default those of all that have ended.")
    ] = None,
    as_json: AsJson = False,
    state_dir: StateDir = STATE_DIR,
) -> int:
    """Remove the work trees of runs that have ended, and what git keeps of runs long gone.

    Work that is not merged is committed first, and its branch stays. Without RUN, runs kept here or in this repository.
    """
    from coterie.runs import index
    from coterie.runs.trees import settling, tidying

    if run is not None:
        home, tree = _tree(run, state_dir)
        _check_idle(home, tree)
        found = [(home, tree)]
    else:
        here, folder = {home.resolve() for home in index.homes(state_dir)}, Path.cwd()
        known = [(home, tree) for home, tree in _trees(state_dir) if tidying.is_over(home, tree)]
        found = [(home, tree) for home, tree in known if home in here or tidying.is_of(folder, home, tree)]
    removed = [settling.clean(home, tree) for home, tree in reversed(found) if not tree.removed]
    forgotten = tidying.forget_old(Path.cwd(), state_dir) if run is None else 0
    if as_json:
        say_json({"removed": removed, "forgotten": forgotten})
        return 0
    for tree in removed:
        gone = tree.status in ("merged", "making")
        say(f"{tree.run}: removed {tree.path}" + ("" if gone else f"; {tree.branch} stays"))
    if forgotten:
        say(f"dropped the files that git kept of {forgotten} turns of runs that are gone")
    return 0


def _tree(run: str, state_dir: Path) -> "tuple[Path, Tree]":
    """The state directory of *run*, and its work tree.

    A run that was killed while its tree was made may have no journal, so it is looked up by its tree first.
    """
    from coterie.errors import UsageError
    from coterie.runs.repository import find
    from coterie.runs.trees import worktree

    root, _, branch = run.partition("/")
    fitting = [(home, tree) for home, tree in _trees(state_dir) if tree.run == run]
    if len(fitting) == 1:
        return fitting[0]
    runs, found = find(root, state_dir)
    home, name = runs.root, f"{found}/{branch}" if branch else found
    tree = worktree.read(home, name)
    if tree is None:
        raise UsageError(f"run {name!r} has no git work tree of its own; `coterie worktree list` shows which do")
    return home, tree


def _trees(state_dir: Path) -> "list[tuple[Path, Tree]]":
    """The work trees in every state directory that is known, that of the project's settings included."""
    from coterie.runs import index
    from coterie.runs.trees.worktree import trees
    from coterie.settings import resolve

    settings, _ = resolve(Path(), work_dir=Path.cwd(), env=os.environ)
    homes = dict.fromkeys([*index.state_dirs(state_dir), Path(settings.core.state_dir).resolve()])
    return [(home, tree) for home in homes for tree in trees(home)]


def _check_idle(state_dir: Path, tree: "Tree") -> None:
    from coterie.errors import RunIsOwned
    from coterie.journal.lock import is_held
    from coterie.journal.rules import root_of
    from coterie.runs.repository import Runs

    lock = Runs(state_dir).folder(root_of(tree.run)) / "lock"
    if is_held(lock):
        raise RunIsOwned(tree.run, str(lock))
