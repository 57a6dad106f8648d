"""Messages about invalid command lines: each says what is wrong, and a line to type."""

from collections.abc import Collection, Iterable

from coterie.base.diagnostics import did_you_mean, is_within_two_letters
from coterie.errors import UsageError
from coterie.interfaces.cli.named_command import NamedCommand
from coterie.interfaces.cli.parameters import Declaration

_ELSEWHERE = {
    **dict.fromkeys(("answer", "approve", "allow", "deny", "respond"), "control respond"),
    **dict.fromkeys(("cancel", "kill", "stop"), "control stop"),
    **dict.fromkeys(("continue", "unpause"), "resume"),
    **dict.fromkeys(("dashboard", "open", "top"), "ui"),
    **dict.fromkeys(("delete", "remove", "rm"), "runs rm"),
    **dict.fromkeys(("exec", "execute", "launch", "start"), "run"),
    **dict.fromkeys(("history", "list", "ls", "ps", "status"), "runs"),
    **dict.fromkeys(("retry", "restart"), "resume RUN --retry"),
    "attach": "watch",
    "cost": "inspect RUN cost",
    "draw": "graph",
    "format": "fmt",
    "guide": "control guide",
    "help": "--help",
    "interrupt": "control interrupt",
    "lint": "validate",
    "log": "logs",
    "new": "init",
    "prune": "runs prune",
    "rehearse": "run TARGET --rehearse",
    "rerun": "fork",
    "show": "inspect",
    "tail": "logs -f",
    "test": "simulate",
    "version": "--version",
    "worker": "serve",
}
"""Words that other programs have for a command."""
_OPTIONS = {
    **dict.fromkeys(("--budget", "--cost", "--limit"), "--max-cost"),
    **dict.fromkeys(("--dry-run", "--simulate", "--mock"), "--rehearse"),
    **dict.fromkeys(("--file", "--plan"), "--reload"),
    **dict.fromkeys(("--from", "--record", "--seq"), "--at"),
    **dict.fromkeys(("--param", "--params", "--var"), "--set"),
    **dict.fromkeys(("--no-confirm", "--force"), "--yes"),
    "--follow": "-f",
    "--max-iterations": "--add-iterations",
    "--out": "--output",
    "--parallel": "--max-parallel",
    "--turns": "--max-turns",
    "--watch": "-f",
}
"""Words that other programs have for an option."""


def unknown_command(command: NamedCommand, word: str) -> UsageError:
    """The error for *word*, an unknown command."""
    elsewhere = _ELSEWHERE.get(word, "") if command.name == "coterie" else ""
    own = f"did you mean `coterie {elsewhere}`?" if elsewhere else _closest(word, sorted(command.below))
    return UsageError(f"there is no command `{command.name} {word}`; {own or f'`{command.name} -h` lists them'}")


def unknown_option(command: NamedCommand, given: str) -> UsageError:
    """The error for *given*, an unknown option."""
    names = ["--help", *command.options]
    near = [
        name for name in names if len(given) > 4 and (name.startswith(given) or is_within_two_letters(given, [name]))
    ]
    meant = _OPTIONS[given] if _OPTIONS.get(given) in names else ""
    hint = f"did you mean {meant!r}?" if meant else did_you_mean(given, near)
    return UsageError(f"{command.name} has no option {given}; {hint or f'`{command.name} -h` lists its options'}")


def unusable_option(command: NamedCommand, one: Declaration) -> UsageError:
    """The error for an option without its value, or with one that it does not take."""
    if one.is_flag:
        return UsageError(f"{command.name}: {one.declared.text} takes no value; write {one.word} alone")
    return UsageError(f"{command.name}: {one.word} has no value; write {one.example}")


def missing(command: NamedCommand, one: Declaration) -> UsageError:
    """The error for a required parameter that is not given."""
    return UsageError(f"{command.name}: {one.example} is missing; write {command.usage}")


def extra(command: NamedCommand, words: Iterable[str]) -> UsageError:
    """The error for more words than arguments."""
    listed = ", ".join(map(repr, words))
    return UsageError(
        f"{command.name}: unexpected extra argument {listed}; write {command.usage}, and quote a value with blanks"
    )


def invalid(command: NamedCommand, one: Declaration, word: str, error: ValueError) -> UsageError:
    """The error for *word*, an invalid value of the parameter."""
    hint = _closest(word, one.choices) or f"write {one.example}"
    return UsageError(f"{command.name}: {one.word}: {error}; {hint}")


def _closest(word: str, known: Collection[str]) -> str:
    begins = [one for one in known if len(word) > 2 and one.startswith(word)]
    return did_you_mean(word, known) or (f"did you mean {begins[0]!r}?" if len(begins) == 1 else "")
