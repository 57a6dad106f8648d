"""`coterie task …`: the tasks that a loop must finish before it completes."""

from typing import Annotated

from coterie.interfaces.cli.emit import OfRun, Target, Words, change, files_of
from coterie.interfaces.cli.options import STATE_DIR, AsJson, StateDir
from coterie.interfaces.cli.output import print_result
from coterie.interfaces.cli.parameters import Arg, Opt

Priority = Annotated[str | None, Opt("-p, --priority P", "high, normal or low.")]


def add(
    text: Words,
    priority: Priority = None,
    soft: Annotated[bool, Opt("--soft", "Let the loop complete without it.")] = False,
    run: OfRun = None,
    state_dir: StateDir = STATE_DIR,
) -> int:
    """Add a task. The run cannot complete until it is completed or removed."""
    note = {"do": "add", "text": " ".join(text), "soft": soft} | ({"priority": priority} if priority else {})
    return change("task", note, run, state_dir)


def complete(target: Target, run: OfRun = None, state_dir: StateDir = STATE_DIR) -> int:
    """Complete a task."""
    return change("task", {"do": "complete", "target": target}, run, state_dir)


def update(
    target: Target,
    text: Annotated[list[str] | None, Arg("[TEXT]", "The new text.")] = None,
    priority: Priority = None,
    run: OfRun = None,
    state_dir: StateDir = STATE_DIR,
) -> int:
    """Change the text or the priority of a task."""
    note = {"do": "update", "target": target} | ({"text": " ".join(text)} if text else {})
    return change("task", note | ({"priority": priority} if priority else {}), run, state_dir)


def remove(target: Target, run: OfRun = None, state_dir: StateDir = STATE_DIR) -> int:
    """Remove a task."""
    return change("task", {"do": "remove", "target": target}, run, state_dir)


def list_(run: OfRun = None, as_json: AsJson = False, state_dir: StateDir = STATE_DIR) -> int:
    """List the open and the completed tasks."""
    from coterie.agents.workspace.notes import Tasks

    found = Tasks.of(files_of("task", run, state_dir))
    print_result(as_json, [*found.open, *found.done], found.listing)
    return 0
