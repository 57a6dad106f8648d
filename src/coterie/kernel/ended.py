"""The outcome of the time that one owner drove a run."""

from typing import Any

from msgspec import Struct

from coterie.journal.records import NO_USAGE, Usage
from coterie.planning.plan import Limits


class Waiting(Struct, frozen=True, kw_only=True):
    """A question that waits for a human."""

    run: str
    turn: str
    agent: str
    prompt: str = ""


class Ended(Struct, frozen=True, kw_only=True):
    """The state in which an owner left a run.

    Attributes:
        status: `completed`, `failed` or `stopped` (it can be resumed).
        seconds: Time that the run was owned in all; *usage* adds up its attempts, side by side or not.
        waiting: The open questions to humans.
        until: When the first of the quotas opens until which it was stopped, in Unix seconds; 0: it was not.
        iterations: How many a loop has begun; None: the run is no loop.
        missing: The values that conditions read and that no turn has given, as `agent.output`.
        limits: Those that were in force.
    """

    run: str
    status: str
    reason: str = ""
    result: Any = None
    usage: Usage = NO_USAGE
    seconds: float = 0.0
    waiting: tuple[Waiting, ...] = ()
    iterations: int | None = None
    missing: tuple[str, ...] = ()
    until: float = 0.0
    limits: Limits = Limits()
