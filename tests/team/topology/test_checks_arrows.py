import pytest
from bundles import bundle
from msgspec.structs import replace
from teams import checked, codes, findings, letters, mended, topology

from coterie.team.topology.checks import check

pytestmark = pytest.mark.once

FAN_OUT = "Fan-out requires the topology to declare the fan-out pattern"
VERDICT = "outputs { verdict: approve | revise | reject }"


def test_a_list_target_is_a_fan_out() -> None:
    """The header must say so; one diagnostic, however many fan-outs there are."""
    text = letters("a -> [b, c]\n[b, c] -> d\nd -> [e, f]", patterns="pipeline")

    assert findings(text) == [
        f"error[fan-out-not-declared] a -> [b, c: a -> [b, c] leads to several nodes at once. {FAN_OUT}"
    ]
    assert checked(text)[0].hint == "write : [pipeline, fan-out] in the header"


def test_two_arrows_that_always_fire_are_a_fan_out() -> None:
    """Forward, without a condition, to different targets."""
    text = letters("a -> b\na -> c", patterns="pipeline")

    assert findings(text) == [f"error[fan-out-not-declared] a -> c: a -> b and a -> c both always fire. {FAN_OUT}"]


@bundle(
    "flow",
    [
        "a -> b\na -> c [when a.v == x]",
        "a -> b -> c\nb -> a [max 2]",
        "a -> [b] -> c",
        "[a, b] -> c",
        "a -> b [max 1]\na -> b",
    ],
    ids=["one has a condition", "one goes back", "a list of one", "a list on the left", "the same target"],
)
def test_this_is_no_fan_out(flow: str) -> None:
    """Nothing is sent to several at once."""
    assert "fan-out-not-declared" not in codes(letters(flow, patterns="pipeline"))


@pytest.mark.parametrize("patterns", ["pipeline", ""])
def test_the_fan_out_fix_declares_it(patterns: str) -> None:
    """After the fix nothing is left to say."""
    text = letters("a -> [b, c]", patterns=patterns)

    assert checked(mended(text, checked(text)[0].fix)) == []


def test_max_is_positive() -> None:
    """In a topology made in Python too."""
    team = topology(letters("a -> b [max 2]"))
    assert team.flow is not None
    zero = replace(team, flow=replace(team.flow, groups=(replace(team.flow.groups[0], max=0),)))

    (found,) = check(zero)
    assert (found.code, found.message) == ("bad-max", "'max' cannot be '0'")


@pytest.mark.parametrize(("attribute", "word"), [("per phase", "phase"), ("on-max fail", "fail")])
def test_a_scope_without_a_bound_is_reported(attribute: str, word: str) -> None:
    """It counts nothing."""
    name = attribute.split()[0]

    assert findings(letters(f"a -> b [{attribute}]")) == [
        f"warning[scope-without-max] {word}: '{name}' has no effect: a -> b has no 'max'"
    ]


def test_a_scope_without_a_bound_is_reported_beside_an_endless_cycle() -> None:
    """Only the arrow that the other rule is about is left out."""
    found = codes(letters("a -> b [per phase]\nb -> c\nc -> b"))

    assert sorted(found) == ["scope-without-max", "unbounded-cycle"]


def test_a_value_outside_the_enum_is_an_error() -> None:
    """It points at the value; that a value is not covered follows from it."""
    text = letters("a -> b [when a.verdict == aprove]\na -> c [when a.verdict == revise]", a=VERDICT)

    assert findings(text) == ["error[unknown-value] aprove: 'aprove' is not a value of a.verdict"]
    assert checked(text)[0].hint == "did you mean 'approve'?"


def test_a_value_unlike_any_other_is_told_what_there_is() -> None:
    """The hint lists the members."""
    (found,) = checked(letters("a -> b [when a.verdict != maybe]\na -> c", a=VERDICT))

    assert found.hint == "it is 'approve', 'revise' or 'reject'"


@bundle(
    ("outputs", "condition"),
    [
        ("v: 1 | 2", "v == 1.0"),
        ("v: 1 | 2", 'v == "1"'),
        ("v: boolean", "v == true"),
        ("v: boolean", 'v == "false"'),
        ("v: approve | revise", 'v == " approve "'),
        ("v: approve | revise", 'V == "Approve."'),
        ("v: text", "v == anything"),
        ("v: number", "v >= 2"),
        ("v: 1 | 2", "v > 7"),
        ("v: any", "v < 2"),
    ],
)
def test_this_can_hold(outputs: str, condition: str) -> None:
    """A comparison follows the rules of conditions: numbers as numbers, all else as trimmed text."""
    found = codes(letters(f"a -> b [when a.{condition}]\na -> c", a=f"outputs {{ {outputs} }}"))

    assert found == []


