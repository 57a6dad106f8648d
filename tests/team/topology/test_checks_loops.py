import pytest
from bundles import bundle
from teams import checked, codes, findings, letters, mended, topology

from coterie.team.topology.checks import Facts

pytestmark = pytest.mark.once

PHASES = {"a": "phase: 1", "b": "phase: 1", "c": "phase: 2"}


def test_a_cycle_without_a_bound_is_named_once() -> None:
    """The arrow that closes it is marked; the others are not blamed."""
    text = letters("a -> b -> c -> a")

    assert findings(text) == ["error[unbounded-cycle] c -> a: nothing bounds the cycle a -> b -> c -> a"]
    assert checked(text)[0].hint == "give the arrow that goes back a bound: c -> a [max 3]"


def test_each_unbounded_cycle_is_named() -> None:
    """Two faults, two diagnostics."""
    assert findings(letters("s -> a -> b -> a\nb -> c -> b")) == [
        "error[unbounded-cycle] b -> a: nothing bounds the cycle a -> b -> a",
        "error[unbounded-cycle] c -> b: nothing bounds the cycle b -> c -> b",
    ]


def test_an_agent_that_leads_to_itself_is_a_cycle() -> None:
    """The shortest there is."""
    assert findings(letters("a -> a")) == ["error[unbounded-cycle] a -> a: nothing bounds the cycle a -> a"]


def test_what_hangs_behind_a_cycle_is_not_blamed() -> None:
    """Only what lies on it."""
    assert codes(letters("s -> a -> b -> a\nb -> c -> d -> e")) == ["unbounded-cycle"]


def test_a_conditional_way_back_is_bounded_by_ten() -> None:
    """As in the page's example: a warning that says so, and a fix that writes it."""
    text = letters('a -> b -> c\nc -> b  [when c.verdict == "revise"]')

    assert findings(text) == [
        "warning[implied-max] c -> b: nothing bounds the cycle b -> c -> b: c -> b counts as 'max 10'"
    ]
    found = checked(text)[0]
    assert found.hint == "write ', max 10' after its condition"
    assert mended(text, found.fix).count('[when c.verdict == "revise", max 10]') == 1
    assert checked(mended(text, found.fix)) == []


def test_two_cycles_that_share_a_way_back_are_one_warning() -> None:
    """The arrow is bounded once."""
    text = letters("s -> [a, b]\na -> c\nb -> c\nc -> [a, b] [when c.v == x]")

    assert codes(text) == ["implied-max"]


def test_a_conditional_cycle_that_nothing_enters_is_bounded_by_ten() -> None:
    """Its implied bound counts like a written one, so the flow starts where only that arrow leads."""
    text = letters("a -> b\nb -> a [when b.v == x]")

    assert findings(text) == [
        "warning[implied-max] b -> a: nothing bounds the cycle a -> b -> a: b -> a counts as 'max 10'"
    ]
    assert checked(mended(text, checked(text)[0].fix)) == []
    assert Facts(topology(text)).graph.entries == ["a"]


@bundle(
    "flow",
    [
        "a -> b\nb -> a [when b.v == x, max 1]",
        "a -> b [max 2]\nb -> c\nc -> a",
        "a -> b -> c\nb -> a [when b.v == x, max 1, per s]\nc -> b [when c.v == x, max 2]\ns -> a",
        "a -> b\nb -> a [when b.v == x, max 1, per c]\nb -> c [when b.v == y]\nc -> a [when c.v == x, max 1]",
        "a -> b\nb -> a [when b.v == x, max 1, per phase]\nb -> c [when b.v == y]\nc -> a [when c.v == x, max 1]",
        "a -> b -> a [max 2, per phase]",
    ],
    ids=["way back", "way there", "an agent outside", "nested, per agent", "nested, per phase", "all in one phase"],
)
def test_this_cycle_is_bounded(flow: str) -> None:
    """By a count that does not begin anew inside it."""
    found = codes(letters(flow, **PHASES))

    assert "unbounded-cycle" not in found
    assert "implied-max" not in found


def test_a_scope_without_a_count_bounds_nothing() -> None:
    """It has no effect, also where a count would last."""
    found = codes(letters("a -> b -> a [per phase]", **PHASES))

    assert {"unbounded-cycle", "scope-without-max"} <= set(found)


@pytest.mark.parametrize(
    ("flow", "scope"),
    [
        ("a -> b -> a [max 2, per a]", "per a"),
        ("a -> b -> c -> a [max 2, per phase]", "per phase"),
    ],
)
def test_a_count_that_begins_anew_is_no_bound(flow: str, scope: str) -> None:
    """The agent, or the phase, comes round with the cycle."""
    (found,) = [each for each in checked(letters(flow, **PHASES)) if each.code == "unbounded-cycle"]

    assert found.message.endswith(f": the count '{scope}' is reset inside it")
    assert found.hint == "count per run, or per agent outside the cycle"


