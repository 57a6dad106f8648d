"""The list of commands, and what every command has in common: how errors are told and what the exit status says.

The exit status says the outcome: 0 completed, 1 failed or invalid, 2 usage, 3 stopped by a limit, 4 waiting for a
human, 130 interrupted.
"""

import functools
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import typer
import typer.main

from coterie.cli import (
    argv,
    checking,
    comparing,
    completing,
    configuring,
    control,
    doctoring,
    drawing,
    editing,
    following,
    forking,
    formatting,
    looking,
    memory,
    mocking,
    output,
    presets,
    rebuilding,
    running,
    saying,
    simulating,
    starting,
    tasks,
    topology,
    worktrees,
)

Command = Callable[..., int]

COMMANDS: tuple[Command, ...] = (
    running.run,
    running.resume,
    forking.fork,
    running.replay,
    simulating.simulate,
    looking.runs,
    looking.inspect,
    following.watch,
    looking.stats,
    saying.emit,
    starting.init,
    presets.presets,
    mocking.mock_backend,
    doctoring.doctor,
    completing.completion,
)
GROUPS: tuple[tuple[str, str, tuple[Command, ...]], ...] = (
    (
        "topology",
        "Read a team's file; nothing is run.",
        (topology.validate, topology.show, checking.check, formatting.fmt, comparing.diff, drawing.graph, editing.lsp),
    ),
    (
        "worktree",
        "The git work trees of runs: where they are, and bringing their work back.",
        (worktrees.list_, worktrees.show, worktrees.diff, worktrees.merge, worktrees.clean),
    ),
    ("control", "Speak to a run from another terminal.", (control.respond, control.guide, control.interrupt)),
    (
        "memory",
        "What a loop remembers.",
        (memory.add, memory.list_, memory.find, memory.remove, memory.compact, memory.prune, memory.promote),
    ),
    ("task", "What a loop has to do.", (tasks.add, tasks.complete, tasks.update, tasks.remove, tasks.list_)),
    (
        "state",
        "What is told from the journals of runs.",
        (rebuilding.rebuild,),
    ),
    (
        "config",
        "The settings of a loop, and where each came from.",
        (configuring.show, configuring.set_, configuring.unset, configuring.path),
    ),
)


def main(arguments: Sequence[str]) -> int:
    """Run the command that *arguments* name and return the exit status; no exception leaves."""
    output.prepare()
    try:
        if arguments and arguments[0] == completing.WORD:
            return completing.answer(command(), arguments[1:])
        command()(args=argv.prepare(arguments), prog_name="coterie")
    except SystemExit as end:
        return _status(end)
    except KeyboardInterrupt:
        return 130
    except Exception as error:  # the last resort: whatever a defect raised becomes a message
        return _tell(error)
    finally:
        output.finish()
    return 0


def command() -> Any:
    """The command line as typer's own command, for `main` and the reference page."""
    app = _typer("Run teams of AI agents: check them, run them, kill them, carry on.", COMMANDS)
    app.callback()(_root)
    for name, about, commands in GROUPS:
        app.add_typer(_typer(about, commands), name=name)
    return typer.main.get_command(app)


def _root(
    version: bool = typer.Option(False, "--version", is_eager=True, help="Print the version and exit."),
) -> None:
    """Run teams of AI agents: check them, run them, kill them, carry on."""
    if version:
        from coterie import __version__

        output.say(f"coterie {__version__}")
        raise typer.Exit


def _typer(about: str, commands: Sequence[Command]) -> typer.Typer:
    app = typer.Typer(help=about, no_args_is_help=True, add_completion=False, rich_markup_mode=None)
    for one in commands:
        app.command()(_exits(one))
    return app


def _exits(one: Command) -> Callable[..., None]:
    """*one* as typer wants it: the status it returns is the exit status."""

    @functools.wraps(one)
    def run(*args: Any, **options: Any) -> None:
        raise typer.Exit(one(*args, **options))

    return run


def _status(end: SystemExit) -> int:
    return end.code if isinstance(end.code, int) else int(end.code is not None)


def _tell(error: Exception) -> int:
    """Say what went wrong, for people, and return the exit status."""
    from coterie.errors import CoterieError, TopologyError, UsageError

    if isinstance(error, TopologyError):
        output.complain(str(error))
        return 1
    if isinstance(error, CoterieError):
        output.complain(f"coterie: {error}")
        return 2 if isinstance(error, UsageError) else 1
    if isinstance(error, OSError):
        missing = "the current folder is gone" if isinstance(error, FileNotFoundError) else "the system"
        output.complain(f"coterie: {error.filename or missing}: {error.strerror or error}")
        return 1
    if os.environ.get("COTERIE_DEBUG"):
        sys.excepthook(type(error), error, error.__traceback__)
    output.complain(
        f"coterie: this is a defect of coterie: {type(error).__name__}: {error}; "
        "please report it, with what COTERIE_DEBUG=1 shows"
    )
    return 1
