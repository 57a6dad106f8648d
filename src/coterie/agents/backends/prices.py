"""The prices of models, and the estimated cost of an attempt before it starts."""

from functools import cache

from coterie.team.planning.plan import AgentPlan

CHARACTERS = 3
"""A low estimate of the characters per token."""
ANSWER = 4_096
"""The assumed tokens of an answer, unless `max-tokens` allows fewer."""
_MILLION = 1_000_000


def estimated_cost(agent: AgentPlan, characters: int) -> float:
    """The estimated US dollars of one answer of *agent* to a prompt of *characters*; 0 without known prices.

    The plan's prices take precedence over those of the model library.
    """
    options = agent.options
    read, written = characters // CHARACTERS + 1, min(options.get("max_tokens") or ANSWER, ANSWER)
    price_in, price_out = options.get("price_in"), options.get("price_out")
    if price_in is None and price_out is None:
        price_in, price_out = known_prices(agent.model.rpartition(":")[2])
    return (read * (price_in or 0.0) + written * (price_out or 0.0)) / _MILLION


@cache
def known_prices(model: str) -> tuple[float, float]:
    """The prices of a million input and output tokens of *model* in US dollars; 0 if unknown."""
    try:
        from genai_prices import Usage, calc_price
    except ImportError:  # neither the extra `models` nor `claude` is installed
        return 0.0, 0.0
    try:
        read = calc_price(Usage(input_tokens=1_000), model_ref=model).total_price
        written = calc_price(Usage(output_tokens=1_000), model_ref=model).total_price
    except LookupError:
        return 0.0, 0.0
    return float(read) * 1_000, float(written) * 1_000
