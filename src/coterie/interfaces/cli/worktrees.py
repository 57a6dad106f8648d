"""`coterie worktree …`: list, inspect, merge and remove the git work trees of runs."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from coterie.interfaces.cli.options import STATE_DIR, AsJson, Run, StateDir
from coterie.interfaces.cli.output import complain, print_result, say, say_json
from coterie.interfaces.cli.parameters import Arg, Opt
from coterie.interfaces.cli.places import DirectoryOptions, confirm_place

if TYPE_CHECKING:
    from coterie.agents.workspace.trees.worktree import WorkTree
    from coterie.execution.runs.repository import Elsewhere


def list_(as_json: AsJson = False, state_dir: StateDir = STATE_DIR) -> int:
    """List the work trees of runs in all known state directories."""
    trees = _trees(state_dir)
    found = [tree for _, tree in trees]
    if as_json:
        say_json(found)
    elif not found:
        complain(f"no run kept in {state_dir}, or in another known state directory, has a git work tree")
    for home, tree in [] if as_json else trees:
        say(f"{tree.run}  {_state(home, tree)}{' (removed)' if tree.removed else ''}  {tree.branch}  {tree.path}")
    return 0


def _state(home: Path, tree: "WorkTree") -> str:
    """Return the state of *tree*; until it has a recorded end, that of its run, as in `coterie runs`."""
    from contextlib import suppress

    from coterie.errors import CoterieError
    from coterie.execution.runs.repository import Runs

    if tree.status == "running":
        with suppress(OSError, CoterieError):
            return Runs(home).status(tree.run)
    return tree.status


def show(run: Run, as_json: AsJson = False, state_dir: StateDir = STATE_DIR) -> int:
    """Show the state of a run's work tree and what to do next."""
    from coterie.agents.workspace.trees.git import find
    from coterie.agents.workspace.trees.report import describe, lost_commits
    from coterie.execution.runs.stale_trees import is_cut_off

    home, tree = _tree(run, state_dir)
    lines = [f"run {tree.run}: {_state(home, tree)}", *describe(tree), *lost_commits(find(Path(tree.origin)), tree.run)]
    if tree.status == "running" and is_cut_off(home, tree):
        lines.append(f"no process drives it now; to continue: coterie resume {tree.run.partition('/')[0]}")
    print_result(as_json, tree, lambda: "\n".join(lines))
    return 0


def diff(run: Run, state_dir: StateDir = STATE_DIR) -> int:
    """Show the changes in a run's work tree as `git diff` does."""
    from coterie.agents.workspace.trees import report

    home, tree = _tree(run, state_dir)
    if shown := report.diff(home, tree):
        say(shown)
    return 0


def merge(
    run: Run,
    strategy: Annotated[
        str | None, Opt("--strategy S", "squash, merge or rebase; by default from the run's settings.")
    ] = None,
    take_settings: Annotated[
        bool, Opt("--take-settings", "Also take over changes of the files that shape this run or later ones.")
    ] = False,
    as_json: AsJson = False,
    *,
    place: DirectoryOptions,
) -> int:
    """Merge a run's work into the branch it started from, and remove its work tree if its settings require it.

    The exit status is 1 if it cannot be merged; then nothing changes, and the output says what to do.
    """
    from coterie.agents.workspace.trees import worktree
    from coterie.agents.workspace.trees.disposal import is_removal_due, remove_at_end
    from coterie.agents.workspace.trees.merge import STRATEGIES, merge_tree
    from coterie.agents.workspace.trees.report import describe, unsigned
    from coterie.errors import UsageError
    from coterie.execution.runs import stale_trees
    from coterie.execution.runs.tool_files import changed_tool_files

    if strategy is not None and strategy not in STRATEGIES:
        raise UsageError(f"--strategy {strategy!r} is not one of {', '.join(STRATEGIES)}")
    home, tree = _tree(run, place.path, confirm_place("merge"))
    _check_idle(home, tree)
    if not stale_trees.is_recorded(home, tree):
        raise UsageError(f"the journal of run {tree.run!r} does not say that its branch is {tree.branch!r}")
    for line in changed_tool_files(home, tree.run, tree, Path(tree.path)):
        complain(line)
    if tree.status != "merged":
        tree = merge_tree(home, tree, strategy or "", take_settings=take_settings, by_operator=True)
    lines = []
    if is_removal_due(tree):
        cleared = remove_at_end(home, tree)
        tree = worktree.read(home, tree.run) or tree
        lines = [f"the work tree stays: {cleared.problem}"] if cleared.problem else []
        lines += [f"these ignored files were removed with it: {cleared.ignored}"] if cleared.ignored else []
    lines += unsigned(tree)
    print_result(as_json, tree, lambda: "\n".join([f"run {tree.run}: {tree.status}", *describe(tree), *lines]))
    return int(tree.status != "merged")


