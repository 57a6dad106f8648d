"""The first failure in a run, with the end of that attempt's output."""

from msgspec import Struct

from coterie.history.views.live import LiveRun

_LONGEST = 4_000
"""How many characters are shown from the end of an attempt's output."""


class FirstFailure(Struct, frozen=True, kw_only=True):
    """The first failure of a run.

    Attributes:
        run: The run in which it happened, which may be a child run.
        turn: The turn that failed first; empty if the run failed without a failed turn; then *reason* says why.
        kind: As in `attempt.failed`.
        output: The end of its last attempt's output; *log* is the end of its standard error.
    """

    run: str
    turn: str
    at: float
    reason: str
    kind: str = ""
    attempt: int = 0
    output: str = ""
    log: str = ""
    exit_code: int | None = None
    signal: str = ""


def first_failure(live: LiveRun) -> FirstFailure | None:
    """The first failure of the root run of *live*; None if no turn failed for good, and the run did not."""
    root = live.runs[live.run]
    if (found := root.first_failed()) is None:
        view = root.view
        failed = view.state == "failed"
        return FirstFailure(run=root.id, turn="", at=view.finished or view.at, reason=view.reason) if failed else None
    at, known, id = found
    turn = known.view.turn(id)
    last = turn.attempts[-1] if turn is not None and turn.attempts else None
    if turn is None or last is None:
        return FirstFailure(run=known.id, turn=id, at=at, reason=turn.reason if turn is not None else "")
    return FirstFailure(
        run=known.id,
        turn=id,
        at=at,
        reason=turn.reason,
        kind=turn.kind,
        attempt=last.n,
        output=last.text[-_LONGEST:],
        log=last.log[-_LONGEST:],
        exit_code=last.exit_code,
        signal=last.signal,
    )
