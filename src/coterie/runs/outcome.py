"""The outcome of the time that an owner drove a run, and its exit status."""

from typing import Any

from msgspec import Struct

from coterie.journal.records import NO_USAGE, Usage
from coterie.planning.plan import Limits
from coterie.runs.driver.ended import Ended, Waiting

EXIT_COMPLETED, EXIT_FAILED, EXIT_USAGE, EXIT_LIMIT, EXIT_WAITING, EXIT_INTERRUPTED = 0, 1, 2, 3, 4, 130
_EXITS = {"waiting": EXIT_WAITING, "interrupted": EXIT_INTERRUPTED, "stuck": EXIT_FAILED}


class Outcome(Struct, frozen=True, kw_only=True):
    """How an owner's time with a run ended.

    Attributes:
        status: `completed`, `failed`, or `stopped` (it can be resumed).
        reason: Why it failed or stopped.
        exit: The exit status that says the same.
        seconds: How long the run was owned in all; *usage* adds up what its attempts took, side by side or not.
        waiting: The questions to humans that are open.
        overshoot: The amount by which running attempts exceeded a budget after it was reached; empty if they did not.
        notices: Further notices: where the work is, which notification failed.
        iterations: How many iterations a loop has begun; None: the run is no loop.
    """

    run: str
    status: str
    reason: str = ""
    result: Any = None
    exit: int = EXIT_COMPLETED
    usage: Usage = NO_USAGE
    seconds: float = 0.0
    waiting: tuple[Waiting, ...] = ()
    overshoot: str = ""
    notices: tuple[str, ...] = ()
    iterations: int | None = None


def outcome_of(ended: Ended, limits: Limits) -> Outcome:
    """*ended*, with its exit status and the overspending of *limits*."""
    return Outcome(
        run=ended.run,
        status=ended.status,
        reason=ended.reason,
        result=ended.result,
        exit=exit_of(ended),
        usage=ended.usage,
        seconds=ended.seconds,
        waiting=ended.waiting,
        overshoot=_overshoot(ended, limits),
        iterations=ended.iterations,
    )


def exit_of(ended: Ended) -> int:
    """The exit status that says how a run ended or stopped."""
    if ended.status == "stopped":
        return _EXITS.get(ended.reason, EXIT_LIMIT)
    return EXIT_COMPLETED if ended.status == "completed" else EXIT_FAILED


def _overshoot(ended: Ended, limits: Limits) -> str:
    if limits.max_cost is not None and ended.usage.cost > limits.max_cost:
        over = ended.usage.cost - limits.max_cost
        return f"${over:.4f} above --max-cost, by what was running when it was reached"
    return ""
