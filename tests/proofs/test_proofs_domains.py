"""Representatives: for every value an output can take there is one that no condition tells from it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.history.engines.replies import fit
from coterie.proofs.domains import MISSING, representatives
from coterie.team.planning.plan import Wanted
from coterie.team.topology.conditions import Condition, Operator, Scalar

pytestmark = pytest.mark.once

NUMBERS = st.integers(-5, 5) | st.sampled_from([0.5, 1.0, -0.0, 2.5, 1e300, -1e308, 2**60, 2**60 + 1, 2.0**60])
TEXTS = st.sampled_from(["x", " x", "other", "3", "3.0", "true", "null", "-0.0", "1e3", ""])
SCALARS = NUMBERS | TEXTS | st.booleans()
VALUES = SCALARS | st.none() | st.lists(st.integers(0, 1), max_size=1)
CONDITIONS = st.lists(st.builds(Condition, st.just("a"), st.just("v"), st.sampled_from(Operator), SCALARS), max_size=5)
WANTED = [
    Wanted(name="v", type="enum", values=("x", "y", 3)),
    *(Wanted(name="v", type=kind) for kind in ("boolean", "integer", "number", "text", "any")),
    Wanted(name="v", declared=False),
]


def verdict(value: Any, conditions: list[Condition]) -> list[bool]:
    return [value is not MISSING and condition.holds(value) for condition in conditions]


@pytest.mark.parametrize("wanted", WANTED, ids=lambda wanted: f"{wanted.type} {wanted.declared}")
@given(value=VALUES, conditions=CONDITIONS)
def test_a_representative_stands_for_every_value(wanted: Wanted, value: Any, conditions: list[Condition]) -> None:
    """However the conditions come out for a value the agent may give, they come out so for a representative."""
    given = fit(value, wanted) if wanted.declared else value
    if wanted.declared and given is None:
        return  # such a reply is asked again
    constants: list[Scalar] = [condition.value for condition in conditions]
    found = [verdict(each, conditions) for each in representatives(wanted, constants)]

    assert verdict(given, conditions) in found


@pytest.mark.parametrize("wanted", WANTED[:-1], ids=lambda wanted: wanted.type)
@given(constants=st.lists(SCALARS, max_size=4))
def test_a_representative_is_a_value_the_agent_may_give(wanted: Wanted, constants: list[Scalar]) -> None:
    """A declared output has one, and each fits as it is, type included."""
    found = list(representatives(wanted, constants))

    assert found
    assert [repr(fit(value, wanted)) for value in found] == list(map(repr, found))


def test_an_undeclared_output_may_be_missing() -> None:
    """And then no condition on it holds, `!=` included."""
    assert MISSING in list(representatives(Wanted(name="v", declared=False), ["x"]))
    assert MISSING not in list(representatives(Wanted(name="v", type="any"), ["x"]))
