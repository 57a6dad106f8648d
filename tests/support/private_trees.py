"""Work trees whose agents have a private repository, and agents that call git there."""

from pathlib import Path

from msgspec.structs import replace
from repositories import git, put

from coterie.agents.workspace.trees import private, worktree
from coterie.agents.workspace.trees.git import require
from coterie.agents.workspace.trees.worktree import WorkTree


def opened(folder: Path, state: Path, **other: object) -> WorkTree:
    """A work tree of a run of *folder*, in which an agent can begin to work."""
    origin = require(folder, "the test")
    tree = worktree.new_tree(origin, state, "x", prefix="autoloop", base=origin.commit_of("HEAD"))
    tree = worktree.make(origin, state, replace(tree, **other))
    private.enter(tree)
    return tree


def agent(tree: WorkTree, *words: str) -> str:
    """What git says to an agent in *tree*."""
    return git(Path(tree.path), f"--git-dir={private.folder_of(tree)}", f"--work-tree={tree.path}", *words)


def committed(tree: WorkTree, message: str, **names: str) -> str:
    """Let an agent commit files; returns the commit."""
    for name, text in names.items():
        put(Path(tree.path), name.replace("__", "."), text)
    agent(tree, "add", "--all")
    agent(tree, "commit", "--quiet", "--allow-empty", "--message", message)
    return agent(tree, "rev-parse", "HEAD")


def kept(folder: Path, *refs: str) -> set[str]:
    return set(git(folder, "for-each-ref", "--format=%(objectname)", *refs).split())
