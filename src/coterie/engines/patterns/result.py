"""What a pattern gives back: a value with a text, the keys that the reference's output has, and what went wrong."""

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Struct

from coterie.engines.generator import AgentFailed, PatternFailed
from coterie.journal.records import NO_USAGE, TurnFinished, Usage

__all__ = ["PatternFailed", "PatternResult", "SlotFailure", "failure", "one_kind", "said"]


class SlotFailure(Struct, frozen=True, omit_defaults=True):
    """A slot that did not give what it was asked for, and that the pattern could do without."""

    slot: str
    kind: str
    reason: str


class PatternResult(Struct, frozen=True, kw_only=True):
    """What a pattern came to. Each pattern has its own, with fields of its own.

    Attributes:
        text: The answer as one text, never empty in a success.
        failures: Whom the pattern did without.
        warnings: What else whoever reads the result should know, one sentence each.
        usage: What the turns used; filled in by the engine.
    """

    text: str = ""
    failures: tuple[SlotFailure, ...] = ()
    warnings: tuple[str, ...] = ()
    usage: Usage = NO_USAGE

    def to_dict(self) -> dict[str, Any]:
        """The result as plain JSON values: the keys of the reference's output first, then the fields above."""
        said = {**self.output(), **msgspec.structs.asdict(self)}
        made: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(said))
        common = {name: made.pop(name) for name in ("text", "failures", "warnings", "usage")}
        return made | common

    def output(self) -> dict[str, Any]:
        """What `to_dict` holds beside the fields; for keys that are computed, or not named as fields can be."""
        return {}


def failure(slot: str, failed: AgentFailed) -> SlotFailure:
    """How *failed* is told of in a result."""
    return SlotFailure(slot, failed.kind, failed.reason)


def one_kind(failures: Iterable[SlotFailure]) -> str:
    """The kind of all *failures*; empty when they differ. What nobody's key opens no further attempt opens either."""
    kinds = {one.kind for one in failures}
    return kinds.pop() if len(kinds) == 1 else ""


def said(reply: TurnFinished) -> str:
    """What *reply* says: its text, or where it has none its outputs as JSON; empty if it says nothing at all."""
    if reply.text.strip():
        return reply.text
    outputs = {name: value for name, value in reply.outputs.items() if not name.startswith("_")}
    return msgspec.json.encode(outputs).decode() if outputs else ""
