"""Properties with few examples by default and with many in the tier `long`."""

import inspect
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis.strategies import SearchStrategy


def sampled(
    few: int, many: int, **strategies: SearchStrategy[Any]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a property with *few* examples of its *strategies*, and marked `long` with *many*.

    Its other arguments are fixtures, made once for all examples.
    """

    def decorate(prove: Callable[..., None]) -> Callable[..., None]:
        def run(examples: int, **fixtures: Any) -> None:
            settings(max_examples=examples)(given(**strategies)(prove))(**fixtures)

        run.__name__, run.__doc__, run.__module__ = prove.__name__, prove.__doc__, prove.__module__
        own = [one for name, one in inspect.signature(prove).parameters.items() if name not in strategies]
        examples = inspect.Parameter("examples", inspect.Parameter.KEYWORD_ONLY)
        run.__signature__ = inspect.Signature([*own, examples])  # type: ignore[attr-defined]
        return pytest.mark.parametrize("examples", [few, pytest.param(many, marks=pytest.mark.long)])(run)

    return decorate
