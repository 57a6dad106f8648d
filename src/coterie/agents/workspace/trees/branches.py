"""The work trees below that of a run: those of a wave's branches, and of turns whose agents have `isolation: worktree`.

Each begins with the files of the run above it. The branches of a wave are merged in their order when it is joined, the
work of a turn at its end. Work that conflicts, and that of a branch or turn that failed, stays in its tree and is
reported.
"""

import re
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from coterie.agents.workspace.trees import worktree
from coterie.agents.workspace.trees.confinement import guards_of, strictest_sandbox
from coterie.agents.workspace.trees.disposal import remove_tree
from coterie.agents.workspace.trees.leftovers import find_leftovers
from coterie.agents.workspace.trees.merge import commit_all, merge_tree
from coterie.agents.workspace.trees.worktree import WorkTree
from coterie.errors import UsageError
from coterie.history.journal.records import KeptTree, TreesJoined
from coterie.team.planning.place import RunPlace
from coterie.team.planning.plan import AgentPlan, Plan

_WITHOUT_FILES = ("human", "model", "scripted", "")
"""Backends that cannot change files."""


_OF_WAVE = re.compile(r"wave-\d+\.\d+#")


def changes_files(agent: AgentPlan) -> bool:
    """Whether *agent*, or one of its team, may change files."""
    if agent.child is not None:
        return any(map(changes_files, agent.child.agents.values()))
    return agent.kind != "human" and agent.backend not in _WITHOUT_FILES


def isolates(plan: Plan) -> bool:
    """Whether turns of *plan*, or of a team in it, have separate work trees."""
    return any(agent.isolation or (agent.child and isolates(agent.child)) for agent in plan.agents.values())


def make_branch_tree(state_dir: Path, parent: WorkTree, run: str) -> WorkTree:
    """Make the work tree of *run*, a branch of a wave, unless it exists.

    It begins with the files of *parent*, where all changes are committed first.

    Raises:
        GitFailed, UsageError: If git cannot.
    """
    repository = worktree.repository_of(parent)
    if repository is None:
        raise UsageError(f"a branch of {parent.run} needs its work tree, and {parent.path} is gone")
    if (known := _known(state_dir, run)) is not None:
        return worktree.make(repository, state_dir, known)
    base = commit_all(parent, state_dir, f"Work of run {parent.run} before {run.rpartition('/')[2]}\n")
    tree = worktree.new_tree(repository, state_dir, run, prefix="", base=base)
    tree = replace(tree, copy=parent.copy, setup=parent.setup, sandbox=parent.sandbox)
    name = f"{parent.branch}.{_named(run.rpartition('/')[2])}"
    return worktree.make(repository, state_dir, replace(tree, branch=name, strategy="squash", guards=parent.guards))


def make_turn_tree(state_dir: Path, folder: Path, plan: Plan, turn: str, place: RunPlace) -> WorkTree:
    """Make the work tree of *turn*, in a run of *plan* that works in *folder* of the user's checkout.

    It begins at the commit that is checked out there, and is as *place* says.

    Raises:
        GitFailed, UsageError: If git cannot.
    """
    origin = worktree.needed(folder, "isolation: worktree")
    if (known := _known(state_dir, turn)) is not None:
        return worktree.make(origin, state_dir, known)
    tree = worktree.new_tree(origin, state_dir, turn, prefix="", base=origin.commit_of("HEAD"))
    tree = replace(tree, branch=f"{place.branch_prefix}/{_named(turn)}", copy=place.copy, setup=place.setup)
    tree = replace(tree, guards=guards_of(plan, tree), sandbox=strictest_sandbox(plan))
    return worktree.make(origin, state_dir, tree)


def _known(state_dir: Path, place: str) -> WorkTree | None:
    """The work tree that *place* has already; None: it gets a new one.

    In one that was merged and is still there, work goes on after the commit that was merged.
    """
    known = worktree.read(state_dir, place)
    if known is None or known.status != "merged":
        return known
    own = worktree.repository_of(known)
    if own is None or known.leaving:
        worktree.folder(state_dir, place).joinpath(worktree.META).unlink()
        return None
    tip = own.commit_of(f"refs/heads/{known.branch}")
    return worktree.write(state_dir, replace(known, status="running", base=tip, since="", commit=""))


def _named(place: str) -> str:
    """*place* as a component of the name of a branch."""
    return re.sub(r"[^\w.-]+", ".", place).strip(".")


