"""Records of messages: to the run, from its operator, and between agents."""

from typing import Any

from coterie.history.journal.records.base import Record


class MessageRefused(Record, frozen=True, kw_only=True, tag="message.refused", gc=False):
    """A message to the run could not be used: its turn is over, unknown, or not waiting for an answer."""

    message: str
    reason: str
    turn: str = ""


class MessageSent(Record, frozen=True, kw_only=True, tag="message.sent", gc=False):
    """One agent of a pattern sent a message to another one, or to all. This is a trace without effect.

    Attributes:
        recipient: The receiving agent; empty: all agents.
        type: `request`, `response`, `feedback`, `escalation`, `broadcast` or `system`.
    """

    sender: str
    recipient: str = ""
    type: str = "response"
    content: dict[str, Any] = {}
    round: int = 0


class OperatorSaid(Record, frozen=True, kw_only=True, tag="operator.said", gc=False):
    """A command of an operator; an empty *turn* means all.

    *what* is `interrupt`, `stop`, `retry`, `cancel` or `guide`; for a turn that was parked for a permission `allow` or
    `deny`; for held-back settings (*turn* is `config`) `take` or `keep`, and for a changed setting `change`; `always`
    and `project` (in the root run) allow the rule *text*, in this run or in all runs of the project.
    """

    message: str
    what: str
    turn: str = ""
    text: str = ""


class GuidanceDelivered(Record, frozen=True, kw_only=True, tag="guidance.delivered", gc=False):
    """The guidance in the operator's *messages* was delivered to *turn*.

    Attributes:
        attempt: The attempt that received it while it worked; a loop's next iteration gets it, too. 0: it is in the
            prompt.
    """

    turn: str
    messages: tuple[str, ...]
    attempt: int = 0
