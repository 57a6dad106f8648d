"""Records of messages: to the run, from its operator, and between agents."""

from typing import Any

from coterie.journal.records.base import Record


class MessageRefused(Record, frozen=True, kw_only=True, tag="message.refused", gc=False):
    """A message to the run could not be used: its turn is over, unknown, or waits for no answer."""

    message: str
    reason: str
    turn: str = ""


class MessageSent(Record, frozen=True, kw_only=True, tag="message.sent", gc=False):
    """One agent of a pattern sent a message to another one, or to all: a trace, which causes nothing.

    Attributes:
        recipient: Empty: all agents.
        type: `request`, `response`, `feedback`, `escalation`, `broadcast` or `system`.
    """

    sender: str
    recipient: str = ""
    type: str = "response"
    content: dict[str, Any] = {}
    round: int = 0


class OperatorSaid(Record, frozen=True, kw_only=True, tag="operator.said", gc=False):
    """A command of an operator; an empty *turn* means all.

    *what* is `interrupt`, `stop`, `retry`, `cancel` or `guide`; of a turn that was parked for a permission `allow` or
    `deny`; of settings that are held back (*turn* is `config`) `take` or `keep`, and of one that was changed `change`;
    `always` and `project` (in the root run) allow what the rule *text* says, in this run or in all runs of the project.
    """

    message: str
    what: str
    turn: str = ""
    text: str = ""


class GuidanceDelivered(Record, frozen=True, kw_only=True, tag="guidance.delivered", gc=False):
    """The prompt of *turn* holds the guidance of the operator's *messages*.

    Attributes:
        attempt: The attempt that was given it while it worked; a loop's next iteration has it too. 0: its prompt.
    """

    turn: str
    messages: tuple[str, ...]
    attempt: int = 0
