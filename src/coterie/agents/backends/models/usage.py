"""The usage of an answer of a model, and its cost."""

from collections.abc import Mapping
from contextlib import suppress
from copy import copy
from dataclasses import replace as replace_field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from coterie.agents.backends.base import Say, discard
from coterie.history.journal.records import Usage

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponse

OUTPUT_MOST = 4_000_000
"""The largest number of tokens that an answer can have, or a request whose size is unknown."""
_MILLION = 1_000_000


def usage_of(
    answer: "ModelResponse",
    options: Mapping[str, Any],
    model: str,
    most: int = OUTPUT_MOST,
    say: Say = discard,
) -> Usage:
    """The usage of *answer*, at the prices in *options* if there are any, else at those that the library knows.

    Args:
        model: The requested model, which has the price; the answer may name another.
        most: The largest possible number of input tokens; a provider that reports more is not believed.
        say: Called with a note about that.
    """
    told, limit = answer.usage, min(options.get("max_tokens") or OUTPUT_MOST, OUTPUT_MOST)
    used = copy(told)
    used.input_tokens = max(0, min(told.input_tokens, most))
    used.output_tokens = max(0, min(told.output_tokens, limit))
    used.cache_read_tokens = max(0, min(told.cache_read_tokens, used.input_tokens))
    used.cache_write_tokens = max(0, min(told.cache_write_tokens, used.input_tokens - used.cache_read_tokens))
    if used != told:
        say(f"the provider reported more tokens than are possible: {most:,} and {limit:,} at most are counted\n")
    price = None
    if not _given(options):
        with suppress(LookupError, ValueError):
            price = float(replace_field(answer, model_name=model, usage=used).cost().total_price)
    told.cost = Decimal(price or 0)  # or the library searches all its lists of prices once more
    tokens = Usage(
        input_tokens=used.input_tokens, output_tokens=used.output_tokens, cached_tokens=used.cache_read_tokens
    )
    return priced(tokens, options, price)


def priced(answer: Usage, options: Mapping[str, Any], price: float | None = None) -> Usage:
    """The tokens of one *answer* with their cost: by the prices in *options* if there are any, else *price*.

    Without a known price, or if the provider reported no usage, an answer costs 0 and counts as `unpriced`.
    """
    is_unreported = not (answer.input_tokens or answer.output_tokens)
    is_unpriced = price is None or is_unreported
    if given := _given(options):
        price_in, price_out = given
        price = (answer.input_tokens * price_in + answer.output_tokens * price_out) / _MILLION
        is_unpriced = is_unreported and bool(price_in or price_out)
    return replace(answer, cost=price or 0.0, unpriced=int(is_unpriced))


def _given(options: Mapping[str, Any]) -> tuple[float, float] | None:
    """The prices in *options*, if there is one."""
    given = options.get("price_in"), options.get("price_out")
    return None if given == (None, None) else (given[0] or 0.0, given[1] or 0.0)
