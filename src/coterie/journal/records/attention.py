"""Records of what needs a person while an attempt runs."""

from collections.abc import Mapping
from types import MappingProxyType

from coterie.journal.records.base import Record

ATTENTION_ANSWERS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "permission": ("allow", "always", "project", "deny", "park", "fail"),
        "stall": ("wait", "interrupt"),
        "config": ("take", "keep"),
    }
)
"""The answers to each kind of `attention.asked`, and to settings that are held back."""
LASTING = ("always", "project")
"""The answers that allow the same in the rest of the run, and in all runs of the project."""
CONFIG = "config"
"""The word for settings that are held back, in place of a turn."""

DECISIONS = ("retry", "cancel")
"""The answers to the question whether a turn that was cut off is tried again."""
PARKED_DECISIONS = ("allow", *LASTING, "deny", *DECISIONS)
"""The same if the run was parked for its `attention.asked`: it is tried again with the permission, or without."""


class AttentionAsked(Record, frozen=True, kw_only=True, tag="attention.asked", gc=False):
    """An attempt waits for a person's word.

    Attributes:
        id: `<turn>?<n>`, the *n*-th of its run.
        kind: `permission`, to use a tool; or `stall`: the attempt shows signs of being stuck.
        question: The id by which the attempt knows it; empty for a stall.
        tool: The tool that is to be used, and *detail* for what; of a stall *detail* gives the signs.
        due: When *policy* answers, in Unix seconds; None: it waits as long as the attempt may run.
        policy: The answer at *due*. To a permission: `deny`, `allow`, `park` (the run stops and waits) or `fail` (the
            attempt fails); to a stall: `wait` (nothing happens) or `interrupt` (the turn is tried again).
        rule: What `always` and `project` allow; empty: these are no answers.
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
        """The words that answer it."""
        known = ATTENTION_ANSWERS.get(self.kind, ())
        return known if self.rule else tuple(word for word in known if word not in LASTING)


class AttentionAnswered(Record, frozen=True, kw_only=True, tag="attention.answered", gc=False):
    """An `attention.asked` was answered, by an operator's *message* or, at its deadline, by the policy.

    *answer* is one of `ATTENTION_ANSWERS` for its kind, and *text* the message to the agent.
    """

    id: str
    turn: str
    attempt: int
    answer: str
    message: str = ""
    text: str = ""
