"""Records of eval agents: the events that they observe, and their corrections."""

from typing import Any

from coterie.history.journal.records.base import Record


class EvalReported(Record, frozen=True, kw_only=True, tag="eval.reported", gc=False):
    """An agent reported an event to the eval agents of its system (`emit_eval`).

    Attributes:
        type: The agent's name for the event.
    """

    agent: str
    type: str
    payload: Any = None


class CorrectionSent(Record, frozen=True, kw_only=True, tag="correction.sent", gc=False):
    """An eval agent corrects another agent.

    Attributes:
        evaluator: The eval agent.
        kind: `nudge`, `redirect`, or `halt`, which stops the agent for good.
    """

    evaluator: str
    agent: str
    kind: str
    reason: str = ""
    payload: Any = None


class CorrectionDropped(Record, frozen=True, kw_only=True, tag="correction.dropped", gc=False):
    """A correction had no effect.

    Attributes:
        kind: As in `correction.sent`.
        reason: The reason for the correction.
        problem: Why it was dropped: the limit of the window, or the agent cannot be reached.
    """

    evaluator: str
    agent: str
    kind: str
    reason: str = ""
    problem: str = ""
