"""The usage of an attempt with a model, and its cost."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from coterie.journal.records import Usage

if TYPE_CHECKING:
    from pydantic_ai import RequestUsage, RunUsage

_MILLION = 1_000_000


@dataclass
class TokenCounts:
    """What a recorded conversation has used, as pydantic-ai counts it."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    requests: int = 0
    cost: None = None


def usage_of(tokens: "TokenCounts | RunUsage | RequestUsage", options: Mapping[str, Any]) -> Usage:
    """The usage of *tokens*: at the prices in *options* if there are any, else at those that the library knows.

    Without a known price the cost is 0, and the requests count as `unpriced`.
    """
    prices = [options.get(name) for name in ("price_in", "price_out")]
    cost: float | None = float(tokens.cost) if tokens.cost is not None else None
    if any(price is not None for price in prices):
        cost = (tokens.input_tokens * (prices[0] or 0) + tokens.output_tokens * (prices[1] or 0)) / _MILLION
    return Usage(
        input_tokens=tokens.input_tokens,
        output_tokens=tokens.output_tokens,
        cached_tokens=tokens.cache_read_tokens,
        cost=cost or 0.0,
        unpriced=tokens.requests if cost is None else 0,
    )
