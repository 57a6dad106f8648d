"""Records of requests for a person while an attempt runs."""

from collections.abc import Mapping
from types import MappingProxyType

from coterie.history.journal.records.base import Record

ATTENTION_ANSWERS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "permission": ("allow", "always", "project", "deny", "park", "fail"),
        "stall": ("wait", "interrupt"),
        "config": ("take", "keep"),
    }
)
"""The possible answers to each kind of `attention.asked`, and to held-back settings."""
LASTING = ("always", "project")
"""The answers that allow the same use in the rest of the run, and in all runs of the project."""
CONFIG = "config"
"""The name for held-back settings, in place of a turn."""

DECISIONS = ("retry", "cancel")
"""The answers to the question whether an interrupted turn is retried."""
PARKED_DECISIONS = ("allow", *LASTING, "deny", *DECISIONS)
"""The answers if the run was parked for the turn's `attention.asked`: it is retried with or without the permission."""


class AttentionAsked(Record, frozen=True, kw_only=True, tag="attention.asked", gc=False):
    """An attempt waits for a person's answer.

    Attributes:
        id: `<turn>?<n>`, the *n*-th of its run.
        kind: `permission`, to use a tool; or `stall`: the attempt may be stuck.
        question: The attempt's own id for it; empty for a stall.
        tool: The tool to use, and *detail* its purpose; for a stall *detail* has the signs.
        due: When *policy* answers, in Unix seconds; None: it waits as long as the attempt may run.
        policy: The answer at *due*. To a permission: `deny`, `allow`, `park` (the run stops and waits) or `fail` (the
            attempt fails); to a stall: `wait` (nothing happens) or `interrupt` (the turn is retried).
        rule: The rule that `always` and `project` allow; empty: these are not possible answers.
    """

    id: str
    turn: str
    attempt: int
    kind: str = "permission"
    question: str = ""
    tool: str = ""
    detail: str = ""
    due: float | None = None
    policy: str = "deny"
    rule: str = ""

    @property
    def answers(self) -> tuple[str, ...]:
        """The possible answers."""
        known = ATTENTION_ANSWERS.get(self.kind, ())
        return known if self.rule else tuple(word for word in known if word not in LASTING)


class AttentionAnswered(Record, frozen=True, kw_only=True, tag="attention.answered", gc=False):
    """An `attention.asked` was answered, by an operator's *message* or, at its deadline, by the policy.

    *answer* is one of `ATTENTION_ANSWERS` for its kind; *text* is the message to the agent.
    """

    id: str
    turn: str
    attempt: int
    answer: str
    message: str = ""
    text: str = ""
