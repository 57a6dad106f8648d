import pytest
from msgspec.structs import replace
from teams import checked, codes, findings, letters, team, topology

from coterie.team.topology.checks import check
from coterie.team.topology.model import Agent, Output, Topology

pytestmark = pytest.mark.once


def test_an_agent_has_a_model() -> None:
    """The caret stands under the agent's name."""
    text = team("a -> b", "b", blocks="  agent a { tools: [Read] }")

    assert findings(text) == ["error[no-model] a: agent 'a' has no model"]
    assert checked(text)[0].hint == 'write model: NAME, or extensions { coterie { command: ["program"] } }'


@pytest.mark.parametrize("who", ["backend: scripted", 'command: ["true"]', 'topology: "inner.at"'])
def test_an_extension_says_who_thinks_in_place_of_a_model(who: str) -> None:
    """Any of backend, command and topology."""
    text = f"topology t : [pipeline] {{\n  agent a {{ extensions {{ coterie {{ {who} }} }} }}\n  flow {{ }}\n}}"

    assert "no-model" not in codes(text)


def test_an_extension_that_says_something_else_does_not() -> None:
    """A time-out is not somebody who thinks, and the topology's own extension speaks of no agent."""
    text = (
        "topology t : [pipeline] {\n  agent a { invocation: manual  extensions { coterie { timeout: 3s } } }\n"
        "  extensions { coterie { backend: scripted } }\n}"
    )

    assert codes(text) == ["no-model"]


def test_an_orchestrator_has_a_model_too() -> None:
    """It is an agent."""
    text = "topology t : [pipeline] {\n  orchestrator { handles: [a] }\n  agent a { model: m }\n}"

    assert findings(text) == ["error[no-model] orchestrator: the orchestrator has no model"]


def test_an_output_is_declared_once() -> None:
    """A topology made in Python is held to that as well."""
    twice = Agent(name="a", model="m", outputs=(Output(name="v"), Output(name="v")))

    (found,) = check(Topology(name="t", nodes=(twice,)))
    assert (found.code, found.message) == ("duplicate-output", "agent 'a' declares the output 'v' twice")


def test_an_enum_has_values() -> None:
    """Otherwise no reply could fit it."""
    empty = Agent(name="a", model="m", outputs=(Output(name="v", type="enum"),))

    (found,) = check(Topology(name="t", nodes=(empty,)))
    assert (found.code, found.message) == ("empty-enum", "the output 'v' of agent 'a' has no values")


def test_only_gates_bounce_back() -> None:
    """An agent stands on no arrow."""
    team_ = topology(letters("a -> b"))
    agent, *rest = team_.nodes
    bouncing = replace(team_, nodes=(replace(agent, on_fail="bounce-back"), *rest))

    (found,) = check(bouncing)
    assert (found.code, found.message) == ("bounce-back-without-gate", "agent 'a' cannot bounce work back")


def test_a_gate_that_runs_nothing_is_reported() -> None:
    """It would let everything through."""
    text = team("a -> b", "a\nb", blocks="  gates { gate g { after: a  before: b  checks: [style] } }")

    assert findings(text) == ["warning[empty-gate] g: gate 'g' runs no command, so it lets everything through"]
