"""What the parameters of a function get: of several values with a name the nearest and latest."""

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest
from asking import Heard, agent, request

from coterie.agents.actors.functions import AgentFunction, FunctionTurn, _given
from coterie.agents.backends.base import Answer
from coterie.errors import TurnFailure
from coterie.team.planning.plan import Wanted
from coterie.team.topology.typed.functions import signature_of
from coterie.team.topology.typed.values import fields_of


def by(agent: str, text: str = "", **outputs: Any) -> dict[str, Any]:
    """The answer of *agent*."""
    return {"agent": agent, "text": text, "outputs": outputs}


EARLY, LATE, READ = by("early", score=1), by("late", score=2), by("a-reader", "read", score=3, note="n")
ABOVE = by("above", score=4, depth=5)
CONTEXT = {
    "inputs": [EARLY, LATE],
    "reads": [READ],
    "input": {"topic": "bees", "note": "of the input"},
    "given": {"prompt": "write", "input": {"depth": 6, "width": 7}, "answers": [ABOVE]},
}


@pytest.mark.parametrize(
    ("name", "type_", "context", "found"),
    [
        ("prompt", str, CONTEXT, (True, "write")),
        ("prompt", str, {"task": "alone"}, (True, "alone")),
        ("score", int, CONTEXT, (True, 2)),
        ("score", int, CONTEXT | {"inputs": []}, (True, 3)),
        ("score", int, CONTEXT | {"inputs": [], "reads": []}, (True, 4)),
        ("a_reader", str, CONTEXT, (True, "read")),
        ("note", str, CONTEXT, (True, "n")),
        ("note", str, CONTEXT | {"reads": []}, (True, "of the input")),
        ("topic", str, CONTEXT, (True, "bees")),
        ("depth", int, CONTEXT, (True, 5)),
        ("width", int, CONTEXT, (True, 7)),
        ("item", int, CONTEXT | {"item": 8, "item_of": "pages"}, (True, 8)),
        ("page", int, CONTEXT | {"item": 8, "item_of": "pages"}, (True, 8)),
        ("question", str, CONTEXT, (True, "write")),
        ("item", int, CONTEXT, (False, None)),
        ("nothing", str, CONTEXT, (False, None)),
    ],
)
def test_a_parameter_gets_the_nearest_value_of_its_name(
    name: str, type_: Any, context: dict[str, Any], found: tuple[bool, Any]
) -> None:
    """Answers before the input, one's own before those of the runs above, of several answers the latest."""
    assert _given(name, type_, context) == found


def test_a_value_of_another_type_fails_the_turn() -> None:
    """With the name of the parameter."""
    with pytest.raises(TurnFailure, match="the parameter 'topic' does not have its type"):
        _given("topic", int, CONTEXT)


@dataclass
class Found:
    """An answer with one field, of the name that a plain value would have."""

    result: str


def finds() -> Found:
    return Found("bees")


def tells() -> list[str]:
    return ["bees"]


@pytest.mark.parametrize(("call", "outputs"), [(finds, {"result": "bees"}), (tells, {"result": ["bees"]})])
def test_an_answer_is_its_fields_or_else_one_result(call: Any, outputs: dict[str, Any]) -> None:
    """Whatever the name of a field."""

    async def main() -> Any:
        signature = signature_of(call)
        function = AgentFunction(call, signature, False, fields_of(signature.result) is not None)
        asked = request(agent("a", outputs=(Wanted(name="result", type="any"),)))
        return await FunctionTurn(function, asked, Heard()).result()

    found = asyncio.run(main())
    assert isinstance(found, Answer), found
    assert found.outputs == outputs
