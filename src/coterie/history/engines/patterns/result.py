"""Results of patterns: a text, the keys of the reference's output, and failures."""

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Struct

from coterie.history.engines.patterns.structured import is_blocked
from coterie.history.engines.questions import AgentFailed
from coterie.history.journal.records import NO_USAGE, TurnFinished, Usage


class SlotFailure(Struct, frozen=True, omit_defaults=True):
    """The failure of a slot that the pattern tolerated."""

    slot: str
    kind: str
    reason: str


class PatternResult(Struct, frozen=True, kw_only=True):
    """The result of a pattern. Each pattern adds its own fields.

    Attributes:
        text: The answer as one text, never empty in a success.
        failures: Tolerated failures.
        warnings: Other remarks for the reader of the result, one sentence each.
        usage: The usage of all turns; filled in by the engine.
    """

    text: str = ""
    failures: tuple[SlotFailure, ...] = ()
    warnings: tuple[str, ...] = ()
    usage: Usage = NO_USAGE

    def to_dict(self) -> dict[str, Any]:
        """The result as plain JSON values: the keys of the reference's output first, then the fields above."""
        made: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self))
        common = {name: made.pop(name) for name in ("text", "failures", "warnings", "usage")}
        return made | common


def failure(slot: str, failed: AgentFailed) -> SlotFailure:
    """*failed* as part of a result."""
    return SlotFailure(slot, failed.kind, failed.reason)


def loss(reply: TurnFinished | AgentFailed) -> tuple[str, str] | None:
    """The kind and reason of the failure if *reply* is a failure, a refusal or an empty answer; else None."""
    if isinstance(reply, AgentFailed):
        return reply.kind, reply.reason
    if is_blocked(reply):
        return "blocked", said(reply)
    return None if said(reply) else ("failed", "an empty answer")


def one_kind(failures: Iterable[SlotFailure]) -> str:
    """The common kind of *failures*; empty when they differ.

    A retry helps only if it could help at least one of them.
    """
    kinds = {one.kind for one in failures}
    return kinds.pop() if len(kinds) == 1 else ""


def said(reply: TurnFinished) -> str:
    """The content of *reply*: its text, otherwise its outputs as JSON; empty without either."""
    if reply.text.strip():
        return reply.text
    outputs = {name: value for name, value in reply.outputs.items() if not name.startswith("_")}
    return msgspec.json.encode(outputs).decode() if outputs else ""
