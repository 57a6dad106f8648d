"""`emit`, `memory` and `task` for agents: send a message to the run of the attempt, print the verdict, exit.

Exit status: 0 accepted, 1 rejected, 2 not delivered or invalid.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # as in `typing`, whose import costs as much as all else here
if TYPE_CHECKING:
    from collections.abc import Mapping, MutableMapping, Sequence
    from typing import Any

COMMANDS = frozenset({"emit", "memory", "task"})
RUN_FOLDER = "COTERIE_RUN_DIR"
NOTES_FOLDER = "COTERIE_NOTES_DIR"
"""The folder of the memory and the tasks of the attempt's loop."""
ATTEMPT_FOLDER = "COTERIE_ATTEMPT_DIR"
OWN = "own"
"""The subfolder of an attempt's folder that its processes may write; the owner reads back only this one."""
OUTBOX = "outbox"
"""The subfolder of `OWN` for messages of an attempt that cannot write to the run's inbox; the owner collects them."""
TEMPORARY = "tmp-"
"""The prefix of the subfolder of `OWN` for temporary files."""
TOKEN = "COTERIE_TOKEN"
"""A secret that proves that a message comes from the named attempt."""
MESSAGE = "COTERIE_MESSAGE"
"""The id of a message that is already in the inbox, for the command line, which continues with it."""


def main(arguments: Sequence[str], env: MutableMapping[str, str]) -> int | None:
    """Send the message of *arguments* to the run that *env* names; return the exit status.

    It returns None if the command line must take over: for other commands, outside an attempt, for a message that is
    already in the inbox, and for a run without an owner.
    """
    if not arguments or arguments[0] not in COMMANDS or not env.get(RUN_FOLDER) or env.get(MESSAGE):
        return None
    from coterie.agents.backends.agentside import delivery, words

    try:
        message = words.message_of(arguments)
        if message is None:
            return None
        name = str(message.pop("id", "")) or new_id()
        outbox = os.path.join(env.get(ATTEMPT_FOLDER, ""), OUTBOX)
        status, detail = delivery.send(
            env[RUN_FOLDER], name, message | sender(env), outbox=outbox if os.path.isdir(outbox) else ""
        )
    except words.Misused as misuse:
        return _complain(f"coterie: {misuse}", 2)
    except UnicodeEncodeError:
        return _complain("coterie: the message is not UTF-8 text and was not sent", 2)
    except OSError as error:
        return _complain(f"coterie: cannot write to the run's inbox: {error.strerror}: {error.filename}", 2)
    if status in (delivery.UNOWNED, delivery.TAKEN):
        env[MESSAGE] = name
        return None
    return tell(message, status, detail)


def wrapper(known: dict[str, str], python: str) -> int:
    """Run as the wrapper of the attempt that *known* identifies."""
    arguments = sys.argv[1:]
    status = main(arguments, known)
    if status is None:
        os.execve(python, [python, "-P", "-m", "coterie", *arguments], {**os.environ, **known})
    return status


def new_id() -> str:
    """A new id for a message."""
    return os.urandom(8).hex()


def sender(env: Mapping[str, str]) -> dict[str, Any]:
    """The sender fields: the turn's address in its root run, attempt, epoch and token. Empty outside a turn."""
    turn = env.get("COTERIE_TURN", "")
    if not turn:
        return {}
    below = env.get("COTERIE_RUN", "").partition("/")[2]
    number = {name: int(env.get(f"COTERIE_{name.upper()}") or 0) for name in ("attempt", "epoch")}
    return {"turn": f"{below}/{turn}" if below else turn, **number, "token": env.get(TOKEN, "")}


def tell(message: Mapping[str, Any], status: str, detail: str) -> int:
    """Print the verdict on *message*, and return the exit status for it."""
    match status:
        case "accepted":
            emitted = f"emitted {message['event']}" if message.get("event") else ""
            _print(sys.stdout, " ".join(filter(None, (emitted, detail))) or "accepted")
            return 0
        case "refused":
            return _complain(detail, 1)
        case "queued":
            return _complain(f"queued: {detail}", 2)
        case _:
            return _complain(
                "the run's owner is not responding; the message stays in its inbox until the owner reads it", 2
            )


def _complain(text: str, status: int) -> int:
    _print(sys.stderr, text)
    return status


def _print(stream: Any, text: str) -> None:
    """Print *text* with its control characters escaped."""
    shown = "".join(c if c.isprintable() or c in "\n\t" else f"\\x{ord(c):02x}" for c in text)
    try:
        stream.write(shown + "\n")
        stream.flush()
    except (OSError, AttributeError):  # the stream is closed
        return
    except UnicodeEncodeError:
        stream.write(shown.encode("ascii", "backslashreplace").decode() + "\n")
