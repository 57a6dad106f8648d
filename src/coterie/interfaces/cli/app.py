"""Run the command that a command line names: what all commands share, error messages and exit statuses.

The exit status gives the outcome: 0 completed, 1 failed or invalid, 2 usage, 3 stopped by a limit, 4 waiting for a
human, 130 interrupted.
"""

import os
import sys
from collections.abc import Sequence

from coterie.interfaces.cli import output
from coterie.interfaces.cli.overview import overview
from coterie.interfaces.cli.parameters import HELP, bound

COMPLETE = "__complete"
"""The hidden command that shell completion scripts call with the words of the command line."""


def main(arguments: Sequence[str]) -> int:
    """Run the command that *arguments* name and return the exit status; no exception leaves."""
    output.prepare()
    as_json = "--json" in arguments
    try:
        if "".join(arguments[:1]) == COMPLETE:
            from coterie.interfaces.cli import completion

            return completion.answer(arguments[1:])
        with output.say_waits(" ".join(arguments[:2])):
            return _run(arguments)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except KeyboardInterrupt:
        return 130
    except Exception as error:  # even a defect ends in a message, not in a traceback
        return _report(error, as_json=as_json)
    finally:
        output.finish()


def _run(words: Sequence[str]) -> int:
    """Run the command that *words* name, and return its status."""
    first = words[0] if words else ""
    if not words or first in HELP:
        (output.say if words else output.complain)(overview().rstrip("\n"))
        return 0 if words else 2
    if first == "--version":
        from coterie.base.version import __version__

        output.say(f"coterie {__version__}")
        return 0
    from coterie.interfaces.cli.named_command import find_command
    from coterie.interfaces.cli.parser import parse

    command, rest = find_command(words)
    if command.below and rest and not rest[0].startswith("-"):
        from coterie.interfaces.cli.usage import unknown_command

        raise unknown_command(command, rest[0])
    values = parse(command, rest)
    if command.function is None:
        from coterie.interfaces.cli.help import help_text

        output.complain(help_text(command, ()))
        return 2
    return command.function(**bound(command.function, values))


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
    else:
        output.complain(message if message.startswith("coterie ") else f"coterie: {message}")
    return status


def _explained(error: Exception) -> tuple[int, str]:
    """The exit status and the message of *error*."""
    from coterie.base.shortages import shortage
    from coterie.errors import CoterieError, ExtraMissing, UsageError
    from coterie.team.options.extras import extra_with

    status = 3 if shortage(error) else 1
    package = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    if extra := extra_with(package):
        error = ExtraMissing(extra, package, "this command")
    if isinstance(error, CoterieError):
        return 2 if isinstance(error, UsageError) else status, str(error)
    if isinstance(error, OSError):
        missing = "the current folder is gone" if isinstance(error, FileNotFoundError) else "system error"
        return status, f"{error.filename or missing}: {error.strerror or error}"
    if os.environ.get("COTERIE_DEBUG"):
        sys.excepthook(type(error), error, error.__traceback__)
    return 1, (
        f"this is a bug in coterie: {type(error).__name__}: {error}; "
        "please report it with the traceback that COTERIE_DEBUG=1 prints"
    )
