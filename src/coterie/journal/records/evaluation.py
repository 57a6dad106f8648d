"""Records of eval agents: the events that they observe, and their corrections."""

from typing import Any

from coterie.journal.records.base import Record


class EvalReported(Record, frozen=True, kw_only=True, tag="eval.reported", gc=False):
    """An agent reported an event to the eval agents of its system (`emit_eval`).

    Attributes:
        type: What the agent calls the event.
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
        reason: The reason of the correction.
        problem: Why it was dropped: the limit of its window, or the agent cannot be reached.
    """

    evaluator: str
    agent: str
    kind: str
    reason: str = ""
    problem: str = ""
