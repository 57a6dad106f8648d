"""Parse the arguments of `emit`, `memory` and `task` commands into messages to the run.

Only commands that change something become messages; others, such as lists and help, are left to the command line.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as in `typing`, whose import costs as much as all else here
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

Options = dict[str, str]
"""Each option's kind: `flag`, `one` value, or `many`."""

_GRAMMAR: dict[tuple[str, ...], Options] = {
    ("emit",): {"--output": "many", "--id": "one"},
    ("memory", "add", "learning"): {"--project": "flag", "--source": "one"},
    ("memory", "add", "preference"): {"--category": "one"},
    ("memory", "add", "meta"): {"--project": "flag"},
    ("memory", "remove"): {"--reason": "one"},
    ("memory", "compact"): {},
    ("memory", "prune"): {"--max-age": "one"},
    ("memory", "promote"): {},
    ("task", "add"): {"-p": "one", "--priority": "one", "--soft": "flag"},
    ("task", "complete"): {},
    ("task", "update"): {"-p": "one", "--priority": "one"},
    ("task", "remove"): {},
}
_OF_EMIT: Options = {"--run": "one", "--state-dir": "one"}
"""Further options of `emit`, which are left to the command line."""


class Misused(ValueError):
    """The arguments are not a valid command; the message names a valid one."""


def message_of(words: Sequence[str]) -> dict[str, Any] | None:
    """The message for a command line, with `id` if it names one; None for another command.

    Raises:
        Misused: If a value is missing or invalid.
    """
    for command, options in _GRAMMAR.items():
        if tuple(words[: len(command)]) == command:
            parsed = _parse(words[len(command) :], options, payload=command == ("emit",))
            return None if parsed is None else _meaning(command, *parsed)
    return None


def named(word: str) -> tuple[str, Any]:
    """Parse *word* as a named value: `name=text` is a text, `name:=JSON` is JSON.

    Raises:
        Misused: If it is neither.
    """
    import json

    name, equals, value = word.partition("=")
    is_json = name.endswith(":")
    name = name.removesuffix(":")
    if not equals or not name:
        raise Misused(f"{word!r} is not a named value; write name=text, or name:=JSON for a number, a list …")
    if not is_json:
        return name, value
    try:
        return name, json.loads(value)
    except (ValueError, RecursionError) as error:
        raise Misused(f"the value of {name!r} is not JSON: {error}") from None


def _parse(words: Sequence[str], known: Options, payload: bool = False) -> tuple[list[str], dict[str, Any]] | None:
    """The positional words and the options; None if an option is unknown or lacks its value.

    If the words after the first are a *payload*, unknown options among them belong to it.
    """
    given: list[str] = []
    options: dict[str, Any] = {}
    rest = iter(words)
    for word in rest:
        if word == "--":
            given.extend(rest)
            break
        name, equals, value = word.partition("=")
        if not word.startswith("-") or word == "-" or any(map(str.isspace, name)):  # a sentence is not an option
            given.append(word)
            continue
        kind = known.get(name)
        if kind is None and payload and given and name not in (*_OF_EMIT, "-h", "--help"):
            given.append(word)
            continue
        if kind is None or (kind == "flag" and equals):
            return None
        if kind == "flag":
            options[name] = True
            continue
        if not equals:
            following = next(rest, None)
            if following is None:
                return None
            value = following
        if kind == "many":
            options.setdefault(name, []).append(value)
        else:
            options[name] = value
    return given, options


def _meaning(command: tuple[str, ...], given: list[str], options: dict[str, Any]) -> dict[str, Any]:
    if command == ("emit",):
        return emit(given, options.get("--output", ()), options.get("--id", ""))
    kind, do, *what = command
    note: dict[str, Any] = {"do": do}
    if what:
        note["type"] = what[0]
    note.update({_attribute(name): value for name, value in options.items()})
    match [kind, do, *what], given:
        case ["memory", "add", "meta"], [key, value, *more]:
            note |= {"key": key, "value": " ".join([value, *more])}
        case ["memory", "add", "learning" | "preference"] | ["task", "add"], [_, *_]:
            note["text"] = " ".join(given)
        case ["task", "update"], [target, *text] if text or "priority" in note:
            note |= {"target": target} | ({"text": " ".join(text)} if text else {})
        case [_, "remove" | "complete" | "promote"], [target]:
            note["target"] = target
        case ["memory", "compact"], []:
            pass
        case ["memory", "prune"], [] if "max_age" in note:
            pass
        case _:
            raise Misused(f"wrong arguments for `{' '.join(command)}`: see `coterie {kind} {do} --help`")
    return {"kind": kind, "note": note}


def emit(given: Sequence[str], outputs: Sequence[str], name: str = "") -> dict[str, Any]:
    """The message for an `emit`: an event with its payload, or outputs of the turn, or both.

    Raises:
        Misused: If there is neither.
    """
    topic, payload = (given[0], " ".join(given[1:])) if given else ("", "")
    if not topic and (given or not outputs):
        raise Misused("name the event: `coterie emit TOPIC [PAYLOAD]`, or `coterie emit --output NAME=VALUE`")
    message: dict[str, Any] = {"kind": "emit", "event": topic, "payload": payload}
    if outputs:
        message["outputs"] = dict(map(named, outputs))
    if name:
        message["id"] = name
    return message


def _attribute(option: str) -> str:
    return "priority" if option == "-p" else option.lstrip("-").replace("-", "_")
