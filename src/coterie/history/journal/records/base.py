"""The base class of records, and the values that many of them share."""

from msgspec import Struct
from msgspec.structs import replace

SCHEMA = 1
"""The version of the record format that this version of Coterie writes."""

Cause = tuple[int, int]
"""The identity of a command: the seq of the record that caused it, and its index among the commands of that record."""


class Usage(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Usage of a turn.

    Attributes:
        cached_tokens: Input tokens that were in the provider's cache.
        cost: US dollars, if the backend reports them.
        unpriced: Answers of models without a known price, which *cost* does not include.
        seconds: Time that the attempts ran.
        turns: The turns of agents inside, if the turn was a child run.
        unsettled: US dollars that were reserved for lost attempts, beyond their reported cost.
        context_tokens: Tokens in the agent's context window at the end, of *context_window*; 0: not known.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0
    seconds: float = 0.0
    turns: int = 0
    cached_tokens: int = 0
    unpriced: int = 0
    context_tokens: int = 0
    context_window: int = 0
    unsettled: float = 0.0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cost=self.cost + other.cost,
            seconds=self.seconds + other.seconds,
            turns=self.turns + other.turns,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            unpriced=self.unpriced + other.unpriced,
            context_tokens=other.context_tokens or self.context_tokens,
            context_window=other.context_window or self.context_window,
            unsettled=self.unsettled + other.unsettled,
        )

    def __sub__(self, other: "Usage") -> "Usage":
        summed = [name for name in self.__struct_fields__ if not name.startswith("context_")]
        return replace(self, **{name: getattr(self, name) - getattr(other, name) for name in summed})


NO_USAGE = Usage()


class Record(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="topic", gc=False):
    """One journal line.

    Attributes:
        seq: Its number, from 1 within a run; set by the writer.
        at: Unix seconds; never goes back within a run.
        source: Who caused it: `harness`, `agent` or `operator`.
        cause: The command that this record carries out.
    """

    seq: int = 0
    at: float = 0.0
    source: str = "harness"
    cause: Cause | None = None
