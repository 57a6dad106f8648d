import sys

import pytest
from teams import codes, findings, letters, team

from coterie.team.topology.checks import check
from coterie.team.topology.conditions import Condition, Operator
from coterie.team.topology.model import Agent, ArrowGroup, Flow, Output, Topology

pytestmark = pytest.mark.once


def test_two_parts_without_an_arrow_between_them_are_reported() -> None:
    """Each starts for itself, which may not be meant."""
    assert findings(letters("a -> b\nc -> d")) == [
        "warning[unconnected-parts] c: no arrow connects 'a' and 'b' with 'c' and 'd'"
    ]


def test_many_parts_are_one_warning() -> None:
    """It counts them."""
    assert findings(letters("a -> b\nc -> d\ne -> f")) == [
        "warning[unconnected-parts] c: the flow has 3 unconnected parts: no arrow connects 'a' and 'b' with 'c' and 'd'"
    ]


def test_several_entries_of_one_part_are_fine() -> None:
    """They start together."""
    assert codes(letters("[a, b] -> c")) == []


def test_a_loop_that_nothing_leads_into_is_unreachable() -> None:
    """The part has an entry elsewhere, so the loop does not start by itself."""
    flow = "a -> x\nw -> r\nr -> w [when r.v == again, max 2]\nr -> x [when r.v == good]"

    assert findings(letters(flow)) == [
        "warning[unreachable-node] w: nothing leads to 'w' and 'r' from where the flow starts"
    ]


def test_a_loop_by_itself_starts() -> None:
    """At the first-mentioned node that only `max` arrows enter."""
    assert codes(letters("w -> r\nr -> w [when r.v == again, max 3]")) == []


@pytest.mark.parametrize("after", ["a", "b"])
def test_a_gate_stands_on_an_arrow(after: str) -> None:
    """One that is there."""
    gate = f"  gates {{ gate g {{ after: {after}  before: b  run: check }} }}"
    found = findings(letters("a -> b -> c", blocks=gate))

    assert found == (
        [] if after == "a" else ["error[no-such-arrow] b: gate 'g' is on b -> b, but the flow has no such arrow"]
    )


def test_a_gate_on_no_arrow_says_which_there_are() -> None:
    """The hint lists where `after` leads."""
    gate = "  gates { gate g { after: a  before: c  run: check } }"
    text = letters("a -> b -> c", blocks=gate)

    assert findings(text) == ["error[no-such-arrow] c: gate 'g' is on a -> c, but the flow has no such arrow"]


def test_a_gate_behind_a_node_outside_the_flow_is_an_error() -> None:
    """It would never run."""
    text = team("a -> b", "a\nb\nz invocation: manual", blocks="  gates { gate g { after: z  run: check } }")

    assert findings(text) == ["error[no-such-arrow] z: gate 'g' comes after 'z', which is not in the flow"]


def test_a_gate_says_where_it_stands() -> None:
    """Unless the flow names it."""
    gate = "  gates { gate check { run: x } }"

    assert findings(letters("a -> b", blocks=gate)) == [
        "error[gate-without-place] check: gate 'check' has no position in the flow"
    ]
    assert codes(letters("a -> check -> b", blocks=gate)) == []


def test_a_gate_of_a_misspelt_flow_is_not_blamed() -> None:
    """The arrow is missing because of the name."""
    gate = "  gates { gate g { after: a  before: b  run: check } }"

    assert codes(team("a -> bb", "a\nb", blocks=gate)) == ["unknown-agent"]


def ladder(n: int) -> Topology:
    """Fan-outs, joins and loops over *n* agents, with conditions on agents further up."""
    verdict = (Output(name="v", type="enum", values=("x", "y")),)
    agents = tuple(Agent(name=f"n{i}", model="m", outputs=verdict) for i in range(n))
    groups: list[ArrowGroup] = []
    for i in range(0, n - 4, 4):
        a, b, c, d, e = (f"n{k}" for k in range(i, i + 5))
        back, on = Condition(d, "v", Operator.EQ, "x"), Condition(b, "v", Operator.EQ, "y")
        groups += [
            ArrowGroup(source=a, targets=(b, c)),
            ArrowGroup(source=b, targets=(d,)),
            ArrowGroup(source=c, targets=(d,)),
            ArrowGroup(source=d, targets=(a,), when=back, max=2),
            ArrowGroup(source=d, targets=(e,), when=on),
        ]
    mentions = dict.fromkeys(name for group in groups for name in (group.source, *group.targets))
    return Topology(
        name="t", patterns=("fan-out",), nodes=agents, flow=Flow(groups=tuple(groups), mentions=tuple(mentions))
    )


def test_ten_times_the_agents_are_ten_times_the_work() -> None:
    """All rules together are near linear, counted in calls of functions."""

    def calls(n: int) -> int:
        team_, made = ladder(n), [0]

        def count(frame: object, event: str, arg: object) -> None:
            made[0] += 1

        sys.setprofile(count)
        try:
            check(team_)
        finally:
            sys.setprofile(None)
        return made[0]

    assert calls(2001) < 12 * calls(201)