def merge_turn(state_dir: Path, tree: WorkTree) -> WorkTree:
    """*tree*, that of a turn, after its work was merged, perhaps by a person meanwhile; then its files are removed.

    Raises:
        GitFailed: If git cannot.
    """
    tree = worktree.read(state_dir, tree.run) or tree
    if tree.status != "merged":
        tree = merge_tree(state_dir, tree)
    return _cleared(state_dir, tree)


def _cleared(state_dir: Path, tree: WorkTree) -> WorkTree:
    """*tree* without its files, if it is merged and they hold nothing else."""
    if tree.status != "merged" or tree.removed or (not tree.leaving and find_leftovers(tree).obstacle):
        return tree
    return remove_tree(state_dir, tree, branch=True)


def why_unmerged(state_dir: Path, tree: WorkTree) -> str:
    """Why the work of a turn in *tree* is not merged, and what its agent can do about it; empty if it is."""
    if tree.status == "merged":
        return ""
    if tree.status != "conflict" or (origin := worktree.origin_of(state_dir, tree)) is None:
        return tree.reason
    into = origin.commit_of(f"refs/heads/{tree.base_branch}" if tree.base_branch else "HEAD")
    return f"{tree.reason} ({', '.join(tree.files)}): `git merge {into}`, solve the conflicts, and commit"


def end_turns(state_dir: Path, run: str) -> TreesJoined | None:
    """Commit what is left in the work trees of turns of *run*, whose turns did not complete; None if nothing is.

    Raises:
        GitFailed: If git cannot.
    """
    kept = list[KeptTree]()
    for tree in list(worktree.trees_below(worktree.folder(state_dir, run))):
        name = tree.run.removeprefix(f"{run}/")
        if not _OF_WAVE.match(name.rpartition("/")[2]) and not tree.removed and tree.status != "merged":
            _settle(state_dir, tree, name, kept, completed=False)
    return TreesJoined(kept=tuple(kept)) if kept else None


def merge_branches(state_dir: Path, run: str, wave: int, outcome: Callable[[str], str]) -> TreesJoined | None:
    """Merge the work of the branches of a *wave* of *run*; None if they have no work trees.

    A call after a crash has the same result.

    Args:
        outcome: Gives the status of a child run; only the work of those that `completed` is merged.

    Raises:
        GitFailed: If git cannot.
    """
    kept, merged = list[KeptTree](), list[str]()
    for tree in _trees(state_dir, run, wave):
        name = tree.run.rpartition("/")[2].rpartition(".")[0]
        completed = tree.status == "running" and outcome(tree.run) == "completed"
        if _settle(state_dir, tree, name, kept, completed=completed):
            merged.append(name)
    return TreesJoined(turns=tuple(merged), kept=tuple(kept)) if merged or kept else None


def _settle(state_dir: Path, tree: WorkTree, name: str, kept: list[KeptTree], *, completed: bool) -> bool:
    """Merge *tree*, or add it to those that are *kept*; returns whether work of an agent is merged."""
    if tree.status == "making":  # git could not make it, so no agent has worked in it
        remove_tree(state_dir, tree, branch=True)
        return False
    if tree.status == "running":
        tree = _merged(state_dir, tree, completed=completed)
    if tree.status == "merged":
        _cleared(state_dir, tree)
        return True
    kept.append(KeptTree(turn=name, path=tree.path, branch=tree.branch, reason=tree.reason, files=tree.files))
    return False


def _merged(state_dir: Path, tree: WorkTree, *, completed: bool) -> WorkTree:
    """*tree* after its work was merged, or was kept because its branch or turn did not complete."""
    if completed:
        return merge_tree(state_dir, tree)
    tip = commit_all(tree, state_dir, f"Work of {tree.run}, which did not complete\n")
    if tip == tree.base:
        return worktree.write(state_dir, replace(tree, status="merged"))
    what = "branch" if _OF_WAVE.match(tree.run.rpartition("/")[2]) else "turn"
    return worktree.write(state_dir, replace(tree, status="failed", reason=f"the {what} did not complete"))


def _trees(state_dir: Path, run: str, wave: int) -> list[WorkTree]:
    """The work trees of the branches of a wave, in the order of the branches."""
    home, branch = worktree.folder(state_dir, run), re.compile(rf"wave-{wave}\.(\d+)#")
    found = [(int(match[1]), path.name) for path in home.iterdir() if (match := branch.match(path.name))]
    trees = [worktree.read(state_dir, f"{run}/{name}") for _, name in sorted(found)]
    return [tree for tree in trees if tree is not None]
