"""`coterie task …`: what a loop has to do before it completes."""

from typing import Annotated

import typer

from coterie.cli.emit import OfRun, Target, Words, change, files_of
from coterie.cli.options import STATE_DIR, StateDir
from coterie.cli.output import say

Priority = Annotated[str | None, typer.Option("--priority", "-p", metavar="P", help="high, normal or low.")]


def add(
    text: Words,
    priority: Priority = None,
    soft: Annotated[bool, typer.Option("--soft", help="It keeps no loop from completing.")] = False,
    run: OfRun = None,
    state_dir: StateDir = STATE_DIR,
) -> int:
    """Add a task; until it is done, or removed, the run does not complete."""
    note = {"do": "add", "text": " ".join(text), "soft": soft} | ({"priority": priority} if priority else {})
    return change("task", note, run, state_dir)


def complete(target: Target, run: OfRun = None, state_dir: StateDir = STATE_DIR) -> int:
    """Say that a task is done."""
    return change("task", {"do": "complete", "target": target}, run, state_dir)


def update(
    target: Target,
    text: Annotated[list[str] | None, typer.Argument(metavar="[TEXT]", help="What it says from now on.")] = None,
    priority: Priority = None,
    run: OfRun = None,
    state_dir: StateDir = STATE_DIR,
) -> int:
    """Change what a task says, or how much it presses."""
    note = {"do": "update", "target": target} | ({"text": " ".join(text)} if text else {})
    return change("task", note | ({"priority": priority} if priority else {}), run, state_dir)


def remove(target: Target, run: OfRun = None, state_dir: StateDir = STATE_DIR) -> int:
    """Take a task away."""
    return change("task", {"do": "remove", "target": target}, run, state_dir)


def list_(run: OfRun = None, state_dir: StateDir = STATE_DIR) -> int:
    """Show the tasks."""
    from coterie.runs.notes import Tasks

    say(Tasks.of(files_of("task", run, state_dir)).listing())
    return 0
