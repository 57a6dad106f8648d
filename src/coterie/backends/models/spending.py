"""What an attempt with a model used, and what that costs."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Protocol

from coterie.journal.records import Usage

_MILLION = 1_000_000


class Tokens(Protocol):
    """What pydantic-ai counts."""

    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    requests: int
    cost: Decimal | None


def usage_of(tokens: Tokens, options: Mapping[str, Any]) -> Usage:
    """The usage of *tokens*: at the prices of *options* if they give any, else as the library knows them.

    What nobody knows the price of costs 0 and is counted as `unpriced`.
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
