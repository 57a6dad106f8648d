"""The outcome of the time that one owner drove a run, and the steps before that end."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from msgspec import Struct

from coterie.journal.records import NO_USAGE, Record, Usage
from coterie.planning.plan import Limits, Plan


class Waiting(Struct, frozen=True, kw_only=True):
    """A question that waits for a human."""

    run: str
    turn: str
    agent: str
    prompt: str = ""


class RunExit(Struct, frozen=True, kw_only=True):
    """The state in which an owner left a run.

    Attributes:
        status: `completed`, `failed` or `stopped` (it can be resumed).
        seconds: Time that the run was owned in all; *usage* adds up its attempts, side by side or not.
        waited: Time that it was not, between its stops and its resumes.
        waiting: The open questions to humans.
        until: When the first of the quotas opens until which it was stopped, in Unix seconds; 0: it was not.
        iterations: How many a loop has begun; None: the run is no loop.
        missing: The values that conditions read and that no turn has given, as `agent.output`.
        limits: Those that were in force.
        way_on: How a failed run may be continued: `retry` (a turn failed it), `fork` (no turn failed, it was decided
            so) or `merge` (its work is not merged yet); empty: only by starting again.
    """

    run: str
    status: str
    reason: str = ""
    result: Any = None
    usage: Usage = NO_USAGE
    seconds: float = 0.0
    waited: float = 0.0
    waiting: tuple[Waiting, ...] = ()
    iterations: int | None = None
    missing: tuple[str, ...] = ()
    until: float = 0.0
    limits: Limits = Limits()
    way_on: str = ""


Step = Callable[[], Awaitable[Record]]
"""A step before the end: it can be repeated after a kill, and gives the record of what it did."""


class Finalizers:
    """The steps before a root run ends or stops. By default there are none."""

    def closes(self, plan: Plan) -> bool:
        """Whether a root run of *plan* has steps to do before it ends."""
        return False

    async def next_step(self, plan: Plan, done: Sequence[Record], ended: RunExit) -> Step | None:
        """The next step before the root run ends, or stops, as *ended* says; None: all are *done*."""
        return None
