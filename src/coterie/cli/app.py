"""The list of commands, and what they share: option groups, error messages and exit statuses.

The exit status gives the outcome: 0 completed, 1 failed or invalid, 2 usage, 3 stopped by a limit, 4 waiting for a
human, 130 interrupted.
"""

import contextlib
import functools
import importlib
import inspect
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from coterie.cli import argv, output
from coterie.cli.overview import overview
from coterie.cli.parameters import Arg, Command, Opt, bound, declarations, plain_call

if TYPE_CHECKING:  # loading it takes a third of what `topology validate FILE` takes
    import typer

T = TypeVar("T")

COMPLETE = "__complete"
"""The hidden command that shell completion scripts call with the words of the command line."""

COMMANDS: dict[str, str] = {
    "run": "run.run",
    "resume": "run.resume",
    "submit": "cluster.submit",
    "serve": "cluster.serve",
    "zmq-proxy": "zmq_proxy.zmq_proxy",
    "fork": "fork.fork",
    "replay": "run.replay",
    "simulate": "simulate.simulate",
    "inspect": "inspect.inspect",
    "logs": "logs.logs",
    "watch": "watch.watch",
    "attention": "attention.attention",
    "ui": "ui.ui",
    "stats": "inspect.stats",
    "emit": "emit.emit",
    "init": "init.init",
    "presets": "presets.presets",
    "mock-backend": "mock_backend.mock_backend",
    "doctor": "doctor.doctor",
    "explain": "explain.explain",
    "completion": "completion.completion",
}
"""The function of each command in `coterie.cli`. Only the module of the command that is called is loaded."""

GROUPS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "topology": (
        "Read a team's file without running anything.",
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
    "runs": (
        "",
        {
            "": "runs.list_",
            "overview": "runs.overview",
            "diff": "runs.diff",
            "rm": "runs.remove",
            "prune": "runs.prune",
        },
    ),
    "worktree": (
        "List, inspect, merge and remove the git work trees of runs.",
        {
            "list": "worktrees.list_",
            "show": "worktrees.show",
            "diff": "worktrees.diff",
            "merge": "worktrees.merge",
            "clean": "worktrees.clean",
        },
    ),
    "cluster": ("See and choose the releases of a cluster.", {"releases": "cluster.releases"}),
    "control": (
        "Control a run from another terminal.",
        {
            "respond": "control.respond",
            "guide": "control.guide",
            "interrupt": "control.interrupt",
            "stop": "control.stop",
        },
    ),
    "memory": (
        "Manage the memory of a loop.",
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
        "Manage the tasks of a loop.",
        {
            "add": "tasks.add",
            "complete": "tasks.complete",
            "update": "tasks.update",
            "remove": "tasks.remove",
            "list": "tasks.list_",
        },
    ),
    "state": (
        "Manage states and dead letters of agents; rebuild files.",
        {
            "list": "state.list_",
            "show": "state.show",
            "clear": "state.clear",
            "migrate": "state.migrate",
            "letters": "letters.letters",
            "rebuild": "state.rebuild",
        },
    ),
    "config": (
        "Show and change the settings of loops.",
        {
            "show": "config.show",
            "set": "config.set_",
            "unset": "config.unset",
            "path": "config.path",
        },
    ),
}
"""Groups of commands, each with its help text. The command without a name is called where the group is alone."""

SHORT_FORMS = ("validate", "check", "graph", "fmt", "diff")
"""Commands of `coterie topology` that need not name the group."""
COMMANDS |= {name: GROUPS["topology"][1][name] for name in SHORT_FORMS}

_CONTEXT = "context"


def main(arguments: Sequence[str]) -> int:
    """Run the command that *arguments* name and return the exit status; no exception leaves."""
    output.prepare()
    as_json = "--json" in arguments
    try:
        if "".join(arguments[:1]) == COMPLETE:
            from coterie.cli import completion

            return completion.answer(command(), arguments[1:])
        with output.say_waits(" ".join(arguments[:2])):
            if list(arguments) in ([], ["-h"], ["--help"]):
                (output.say if arguments else output.complain)(overview().rstrip("\n"))
                return 0 if arguments else 2
            parsed = argv.prepare(arguments)
            if (status := _plain(parsed)) is not None:
                return status
            wants_help = not {"-h", "--help"}.isdisjoint(parsed)
            return (
                command(parsed if wants_help else parsed[:2])(args=parsed, prog_name="coterie", standalone_mode=False)
                or 0
            )
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except KeyboardInterrupt:
        return 130
    except Exception as error:  # even a defect ends in a message, not in a traceback
        return _report(error, as_json=as_json)
    finally:
        output.finish()


def command(words: Sequence[str] = ()) -> Any:
    """Return the typer command; if *words* begin with the name of one of its commands, with that one alone."""
    import typer
    import typer.main

    def root(
        version: bool = typer.Option(False, "--version", is_eager=True, help="Print the version and exit."),
    ) -> None:
        """Run teams of AI agents that survive being killed."""
        if version:
            from coterie import __version__

            output.say(f"coterie {__version__}")
            raise typer.Exit

    first, second = (*words, "-", "-")[:2]
    called = _called(COMMANDS, first, GROUPS)
    app = _typer("Run teams of AI agents that survive being killed.", called, _fitting(words[1:]))
    app.callback()(root)
    for name, (about, commands) in _called(GROUPS, first, COMMANDS).items():
        about = about or str(inspect.getdoc(load(commands[""])))
        app.add_typer(_typer(about, _called(commands, second)), name=name)
    return typer.main.get_command(app)