def test_a_boolean_is_true_or_false() -> None:
    """Nothing else can hold."""
    text = letters("a -> b [when a.done == yes]\na -> c", a="outputs { done: boolean }")

    assert findings(text) == ["error[unknown-value] yes: 'yes' is not a value of a.done"]
    assert checked(text)[0].hint == "it is 'true' or 'false'"


def test_a_field_that_is_not_declared_is_an_error() -> None:
    """Only for an agent that declares outputs at all."""
    text = letters("a -> b [when a.verdikt == approve]\na -> c", a=VERDICT)

    assert findings(text) == ["error[unknown-output] a.verdikt == approve: agent 'a' declares no output 'verdikt'"]
    assert checked(text)[0].hint == "did you mean 'verdict'?"
    assert codes(letters("a -> b [when a.verdikt == approve]\na -> c")) == []


def test_a_gate_gives_passed() -> None:
    """And nothing else."""
    blocks = "  gates { gate check { run: x } }"

    assert codes(letters("a -> check -> b\ncheck -> c [when check.passed == false]", blocks=blocks)) == []
    assert findings(letters("a -> check\ncheck -> b [when check.score > 1]", blocks=blocks)) == [
        "error[unknown-output] check.score > 1: gate 'check' declares no output 'score'"
    ]


@pytest.mark.parametrize(
    ("outputs", "condition", "message"),
    [
        ("w: number", "v < high", "'<' compares numbers, but 'high' is not a number"),
        ("v: low | high", "v >= 2", "'>=' compares numbers, but a.v is 'low' or 'high'"),
        ("v: boolean", "v > 0", "'>' compares numbers, but a.v is a boolean"),
        ("v: text", "v > 0", "'>' compares numbers, but a.v is a text"),
    ],
)
def test_order_needs_numbers_on_both_sides(outputs: str, condition: str, message: str) -> None:
    """Such a condition could never hold."""
    flow = f"a -> b [when {'c' if outputs[0] == 'w' else 'a'}.{condition}]\na -> c -> a [max 1]"
    found = [each for each in checked(letters(flow, a=f"outputs {{ {outputs} }}")) if each.is_error]

    assert [(each.code, each.message) for each in found] == [("not-a-number", message)]


@pytest.mark.parametrize(
    "flow",
    [
        "a -> b -> c\nc -> d [when a.v == x]",
        "a -> b -> c\nc -> a [when c.v == x, max 2]\na -> d [when c.v == y]",
    ],
    ids=["upstream", "upstream by a loop"],
)
def test_a_condition_may_look_upstream(flow: str) -> None:
    """Loop arrows count as ways."""
    assert "condition-not-upstream" not in codes(letters(flow))


def test_a_condition_that_looks_elsewhere_is_reported() -> None:
    """The agent may not have run yet, or never."""
    text = letters("a -> [b, c]\nb -> d [when c.v == x]")

    assert findings(text) == [
        "warning[condition-not-upstream] c.v == x: 'c' does not come before 'b': 'c.v == \"x\"' may never hold"
    ]


def test_a_condition_on_an_agent_outside_the_flow_is_reported() -> None:
    """Once for the condition, once for the agent that nothing starts."""
    assert codes(letters("a -> b\nb -> c [when z.v == x]", z="invocation: manual")) == ["condition-not-upstream"]


def test_a_value_that_no_arrow_covers_is_reported() -> None:
    """The path would end there, in silence."""
    text = letters("a -> b [when a.verdict == approve]\na -> c [when a.verdict == revise]", a=VERDICT)

    assert findings(text) == [
        "warning[uncovered-output] a.verdict == approve: no arrow from 'a' covers a.verdict == 'reject'"
    ]


@bundle(
    "flow",
    [
        "a -> b [when a.verdict == approve]\na -> c [when a.verdict != approve]",
        "a -> b [when a.verdict == approve]\na -> c",
        "a -> b -> c [when a.verdict == reject]\nb -> d [when a.verdict != reject]",
        "b -> a\na -> b [when a.verdict == revise, max 2]",
        "a -> b [when a.verdict == approve]\na -> c [when a.other == x]",
    ],
    ids=["!= covers the rest", "no condition", "an agent upstream", "the end of a loop", "two fields"],
)
def test_these_outputs_are_covered(flow: str) -> None:
    """Or nothing can be said."""
    outputs = "outputs { verdict: approve | revise | reject  other: text }"

    assert "uncovered-output" not in codes(letters(flow, a=outputs))


def test_a_value_is_uncovered_where_some_of_the_arrows_loop() -> None:
    """Only a node whose arrows all lead back may end its path in silence."""
    text = letters("c -> a -> b [when a.verdict == approve]\na -> c [when a.verdict == revise, max 2]", a=VERDICT)

    assert findings(text) == [
        "warning[uncovered-output] a.verdict == approve: no arrow from 'a' covers a.verdict == 'reject'"
    ]
