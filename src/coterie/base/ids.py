"""Make the ids of runs, turns, attempts and messages.

A *turn* is `reviewer#2`: the second start of `reviewer` in its run. An *attempt* is `reviewer#2.1`. A child run is
named after the attempt that started it, `<run>/reviewer#2.1`.
"""

import secrets
import time
from urllib.parse import quote


def new_run_id() -> str:
    """A new run id, sortable by the second in which it was made: `20261121-154233-9f3a1c`."""
    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{secrets.token_hex(3)}"


def new_message_id() -> str:
    """A new id for a message to a run: its sender may repeat the message, the run records it once."""
    return secrets.token_hex(8)


def turn_id(agent: str, n: int) -> str:
    """The id of the *n*-th start of *agent*, counted from 1."""
    return f"{agent}#{n}"


def set_id(node: str, n: int) -> str:
    """The id of the *n*-th set of the mapped *node*, counted from 1; records name it where they name a turn."""
    return f"{node}@{n}"


def number_of(name: str) -> int:
    """The number of the turn or the set *name*."""
    return int(name[max(name.rfind("#"), name.rfind("@")) + 1 :])


def is_turn_id(text: str) -> bool:
    """Whether *text* has the form of a turn's id, or of its address in a child run: `panel#1.1/critic#2`."""
    name, _, number = text.rpartition("#")
    return bool(name) and number.isdecimal()


def attempt_id(turn: str, attempt: int) -> str:
    """The id of one attempt of *turn*, counted from 1."""
    return f"{turn}.{attempt}"


def child_run_id(run: str, turn: str, attempt: int) -> str:
    """The id of the child run that an attempt at a topology's turn starts."""
    return f"{run}/{attempt_id(turn, attempt)}"


def folder_name(attempt: str) -> str:
    """*attempt* as one safe file name; the names of a checked topology stay unchanged."""
    return quote(attempt, safe="#:@ ") or "_"