def _called(known: Mapping[str, T], word: str, others: Mapping[str, Any] = {}) -> Mapping[str, T]:
    """Return the entry of *known* that *word* names; all of *known* if *others* does not contain *word* either."""
    if word in known:
        return {word: known[word]}
    return {} if word in others else known


def _plain(arguments: Sequence[str]) -> int | None:
    """Run the command that *arguments* name without the option parser, and return its status; None if it takes that."""
    first, second = (*arguments, "", "")[:2]
    commands = GROUPS[first][1] if first in GROUPS else COMMANDS
    name = second if first in GROUPS and second in commands else "" if first in GROUPS else first
    place = commands.get(name)
    if place is None:
        return None
    one = load(place)
    found = plain_call(one, arguments[1 + (first in GROUPS and bool(name)) :])
    return None if found is None else one(**found)


def _fitting(words: Sequence[str]) -> str:
    """The option group whose options fit the target that *words* name, for the help of `run`; empty: none does."""
    for word in words:
        if not word.startswith("-"):
            from coterie.cli.team_file import is_loop, is_preset

            with contextlib.suppress(Exception):  # a missing target is no reason to show no help
                if is_loop(Path(word)) or is_preset(word):
                    return "loop"
            return "system" if Path(word).name in ("topology.yaml", "topology.yml") else ""
    return ""


def _typer(about: str, commands: Mapping[str, str], fitting: str = "") -> "typer.Typer":
    import typer

    alone = "" in commands
    app = typer.Typer(
        help=about,
        no_args_is_help=not alone,
        invoke_without_command=alone,
        add_completion=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    for name, place in commands.items():
        if name:
            one = load(place)
            whole = str(inspect.getdoc(one)).splitlines()[0]  # a summary that click makes itself is cut
            app.command(name, short_help=whole)(_typer_command(one, fitting=fitting))
        else:
            app.callback()(_typer_command(load(place), is_group=True))
    return app


def load(place: str) -> Command:
    """Return the command at *place*, `module.function` in `coterie.cli`."""
    module, _, function = place.rpartition(".")
    found: Command = getattr(importlib.import_module(f"coterie.cli.{module}"), function)
    return found


def _typer_command(one: Command, *, is_group: bool = False, fitting: str = "") -> Callable[..., None]:
    """Return *one* for typer: the fields of its option groups are options, its result is the exit status.

    Args:
        is_group: Do nothing where a command of the group is called.
        fitting: The option group that comes first.
    """
    from inspect import Parameter, Signature

    import typer

    parameters = [Parameter(_CONTEXT, Parameter.KEYWORD_ONLY, annotation=typer.Context)] if is_group else []
    known = sorted(declarations(one), key=lambda each: isinstance(each.declared, Opt) and each.group != fitting)
    for each in known if fitting else declarations(one):
        make = typer.Argument if isinstance(each.declared, Arg) else typer.Option
        declared: Any = make(*each.declared.names, **each.declared.settings)
        annotation: Any = Annotated[each.kind, declared]
        parameters.append(Parameter(each.name, Parameter.KEYWORD_ONLY, default=each.default, annotation=annotation))

    @functools.wraps(one)
    def run(**options: Any) -> None:
        context: typer.Context | None = options.pop(_CONTEXT, None)
        if context is None or context.invoked_subcommand is None:
            raise typer.Exit(one(**bound(one, options)))

    vars(run)["__signature__"] = Signature(parameters)
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run


def _report(error: Exception, *, as_json: bool) -> int:
    """Print a message about *error*, or with *as_json* a document, and return the exit status."""
    from coterie.errors import TopologyError

    if isinstance(error, TopologyError):
        if as_json:
            output.say_json(error.to_dict())
        else:
            output.complain(str(error))
        return 1
    status, message = _explained(error)
    if as_json:
        output.say_json({"error": message, "exit": status})
    elif "\n" in message:  # the help of a group that was called without a command
        output.complain(message)
    else:
        output.complain(message if message.startswith("coterie ") else f"coterie: {message}")
    return status


def _explained(error: Exception) -> tuple[int, str]:
    """The exit status and the message of *error*."""
    from coterie.errors import CoterieError, ExtraMissing, UsageError
    from coterie.options.extras import extra_with
    from coterie.shortages import shortage

    status = 3 if shortage(error) else 1
    package = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    if extra := extra_with(package):
        error = ExtraMissing(extra, package, "this command")
    if isinstance(error, CoterieError):
        return 2 if isinstance(error, UsageError) else status, str(error)
    if isinstance(error, OSError):
        missing = "the current folder is gone" if isinstance(error, FileNotFoundError) else "system error"
        return status, f"{error.filename or missing}: {error.strerror or error}"
    if hasattr(error, "format_message"):  # from the option parser
        from coterie.cli.usage import explain_usage

        return 2, explain_usage(error, COMMANDS)
    if type(error).__name__ == "Abort":  # a question was left unanswered
        return 1, "nothing was done: the question was not answered"
    if os.environ.get("COTERIE_DEBUG"):
        sys.excepthook(type(error), error, error.__traceback__)
    return 1, (
        f"this is a bug in coterie: {type(error).__name__}: {error}; "
        "please report it with the traceback that COTERIE_DEBUG=1 prints"
    )
