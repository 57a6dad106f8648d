import time
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.team.topology.graph import FlowGraph
from coterie.team.topology.model import ArrowGroup

pytestmark = pytest.mark.once


def graph(*arrows: str) -> FlowGraph:
    """The graph of lines like `a -> b c 3`: one source, its targets, and perhaps a `max`."""
    groups = []
    for arrow in arrows:
        source, _, *rest = arrow.split()
        bound = int(rest.pop()) if rest[-1].isdigit() else None
        groups.append(ArrowGroup(source=source, targets=tuple(rest), max=bound))
    return FlowGraph([], groups)


def upstream(shape: FlowGraph, node: str) -> set[str]:
    mask = shape.upstream(node)
    return {name for name, rank in shape.rank.items() if mask >> rank & 1}


def test_a_node_ranks_after_all_that_lead_to_it() -> None:
    """Kahn's order; among ready nodes the first-mentioned comes first."""
    shape = graph("a -> b c", "b -> d", "d -> e", "c -> e")

    assert list(shape.rank) == ["a", "b", "c", "d", "e"]


def test_a_way_back_does_not_hold_its_target() -> None:
    """A `max` arrow on a cycle is no reason to wait for its source."""
    shape = graph("w -> r", "r -> w 3", "r -> p")

    assert list(shape.rank) == ["w", "r", "p"]
    assert [shape.is_loop_group(i) for i in range(3)] == [False, True, False]


def test_a_max_arrow_on_no_cycle_is_forward() -> None:
    """Its target is not ready before its source is ranked, however early it is mentioned."""
    shape = FlowGraph(["b", "a"], [ArrowGroup(source="a", targets=("b",), max=2)])

    assert list(shape.rank) == ["a", "b"]
    assert shape.entries == ["a"]
    assert not shape.is_loop(0, "b")


def test_a_node_only_max_arrows_enter_is_ready_with_its_first_source() -> None:
    """On a cycle one ranked source is enough, and such an arrow upwards is forward."""
    shape = graph("a -> b 2", "b -> c", "c -> a 5", "c -> b 1")

    assert list(shape.rank) == ["a", "b", "c"]
    assert [shape.is_loop(i, group.targets[0]) for i, group in enumerate(shape.groups)] == [False, False, True, True]
    assert shape.entries == ["a"]


def test_a_list_may_hold_a_loop_arrow_and_a_forward_one() -> None:
    """The group counts as a loop group; each arrow is judged by itself."""
    shape = graph("a -> b", "b -> a c 2")

    assert shape.is_loop_group(1)
    assert shape.is_loop(1, "a")
    assert not shape.is_loop(1, "c")


def test_an_arrow_to_itself_is_a_loop_arrow() -> None:
    """The target does not rank above the source, since it is the source."""
    shape = graph("a -> a 2", "a -> b")

    assert shape.is_loop(0, "a")
    assert shape.cyclic_parts == [frozenset("a")]


def test_each_part_has_its_entries() -> None:
    """Nodes nobody leads to start; a part that is one loop starts at its first-mentioned `max` target."""
    shape = graph("a -> b", "w -> r", "r -> w 3", "x -> y", "y -> x")

    assert shape.parts == [["a", "b"], ["w", "r"], ["x", "y"]]
    assert shape.entries == ["a", "w"]


def test_an_unbounded_cycle_still_gets_ranks() -> None:
    """Such a flow is wrong, and a check says so; the graph answers nevertheless."""
    shape = graph("a -> b", "b -> c", "c -> b", "c -> d")

    assert list(shape.rank) == ["a", "b", "c", "d"]
    assert shape.cyclic_parts == [frozenset("bc")]


def test_arrows_come_in_source_order() -> None:
    """Both from a node, as groups, and into it, as single arrows; a name written twice in a list is one arrow."""
    shape = graph("b -> d", "a -> c d", "b -> d d 2")

    assert shape.groups_of("b") == [0, 2]
    assert shape.arrows_into("d") == [(0, "b"), (1, "a"), (2, "b")]


def test_upstream_is_what_can_still_mark_the_node() -> None:
    """A branch that loops back before the join counts, the way through the node itself does not."""
    shape = graph("a -> b c", "b -> x", "x -> y", "x -> d", "y -> b 2", "c -> d", "d -> c 1")

    assert upstream(shape, "d") == {"a", "b", "c", "x", "y"}
    assert upstream(shape, "c") == {"a"}
    assert upstream(shape, "a") == set()


def test_nobody_waits_for_a_loop_arrow() -> None:
    """The last arrow must be forward: what only comes back along a loop arrow is not upstream."""
    shape = graph("w -> r", "r -> w 3", "r -> p")

    assert upstream(shape, "w") == set()
    assert upstream(shape, "r") == {"w"}
    assert upstream(shape, "p") == {"w", "r"}


@st.composite
def shapes(draw: st.DrawFn) -> FlowGraph:
    names = "abcdefgh"[: draw(st.integers(2, 8))]
    groups = draw(
        st.lists(
            st.builds(
                lambda source, targets, bound: ArrowGroup(source=source, targets=tuple(targets), max=bound),
                st.sampled_from(names),
                st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True),
                st.sampled_from([None, None, 1, 2]),
            ),
            max_size=12,
        )
    )
    return FlowGraph(draw(st.permutations(names)), groups)