def test_a_count_that_a_round_begins_anew_from_outside_is_no_bound() -> None:
    """`f` lies on no cycle but the one that `max 2` bounds, and yet every round of the other starts it."""
    flow = "f -> b [when f.v == x, max 2]\na -> [f, d]\nd -> a [max 2, per f]\nb -> [f, d, c]\nc -> d\na -> b"

    assert "unbounded-cycle" in codes(letters(flow))


def test_a_long_cycle_is_cut_in_the_middle() -> None:
    """A message stays readable."""
    names = "abcdefghijklmnopqrst"
    (found,) = checked(letters(" -> ".join([*names, "a"])))

    assert found.message == "nothing bounds the cycle a -> b -> c -> d -> e -> f -> … -> s -> t -> a"


def test_two_ways_forward_out_of_a_spent_loop_are_reported() -> None:
    """The first will be taken, whatever its condition says."""
    flow = "a -> b\nb -> a [when b.v == again, max 2]\nb -> c [when b.v == good]\nb -> d [when b.v == bad]"

    assert findings(letters(flow)) == [
        "warning[ambiguous-exhaustion] b -> a: "
        "when b -> a reaches its max, b -> c fires regardless of its condition, not b -> d"
    ]


@pytest.mark.parametrize(
    "flow",
    [
        "a -> b\nb -> a [when b.v == again, max 2]\nb -> c [when b.v == good]",
        "a -> b\nb -> a [when b.v == again, max 2, on-max fail]\nb -> c [when b.v == good]\nb -> d [when b.v == bad]",
        "a -> b\nb -> a [when b.v == again, max 2]\nb -> c [when b.v == good]\nb -> c [when b.v == bad]",
    ],
    ids=["one way", "it fails", "the same target"],
)
def test_this_exhaustion_is_clear(flow: str) -> None:
    """There is one way to go on, or none."""
    assert codes(letters(flow)) == []


def test_an_arrow_that_always_fires_beside_a_loop_is_reported() -> None:
    """Its target runs once, after the loop."""
    text = letters("w -> r -> p\nr -> w [when r.v == again, max 2]")

    assert findings(text) == [
        "warning[unconditional-beside-loop] r -> p: r -> p has no condition beside the loop r -> w"
    ]
    assert checked(text)[0].hint == "p will run once, after the loop"


@bundle(
    ("flow", "serial"),
    [
        ("a -> [b, c] -> d\nd -> a [max 2]\nd -> e", True),
        ("a -> b\na -> c\n[b, c] -> d\nd -> a [max 2]\nd -> e", True),
        ("s -> a -> [b, c] -> d -> e\nd -> s [when d.v == x, max 2]", True),
        ("a -> [b, c] -> d\nd -> [b, c] [max 2]\nd -> e", False),
        ("a -> [b, c] -> d -> e\ne -> d [max 2]", False),
        ("a -> [b, c]\nb -> c -> d -> a [max 2]\nd -> e", False),
        ("s -> [a, b]\na -> c -> a [max 2]", False),
        ("p -> [a, b]\na -> i [when a.v == x]\na -> p [when a.v == y, max 2]\nb -> i", True),
        ("p -> [b, a]\na -> i [when a.v == x]\na -> p [when a.v == y, max 2]\nb -> i", False),
    ],
)
def test_a_way_back_that_makes_branches_wait_for_each_other_is_reported(flow: str, serial: bool) -> None:
    """The arrow that does it is named; branches that wait for each other anyway, or do not, are not reported."""
    found = [code for code in codes(letters(flow)) if code == "serial-fan-out"]

    assert found == ["serial-fan-out"] * serial


def test_branches_of_which_one_leads_back_are_reported_with_the_order_in_which_they_start_at_once() -> None:
    """The other branch would wait for it, since it may be marked again; named first it starts at once."""
    text = letters("p -> [a, b, c]\na -> i [when a.v == x]\na -> p [when a.v == y, max 2]\n[b, c] -> i")
    [found] = [one for one in checked(text) if one.code == "serial-fan-out"]

    assert found.message == "'b' starts after 'a', not beside it: a -> p may lead from one to the other"
    assert found.hint == "both start at once if 'b' is mentioned before 'a' in the flow: … -> [b, a, c]"


def test_an_entry_that_is_none_is_reported_and_the_flow_runs() -> None:
    """The interface of a topology names where others come in; where it starts is what its arrows say."""
    text = letters("a -> b").replace("  flow {", "  interface { entry: b }\n  flow {")

    assert codes(text) == ["not-an-entry"]
    assert not any(found.is_error for found in checked(text))
