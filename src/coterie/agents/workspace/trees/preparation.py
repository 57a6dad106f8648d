"""Prepare a new work tree for its agents: copy ignored files of the user's checkout, and run commands there."""

import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

from msgspec.structs import replace

from coterie.agents.backends.base import Failure, OwnRepository, Request, Session
from coterie.agents.workspace.trees import worktree
from coterie.agents.workspace.trees.git import in_thread, readable
from coterie.agents.workspace.trees.leftovers import find_leftovers
from coterie.agents.workspace.trees.worktree import WorkTree
from coterie.errors import UsageError
from coterie.history.journal.records import TreePrepared
from coterie.team.planning.plan import AgentPlan

Begin = Callable[[Request, Callable[[object], None]], Awaitable[Session]]
"""Starts an attempt, as `coterie.execution.kernel.turns.Turns.start`."""
MOST = 20_000
"""Characters of the commands' output that are kept."""
TIMEOUT = 3_600.0
"""Seconds that one of the commands may take."""


async def prepare(
    state_dir: Path, tree: WorkTree, repository: OwnRepository | None, begin: Begin
) -> tuple[WorkTree, TreePrepared]:
    """Prepare *tree*, whose agents have *repository*; a second call after a kill does all of it again.

    Returns:
        The tree, and what was done; with a problem, the tree is as little prepared as before.
    """
    try:
        copied = await in_thread(copy_files, Path(tree.origin), Path(tree.path), tree.copy, state_dir)
    except (UsageError, OSError, subprocess.CalledProcessError) as error:
        return tree, TreePrepared(run=tree.run, problem=f"worktree.copy: {error}")
    output = ""
    for argv in tree.setup:
        agent, cwd = setup_agent(argv, tree.sandbox), Path(tree.cwd)
        request = Request(run=tree.run, turn="setup", attempt=1, agent=agent, prompt="", cwd=cwd, repository=repository)
        result = await (await begin(request, lambda event: None)).result()
        output = (output + result.text)[-MOST:]
        if isinstance(result, Failure):
            problem = f"worktree.setup: {result.reason}"
            return tree, TreePrepared(
                run=tree.run, copied=copied, output=(output + result.log)[-MOST:], problem=problem
            )
    tree = worktree.write(state_dir, replace(await in_thread(as_prepared, tree), unprepared=False))
    return tree, TreePrepared(run=tree.run, copied=copied, output=output)


def setup_agent(argv: tuple[str, ...], sandbox: str) -> AgentPlan:
    """The agent whose attempt is the command *argv* of `worktree.setup`."""
    return AgentPlan(
        name="setup", kind="gate", backend="command", steps=(argv,), timeout=TIMEOUT, options={"sandbox": sandbox}
    )


def as_prepared(tree: WorkTree) -> WorkTree:
    """*tree*, in which no agent has worked, with the ignored files that it begins with."""
    return replace(tree, brought=tuple(name for name, _ in find_leftovers(tree).ignored))


def named_files(origin: Path, patterns: tuple[str, ...], *without: Path) -> Iterator[Path]:
    """The files and folders in *origin* that *patterns* name, but for those that contain one of *without*.

    Raises:
        UsageError: If a pattern leads out of *origin*.
    """
    kept = [path.resolve() for path in without]
    for pattern in patterns:
        if os.path.isabs(pattern) or ".." in Path(pattern).parts:
            raise UsageError(f"{pattern!r} leads out of {origin}: name files below it")
        for source in sorted(origin.glob(pattern)):
            if not any(path.is_relative_to(source.resolve()) for path in kept):
                yield source


def copy_files(origin: Path, top: Path, patterns: tuple[str, ...], *without: Path) -> tuple[str, ...]:
    """Copy what `named_files` finds to the tree *top*, unless that has it; returns what was copied.

    Raises:
        UsageError: If a pattern, or a link in the tree, leads elsewhere, or a file cannot be copied.
    """
    copied = list[str]()
    for source in named_files(origin, patterns, *without):
        target = top / source.relative_to(origin)
        if os.path.lexists(target):
            continue
        if not target.parent.resolve().is_relative_to(top.resolve()):
            raise UsageError(f"{target.parent} leads out of the tree: nothing is copied there")
        target.parent.mkdir(parents=True, exist_ok=True)
        clones = ("--reflink=auto",) if sys.platform == "linux" else ()
        part = target.with_name(f".{target.name}.coterie")
        subprocess.run(["rm", "-rf", str(part)], check=True)
        done = subprocess.run(["cp", "-a", *clones, str(source), str(part)], capture_output=True)
        if done.returncode:
            raise UsageError(f"{source} cannot be copied: {readable(done.stderr).strip() or done.returncode}")
        part.rename(target)
        copied.append(readable(str(source.relative_to(origin))))
    return tuple(copied)