def naive_upstream(shape: FlowGraph, node: str) -> set[str]:
    """Rule 3 read literally: walk back from every forward arrow, never through the node."""
    found: set[str] = set()
    front = [source for i, source in shape.arrows_into(node) if not shape.is_loop(i, node)]
    while front:
        name = front.pop()
        if name != node and name not in found:
            found.add(name)
            front += [source for _, source in shape.arrows_into(name)]
    return found


def naive_rank(shape: FlowGraph) -> list[str]:
    """The order of spec rule "Rank", read literally: the first-mentioned ready node, again and again."""
    ranked: list[str] = []

    def on_cycle(i: int, node: str) -> bool:
        source = shape.groups[i].source
        return source == node or source in naive_reach(shape, node)

    def cyclic_only(node: str) -> bool:
        arrows = shape.arrows_into(node)
        return bool(arrows) and all(shape.groups[i].max is not None and on_cycle(i, node) for i, _ in arrows)

    def ready(node: str) -> bool:
        arrows = shape.arrows_into(node)
        if cyclic_only(node):
            return any(source in ranked for _, source in arrows)
        return all(source in ranked for i, source in arrows if not (shape.groups[i].max and on_cycle(i, node)))

    while left := [node for node in shape.nodes if node not in ranked]:
        ranked.append(next(iter([*filter(ready, left), *filter(cyclic_only, left), *left])))
    return ranked


@given(shapes())
def test_upstream_is_what_a_plain_search_finds(shape: FlowGraph) -> None:
    """The masks over the condensation and the walk that avoids the node agree."""
    for node in shape.nodes:
        assert upstream(shape, node) == naive_upstream(shape, node)


@given(shapes())
def test_ranks_are_what_the_rule_says_word_for_word(shape: FlowGraph) -> None:
    """The heap and the rule, applied step by step, agree on every shape, broken ones included."""
    assert list(shape.rank) == naive_rank(shape)
    assert sorted(shape.rank.values()) == list(range(len(shape.nodes)))


@given(shapes())
def test_who_leads_to_whom_is_what_a_plain_search_finds(shape: FlowGraph) -> None:
    """Two nodes share a cyclic part if each leads to the other; masks and search agree on all pairs."""
    reached = {node: naive_reach(shape, node) for node in shape.nodes}

    expected = {frozenset([n, *(m for m in reached[n] if n in reached[m])]) for n in shape.nodes if n in reached[n]}
    assert set(shape.cyclic_parts) == expected
    assert len(shape.cyclic_parts) == len(expected)
    for node in shape.nodes:
        assert shape.beyond([node]) == {node, *reached[node]}
        assert {other for other in shape.nodes if shape.leads_to(node, other)} == {node, *reached[node]}


def naive_reach(shape: FlowGraph, node: str) -> set[str]:
    """All that a path of at least one arrow leads to."""
    found: set[str] = set()
    front = [node]
    while front:
        for i in shape.groups_of(front.pop()):
            front += [t for t in shape.groups[i].targets if t not in found]
            found.update(shape.groups[i].targets)
    return found


@given(shapes())
def test_nodes_loop_that_a_loop_arrow_leaves(shape: FlowGraph) -> None:
    """One by one or all together, in mention order."""
    assert shape.looping == [node for node in shape.nodes if any(map(shape.is_loop_group, shape.groups_of(node)))]


@given(shapes())
def test_a_group_leads_up_when_all_its_targets_rank_above_its_source(shape: FlowGraph) -> None:
    """So what leads up closes no cycle."""
    up = [i for i in range(len(shape.groups)) if shape.leads_up(i)]

    for i, group in enumerate(shape.groups):
        assert (i in up) == all(shape.rank[target] > shape.rank[group.source] for target in group.targets)
    assert FlowGraph([], [shape.groups[i] for i in up]).cyclic_parts == []


def _chain(size: int) -> Sequence[str]:
    return [f"n{i} -> n{i + 1}" for i in range(size)]


def _fan(size: int) -> Sequence[str]:
    return ["a -> " + " ".join(f"b{i}" for i in range(size)), *(f"b{i} -> z" for i in range(size))]


def _pairs(size: int) -> Sequence[str]:
    return [line for i in range(size // 2) for line in (f"n{i} -> m{i}", f"m{i} -> n{i} 2", f"m{i} -> n{i + 1}")]


@pytest.mark.parametrize("arrows", [_chain(10_000), _fan(10_000), _pairs(10_000)], ids=["chain", "fan", "pairs"])
def test_ten_thousand_nodes_are_quick(arrows: Sequence[str]) -> None:
    """Ranks, entries and every node's upstream of a big flow take about a second at most, not minutes."""
    shape = graph(*arrows)
    begin = time.process_time()

    assert len(shape.rank) == len(shape.nodes)
    assert len(shape.entries) == 1
    last = shape.nodes[max(range(len(shape.nodes)), key=lambda n: shape.rank[shape.nodes[n]])]
    assert shape.upstream(last) == (1 << shape.rank[last]) - 1
    for node in shape.nodes:
        shape.upstream(node)
    assert time.process_time() - begin < 5
