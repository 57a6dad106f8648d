"""Messages about command lines that the option parser refuses."""

import re
from collections.abc import Collection
from typing import Any

from coterie.diagnostics import did_you_mean, is_within_two_letters

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


_NUMBER = re.compile(r"is not a valid int( range)?\b")


def explain_usage(error: Any, words: Collection[str]) -> str:
    """Return what is wrong with a command line, and a line to type.

    Args:
        error: The exception of the option parser.
        words: The commands without a group.
    """
    kind, context = type(error).__name__, getattr(error, "ctx", None)
    message = _NUMBER.sub("is not a whole number", str(error.format_message()).rstrip("."))
    if kind == "BadOptionUsage":
        return f"option {error.option_name} has no value; write {error.option_name} VALUE"
    if context is None or kind == "NoArgsIsHelpError":
        return message[:1].lower() + message[1:] + "; `coterie --help` lists the commands" * (context is None)
    called, known = context.command_path, sorted(getattr(context.command, "commands", ()))
    usage = context.get_usage().removeprefix("Usage: ").replace("{", "").replace("}", "")
    if kind == "NoSuchOption":
        names = ["--help", *(name for one in context.command.params for name in one.opts)]
        given = error.option_name
        near = [
            name
            for name in names
            if len(given) > 4 and (name.startswith(given) or is_within_two_letters(given, [name]))
        ]
        meant = _OPTIONS[given] if _OPTIONS.get(given) in names else ""
        hint = f"did you mean {meant!r}?" if meant else did_you_mean(given, near) or f"`{called} -h` lists its options"
        return f"{called} has no option {given}; {hint}"
    parameter = getattr(error, "param", None)
    value = str(getattr(parameter, "metavar", None) or getattr(parameter, "name", ""))
    option = "" if parameter is None or parameter.param_type_name == "argument" else str(parameter.opts[0])
    if kind == "MissingParameter":
        return f"{called}: {f'{option} {value}'.strip()} is missing; write {usage}{f' {option} {value}' * bool(option)}"
    if option:
        choices = message.rpartition("is not one of ")[2].replace("'", "").split(", ")
        given = message.partition(": '")[2].partition("'")[0]
        hint = _closest(given, choices) or f"write {option} {value}"
        return f"{called}: {message[:1].lower()}{message[1:]}; {hint}"
    if "unexpected extra argument" in message:
        return f"{called}: {message[:1].lower()}{message[1:]}; write {usage}, and quote a value with blanks"
    if known and message.startswith("No such command '"):
        word = message.split("'")[1]
        elsewhere = _ELSEWHERE.get(word, word if word in words else "") if called == "coterie" else ""
        own = f"did you mean `coterie {elsewhere}`?" if elsewhere else _closest(word, known)
        return f"there is no command `{called} {word}`; {own or f'`{called} -h` lists them'}"
    return f"{called}: {message[:1].lower()}{message[1:]}; write {usage}, `{called} -h` explains it"


def _closest(word: str, known: Collection[str]) -> str:
    begins = [one for one in known if len(word) > 2 and one.startswith(word)]
    return did_you_mean(word, known) or (f"did you mean {begins[0]!r}?" if len(begins) == 1 else "")
