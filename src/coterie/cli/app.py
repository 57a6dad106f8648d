"""The list of commands, and what every command has in common: how errors are told and what the exit status says.

The exit status says the outcome: 0 completed, 1 failed or invalid, 2 usage, 3 stopped by a limit, 4 waiting for a
human, 130 interrupted.
"""

import functools
import importlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from coterie.cli import argv, output

if TYPE_CHECKING:  # loading it takes a third of what `topology validate FILE` takes
    import typer

Command = Callable[..., int]
T = TypeVar("T")

COMPLETE = "__complete"
"""What the scripts for shells call, with the words there are."""

COMMANDS: Mapping[str, str] = {
    "run": "run.run",
    "resume": "run.resume",
    "fork": "fork.fork",
    "replay": "run.replay",
    "simulate": "simulate.simulate",
    "runs": "inspect.runs",
    "inspect": "inspect.inspect",
    "watch": "watch.watch",
    "stats": "inspect.stats",
    "emit": "emit.emit",
    "init": "init.init",
    "presets": "presets.presets",
    "mock-backend": "mock_backend.mock_backend",
    "doctor": "doctor.doctor",
    "completion": "completion.completion",
}
"""Where in `coterie.cli` each command is: only the module of the one that is called is loaded."""

GROUPS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "topology": (
        "Read a team's file; nothing is run.",
        {
            "validate": "topology.validate",
            "show": "topology.show",
            "check": "check.check",
            "fmt": "fmt.fmt",
            "diff": "diff.diff",
            "graph": "graph.graph",
            "schema": "topology.schema",
            "lsp": "lsp.lsp",
        },
    ),
    "worktree": (
        "The git work trees of runs: where they are, and bringing their work back.",
        {
            "list": "worktrees.list_",
            "show": "worktrees.show",
            "diff": "worktrees.diff",
            "merge": "worktrees.merge",
            "clean": "worktrees.clean",
        },
    ),
    "control": (
        "Speak to a run from another terminal.",
        {"respond": "control.respond", "guide": "control.guide", "interrupt": "control.interrupt"},
    ),
    "memory": (
        "What a loop remembers.",
        {
            "add": "memory.add",
            "list": "memory.list_",
            "find": "memory.find",
            "remove": "memory.remove",
            "compact": "memory.compact",
            "prune": "memory.prune",
            "promote": "memory.promote",
        },
    ),
    "task": (
        "What a loop has to do.",
        {
            "add": "tasks.add",
            "complete": "tasks.complete",
            "update": "tasks.update",
            "remove": "tasks.remove",
            "list": "tasks.list_",
        },
    ),
    "state": ("What is told from the journals of runs.", {"rebuild": "state.rebuild"}),
    "config": (
        "The settings of a loop, and where each came from.",
        {
            "show": "config.show",
            "set": "config.set_",
            "unset": "config.unset",
            "path": "config.path",
        },
    ),
}
"""The commands that have a word in common, each group with what it is for."""

PLAIN: Mapping[tuple[str, ...], str] = {("topology", "validate"): "validate.validate"}
"""Commands that are given files, and mostly nothing else: called so, they do not wait for the parser of options."""


def main(arguments: Sequence[str]) -> int:
    """Run the command that *arguments* name and return the exit status; no exception leaves."""
    output.prepare()
    try:
        if "".join(arguments[:1]) == COMPLETE:
            from coterie.cli import completion

            return completion.answer(command(), arguments[1:])
        if (status := _plain(arguments)) is not None:
            return status
        command(arguments[:2])(args=argv.prepare(arguments), prog_name="coterie")
    except SystemExit as end:
        return _status(end)
    except KeyboardInterrupt:
        return 130
    except Exception as error:  # the last resort: whatever a defect raised becomes a message
        return _tell(error)
    finally:
        output.finish()
    return 0


def command(words: Sequence[str] = ()) -> Any:
    """The command line as typer's own command; where *words* begin with one of its commands, only that."""
    import typer
    import typer.main

    def root(
        version: bool = typer.Option(False, "--version", is_eager=True, help="Print the version and exit."),
    ) -> None:
        """Run teams of AI agents: check them, run them, kill them, carry on."""
        if version:
            from coterie import __version__

            output.say(f"coterie {__version__}")
            raise typer.Exit

    first, second = (*words, "", "")[:2]
    app = _typer("Run teams of AI agents: check them, run them, kill them, carry on.", _called(COMMANDS, first, GROUPS))
    app.callback()(root)
    for name, (about, commands) in _called(GROUPS, first, COMMANDS).items():
        app.add_typer(_typer(about, _called(commands, second)), name=name)
    return typer.main.get_command(app)


def _called(known: Mapping[str, T], word: str, others: Mapping[str, Any] = {}) -> Mapping[str, T]:
    """What of *known* is needed to answer *word*: that one; all, when neither it nor *others* have one so called."""
    if word in known:
        return {word: known[word]}
    return {} if word in others else known


def _plain(arguments: Sequence[str]) -> int | None:
    """The status of a plain command, called with nothing but files; None where *arguments* are something else."""
    place, files = PLAIN.get(tuple(arguments[:2])), arguments[2:]
    if place is None or not files or any(word.startswith("-") for word in files):
        return None
    return load(place)([Path(word) for word in files])


def _typer(about: str, commands: Mapping[str, str]) -> "typer.Typer":
    import typer

    app = typer.Typer(help=about, no_args_is_help=True, add_completion=False, rich_markup_mode=None)
    for name, place in commands.items():
        app.command(name)(_exits(load(place)))
    return app


def load(place: str) -> Command:
    """The command at *place*, `module.function` in `coterie.cli`."""
    module, _, function = place.rpartition(".")
    found: Command = getattr(importlib.import_module(f"coterie.cli.{module}"), function)
    return found


def _exits(one: Command) -> Callable[..., None]:
    """*one* as typer wants it: the status it returns is the exit status."""
    import typer

    @functools.wraps(one)
    def run(*args: Any, **options: Any) -> None:
        raise typer.Exit(one(*args, **options))

    return run


def _status(end: SystemExit) -> int:
    return end.code if isinstance(end.code, int) else int(end.code is not None)


def _tell(error: Exception) -> int:
    """Say what went wrong, for people, and return the exit status."""
    from coterie.errors import CoterieError, TopologyError, UsageError, shortage

    status = 3 if shortage(error) else 1

    if isinstance(error, TopologyError):
        output.complain(str(error))
        return 1
    if isinstance(error, CoterieError):
        output.complain(f"coterie: {error}")
        return 2 if isinstance(error, UsageError) else status
    if isinstance(error, OSError):
        missing = "the current folder is gone" if isinstance(error, FileNotFoundError) else "the system"
        output.complain(f"coterie: {error.filename or missing}: {error.strerror or error}")
        return status
    if os.environ.get("COTERIE_DEBUG"):
        sys.excepthook(type(error), error, error.__traceback__)
    output.complain(
        f"coterie: this is a defect of coterie: {type(error).__name__}: {error}; "
        "please report it, with what COTERIE_DEBUG=1 shows"
    )
    return 1
