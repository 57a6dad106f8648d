"""The work trees of a wave's branches: who gets one, and what joining them says when it is asked again."""

from pathlib import Path

from msgspec.structs import replace
from repositories import git, put, repository

from coterie.agents.workspace.trees import worktree
from coterie.agents.workspace.trees.branches import changes_files, make_branch_tree, merge_branches
from coterie.agents.workspace.trees.git import require
from coterie.team.planning.plan import AgentPlan, Plan

OUTCOMES = {"x/wave-1.1#1.1": "completed", "x/wave-1.2#1.1": "failed", "x/wave-1.10#1.1": "failed"}


def parent(tmp_path: Path) -> tuple[Path, worktree.WorkTree]:
    """The state directory, and the work tree of the loop `x`."""
    origin = require(repository(tmp_path / "r"), "the test")
    state = tmp_path / "state"
    tree = worktree.new_tree(origin, state, "x", prefix="autoloop", base=origin.commit_of("HEAD"))
    return state, worktree.make(origin, state, tree)


def test_joining_again_after_a_crash_says_the_same(tmp_path: Path) -> None:
    """What a dead owner had done by then is not done again, and nothing it found is left out."""
    state, loop = parent(tmp_path)
    opened = {run: make_branch_tree(state, loop, run) for run in OUTCOMES}
    put(Path(opened["x/wave-1.1#1.1"].path), "one.txt", "1")
    put(Path(opened["x/wave-1.2#1.1"].path), "two.txt", "2")
    first = merge_branches(state, "x", 1, OUTCOMES.__getitem__)

    assert first is not None
    assert merge_branches(state, "x", 1, OUTCOMES.__getitem__) == first
    assert first.turns == ("wave-1.1#1", "wave-1.10#1")  # the last one had changed nothing
    assert [(one.turn, one.reason) for one in first.kept] == [("wave-1.2#1", "the branch did not complete")]
    assert git(Path(loop.path), "show", f"{first.kept[0].branch}:two.txt") == "2"
    assert sorted(path.name for path in Path(loop.path).iterdir()) == [".git", "a.txt", "one.txt"]
    assert merge_branches(state, "x", 2, OUTCOMES.__getitem__) is None


def test_a_branch_that_goes_on_has_its_tree_as_it_was(tmp_path: Path) -> None:
    """It begins with what the loop had not committed, and a resumed run finds it again."""
    state, loop = parent(tmp_path)
    put(Path(loop.path), "before.txt", "before")
    tree = make_branch_tree(state, loop, "x/wave-1.1#1.1")
    put(Path(tree.path), "half.txt", "half")

    assert (Path(tree.path) / "before.txt").read_text() == "before"
    assert make_branch_tree(state, loop, "x/wave-1.1#1.1") == tree
    assert (Path(tree.path) / "half.txt").exists()


def test_only_agents_that_change_files_get_one() -> None:
    """A model that answers, and a person, need none."""
    agents = {name: AgentPlan(name=name, backend=name) for name in ("model", "scripted")}
    agents["human"] = AgentPlan(name="human", kind="human", backend="human")
    team = AgentPlan(name="team", child=Plan(name="p", agents=agents, coordination=None))

    assert not any(map(changes_files, [team, *agents.values()]))
    for backend in ("command", "pi", "claude-sdk", "acp"):
        coder = AgentPlan(name="coder", backend=backend)
        assert changes_files(coder)
        assert changes_files(replace(team, child=Plan(name="p", agents={**agents, "coder": coder}, coordination=None)))
