import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.team.topology.conditions import Condition, Operator
from coterie.team.topology.loops import IMPLIED_MAX, bounded, unbounded
from coterie.team.topology.model import ArrowGroup, Flow

pytestmark = pytest.mark.once

NAMES = "abcde"


def flow_of(*groups: ArrowGroup) -> Flow:
    """A flow whose names are mentioned in the order of its arrows."""
    mentions = dict.fromkeys(name for group in groups for name in (group.source, *group.targets))
    return Flow(groups=groups, mentions=tuple(mentions))


@st.composite
def flows(draw: st.DrawFn) -> Flow:
    """Small flows: lists, conditions and bounds at random, all counted per run."""
    groups = []
    for _ in range(draw(st.integers(1, 8))):
        source = draw(st.sampled_from(NAMES))
        targets = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=2, unique=True))
        when = Condition(source, "v", Operator.EQ, "x") if draw(st.booleans()) else None
        bound = draw(st.sampled_from([None, None, 1]))
        groups.append(ArrowGroup(source=source, targets=tuple(targets), when=when, max=bound))
    return flow_of(*groups)


def endless(flow: Flow) -> bool:
    """Whether a walk along arrows without `max` can come back to where it was."""
    for start in flow.mentions:
        seen, front = set[str](), [start]
        while front:
            for group in flow.groups:
                if group.max is None and group.source == front[-1] and start in group.targets:
                    return True
            name = front.pop()
            for group in flow.groups:
                if group.max is None and group.source == name:
                    front += [target for target in group.targets if target not in seen]
                    seen.update(group.targets)
    return False


@given(flows())
def test_a_cycle_is_found_exactly_where_a_walk_need_not_end(flow: Flow) -> None:
    """Nothing is blamed without cause, and nothing endless is overlooked."""
    assert bool(unbounded(flow)) == endless(flow)


@given(flows())
def test_bounding_a_flow_leaves_only_what_nothing_can_bound(flow: Flow) -> None:
    """What is bounded is bounded for good; what was written stays as it was."""
    found = unbounded(flow)
    after = bounded(flow)

    assert endless(after) == any(cycle.implied is None for cycle in found)
    for before, now in zip(flow.groups, after.groups, strict=True):
        assert now == before or (before.max is None and before.when is not None and now.implied_max)


def test_the_last_mentioned_condition_on_the_cycle_is_bounded() -> None:
    """Wherever on the cycle it stands."""
    condition = Condition("b", "v", Operator.EQ, "x")
    flow = flow_of(
        ArrowGroup(source="s", targets=("a",)),
        ArrowGroup(source="b", targets=("a",), when=condition),
        ArrowGroup(source="a", targets=("c",)),
        ArrowGroup(source="c", targets=("b",), when=condition),
    )

    bounds = [(str(group), group.max) for group in bounded(flow).groups if group.implied_max]
    assert bounds == [("c -> b", IMPLIED_MAX)]


def test_a_flow_that_is_bounded_is_given_back() -> None:
    """The very same value."""
    flow = flow_of(ArrowGroup(source="a", targets=("a",), max=2))

    assert bounded(flow) is flow


def test_every_way_back_of_a_long_chain_is_bounded() -> None:
    """A chain of two thousand, each of which may go back to its beginning."""
    n = 2000
    chain = [ArrowGroup(source=f"n{i}", targets=(f"n{i + 1}",)) for i in range(n)]
    back = Condition("n1", "v", Operator.EQ, "x")
    ways_back = [ArrowGroup(source=f"n{i}", targets=("n1",), when=back) for i in range(2, n)]

    found = unbounded(flow_of(*chain, *ways_back))
    assert sorted(cycle.back for cycle in found) == list(range(n, 2 * n - 2))
    assert all(cycle.implied == cycle.back for cycle in found)
