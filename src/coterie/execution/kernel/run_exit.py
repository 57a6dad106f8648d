"""The state in which an owner leaves a run, and the closing steps before that."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from msgspec import Struct

from coterie.history.journal.records import NO_USAGE, Record, Usage
from coterie.team.planning.plan import Limits, Plan


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
        seconds: Total time that the run was owned; *usage* is the sum of its attempts, parallel or not.
        waited: Total time between its stops and its resumes.
        waiting: The open questions to humans.
        until: When the first quota opens that the stopped run waits for, in Unix seconds; 0: it waits for none.
        iterations: How many iterations a loop has begun; None: the run is not a loop.
        missing: Values that conditions read but no turn gave, as `agent.output`.
        unread: Turns after which a flow ended because a condition read nothing.
        limits: The limits that were in force.
        way_on: How a failed run can be continued: `retry` (failed turns ended it), `fork` (the engine decided to fail
            it) or `merge` (its work is not merged yet); empty: only by starting again.
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
    unread: tuple[str, ...] = ()
    until: float = 0.0
    limits: Limits = Limits()
    way_on: str = ""


Step = Callable[[], Awaitable[Record]]
"""A closing step: it can be repeated after a kill, and returns the record of what it did."""


class Finalizers:
    """The closing steps, performed before a root run ends or stops. By default there are none."""

    def closes(self, plan: Plan) -> bool:
        """Whether a root run of *plan* has closing steps."""
        return False

    async def next_step(self, plan: Plan, done: Sequence[Record], ended: RunExit) -> Step | None:
        """The next step before the root run ends or stops in the state *ended*; None: all are *done*."""
        return None
