"""Messages about command lines that the option parser refuses."""

from collections.abc import Collection
from typing import Any

from coterie.diagnostics import did_you_mean

_ELSEWHERE = {
    "answer": "attention",
    "cancel": "control stop",
    "dashboard": "watch",
    "draw": "graph",
    "format": "fmt",
    "help": "--help",
    "kill": "control stop",
    "lint": "validate",
    "list": "runs",
    "log": "logs",
    "ls": "runs",
    "new": "init",
    "ps": "runs",
    "respond": "control respond",
    "rm": "runs rm",
    "show": "inspect",
    "start": "run",
    "status": "runs",
    "stop": "control stop",
    "tail": "logs -f",
    "test": "simulate",
    "version": "--version",
    "worker": "serve",
}
"""Words that other programs have for a command."""


def explain_usage(error: Any, words: Collection[str]) -> str:
    """Return what is wrong with a command line, and a line to type.

    Args:
        error: The exception of the option parser.
        words: The commands without a group.
    """
    kind, context = type(error).__name__, getattr(error, "ctx", None)
    message = str(error.format_message()).rstrip(".")
    if context is None or kind == "NoArgsIsHelpError":
        return message[:1].lower() + message[1:] + "; `coterie --help` lists the commands" * (context is None)
    called, known = context.command_path, sorted(getattr(context.command, "commands", ()))
    usage = context.get_usage().removeprefix("Usage: ").replace("{", "").replace("}", "")
    if kind == "NoSuchOption":
        names = [name for one in context.command.params for name in one.opts if name.startswith("--")]
        hint = _closest(error.option_name, names) or f"`{called} -h` lists its options"
        return f"{called} has no option {error.option_name}; {hint}"
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