def clean(
    run: Annotated[str | None, Arg("[RUN]", "The run; by default all that have ended.")] = None,
    as_json: AsJson = False,
    *,
    place: DirectoryOptions,
) -> int:
    """Remove the work trees of ended runs, and git's snapshots of deleted runs.

    Unmerged work is committed first, and its branch is kept. Without RUN: all runs kept here or in this repository.
    """
    from coterie.agents.workspace.trees.disposal import remove_files
    from coterie.agents.workspace.trees.leftovers import find_leftovers
    from coterie.execution.runs import index, stale_trees
    from coterie.execution.runs.authority import check_operator
    from coterie.history.views.words import plural

    state_dir = place.path
    if run is None:
        check_operator()
    if run is not None:
        home, tree = _tree(run, state_dir, confirm_place("clean"))
        _check_idle(home, tree)
        found = [(home, tree)]
    else:
        here, folder = {home.resolve() for home in index.homes(state_dir)}, Path.cwd()
        known = [(home, tree) for home, tree in _trees(state_dir) if stale_trees.is_over(home, tree)]
        found = [(home, tree) for home, tree in known if home in here or stale_trees.is_of(folder, home, tree)]
        for home, tree in [one for one in found if not one[1].removed and not one[1].leaving]:
            if obstacle := find_leftovers(tree).obstacle:
                complain(f"{tree.run}: {tree.path} stays: {obstacle}; coterie worktree clean {tree.run} removes it")
                found.remove((home, tree))
    left = [(home, tree) for home, tree in reversed(found) if not tree.removed]
    removed = [remove_files(home, tree, recorded=stale_trees.is_recorded(home, tree)) for home, tree in left]
    forgotten = stale_trees.delete_old_snapshots(Path.cwd(), state_dir) if run is None else 0
    if as_json:
        say_json({"removed": removed, "forgotten": forgotten})
        return 0
    for tree in removed:
        gone = tree.status in ("merged", "making")
        say(f"{tree.run}: removed {tree.path}" + ("" if gone else f"; kept {tree.branch}"))
    if forgotten:
        say(f"removed the snapshots of {plural(forgotten, 'deleted run')}")
    return 0


def _tree(run: str, state_dir: Path, elsewhere: "Elsewhere | None" = None) -> "tuple[Path, WorkTree]":
    """Return the state directory of *run*, and its work tree; *elsewhere* as for
    `coterie.execution.runs.repository.find`.

    Looks among the work trees, too: a run that was killed while its tree was created may have no journal.
    """
    from coterie.agents.workspace.trees import worktree
    from coterie.errors import NoSuchRun, UsageError
    from coterie.execution.runs import index
    from coterie.execution.runs.repository import find

    root, _, branch = run.partition("/")
    fitting = [(home, tree) for home, tree in _trees(state_dir) if tree.run == run]
    here = [one for one in fitting if one[0] in _homes(state_dir)]
    if len(here) == 1:
        return here[0]
    try:
        runs, found = find(root, state_dir, elsewhere)
    except NoSuchRun:
        if len(fitting) != 1:
            raise
        if elsewhere is not None:
            elsewhere(run, index.project_of(fitting[0][0]))
        return fitting[0]
    home, name = runs.root, f"{found}/{branch}" if branch else found
    tree = worktree.read(home, name)
    if tree is None:
        raise UsageError(f"run {name!r} has no git work tree; `coterie worktree list` shows which do")
    return home, tree


def _trees(state_dir: Path) -> "list[tuple[Path, WorkTree]]":
    """Return the work trees in all known state directories, including that of the project's settings."""
    from coterie.agents.workspace.trees.worktree import trees
    from coterie.execution.runs import index

    homes = dict.fromkeys([*index.state_dirs(state_dir), *_homes(state_dir)])
    return [(home, tree) for home in homes for tree in trees(home)]


def _homes(state_dir: Path) -> list[Path]:
    """Return the state directories of this directory: *state_dir*, and that of the project's settings."""
    from coterie.execution.runs import index
    from coterie.team.formats.settings import resolve

    project = index.project_of(state_dir)
    settings, _ = resolve(project, work_dir=project, env=os.environ)
    return [home.resolve() for home in (*index.homes(state_dir), project / settings.core.state_dir)]


def _check_idle(state_dir: Path, tree: "WorkTree") -> None:
    """Check that this process may change *tree*, and that no process works in it."""
    from coterie.errors import RunIsOwned
    from coterie.execution.runs.authority import check_operator
    from coterie.execution.runs.repository import Runs
    from coterie.history.journal.lock import is_held
    from coterie.history.journal.rules import root_of

    check_operator(Runs(state_dir), tree.run)
    lock = Runs(state_dir).folder(root_of(tree.run)) / "lock"
    if is_held(lock):
        raise RunIsOwned(tree.run, str(lock))
