import pytest
from teams import checked, codes, findings, letters, mended

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


def test_a_cycle_that_nothing_starts_is_an_error() -> None:
    """Its way back would be bounded, but no `max` says which arrow that is, so nobody would start."""
    text = letters("a -> b\nb -> a [when b.v == x]")

    assert findings(text) == ["error[unbounded-cycle] b -> a: nothing bounds the cycle a -> b -> a; nothing starts it"]
    assert checked(mended(text, checked(text)[0].fix)) == []


@pytest.mark.parametrize(
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
