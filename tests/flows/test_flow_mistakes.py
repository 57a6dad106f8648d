"""Mistakes of beginners: each message says what was found and what to write."""

from collections.abc import Callable
from typing import Any, Literal

import flow_agents as functions
import pytest
from bundles import bundle

import coterie
from coterie import agent, flow, gate, human

a, b, c = (agent(name, model="haiku") for name in "abc")
judge = agent("judge", model="haiku", outputs={"verdict": Literal["yes", "no"]})


def closure(inner_class: bool = False) -> Callable[..., Any]:
    def inner(prompt: str) -> str:
        return prompt

    class Inner(coterie.AgentProcess):
        pass

    return Inner if inner_class else inner


def main_function() -> Callable[..., Any]:
    def work(prompt: str) -> str:
        return prompt

    work.__module__, work.__qualname__ = "__main__", "work"
    return work


MISTAKES: list[tuple[str, Callable[[], Any], str]] = [
    ("a lambda", lambda: agent(functions.anonymous), "a lambda has no name: write `def`"),
    (
        "a closure",
        lambda: agent(closure()),
        "inner cannot be an agent, since a resumed run must find it by module and ",
    ),
    ("the program itself", lambda: agent(main_function()), "itself defines it, which cannot be imported under"),
    ("a class of a function", lambda: agent("x", closure(inner_class=True)), "it is defined inside another function"),
    (
        "a class that is no agent",
        lambda: agent("x", functions.Review),
        "is no subclass of coterie.AgentProcess",
    ),
    ("a built-in function", lambda: agent(len), "an agent is a function or `async def`, not <built-in function len>"),
    ("*args", lambda: agent(functions.star), "star() has the parameter *args: str: an agent's parameters are read by"),
    ("a generator", lambda: agent(functions.yields), "yields() yields, and the answer of an agent is what its funct"),
    (
        "retry",
        lambda: agent("x", model="m", retry=2),
        "unknown setting 'retry' of an agent; did you mean 'max_retries'",
    ),
    ("timeout", lambda: agent("x", model="m", timeout=2), "of an agent; did you mean 'timeout_seconds'"),
    ("instructions", lambda: agent("x", model="m", instructions="Do"), "of an agent; did you mean 'prompt'"),
    ("budget", lambda: agent("x", model="m", budget=2), "of an agent; did you mean 'cost'"),
    ("an unknown annotation", lambda: agent(functions.unresolved), "an annotation of unresolved() cannot be resolved"),
    (
        "an unknown annotation in a class",
        lambda: agent(functions.half),
        "an annotation of Half cannot be resolved: NameError: name 'Nowhere' is not defined; import it, and not only ",
    ),
    (
        "outputs of a function",
        lambda: agent(functions.a, outputs=str),
        "those of its return type: write `def a(…) -> T",
    ),
    ("an agent without a name", lambda: flow("t", [agent(model="haiku")]), 'an agent of a flow has a name: agent("wri'),
    ("a function in the list", lambda: flow("t", [functions.a]), "not a function: write a = agent(a)"),
    ("a function at an arrow", lambda: a >> functions.a, "make one of the function first, a = agent(a)"),
    ("a name at an arrow", lambda: a >> "b", "an arrow leads to an agent or a list of agents, not to 'b'"),
    (
        "an agent that is not listed",
        lambda: flow("t", [a, b], [a >> c]),
        "the flow mentions c, which is not among the ",
    ),
    ("agents not in a list", lambda: flow("t", a, [a >> b]), "the agents of a flow are a list of what agent(…), human"),
    ("arrows not in a list", lambda: flow("t", [a, b], a >> b), "the arrows of a flow are a list of arrows, a >> b"),
    ("an arrow twice", lambda: flow("t", [a, a]), "'a' is declared twice"),
    ("when on the agent", lambda: a >> b.when(b.verdict == "x"), "put brackets around the arrow: (… >> b).when(…)"),
    ("max on the agent", lambda: a >> b.max(2), "put brackets around the arrow: (… >> b).max(…)"),
    ("and in a condition", lambda: (a >> b).when(a.x == 1 and a.y == 2), "an arrow takes one comparison; write an arr"),
    ("an output as condition", lambda: (a >> b).when(a.ready), "when(a.ready) needs a comparison: a.ready == True"),
    ("a text as condition", lambda: (a >> b).when("a.x == 1"), "when() takes a comparison of an output with a consta"),
    ("an attribute as output", lambda: (a >> b).when(a.definition == 1), 'write reviewer["name"] == "revise"'),
    ("two outputs compared", lambda: a.x == b.y, "a.x == b.y: an output is compared with a constant, not with an ou"),
    ("a list as constant", lambda: a.x == ["y"], "a.x is compared with a text, a number, True or False, not with ['y"),
    ("max of nothing", lambda: (a >> b).max(0), "max() takes a whole number from 1, not 0"),
    ("an arrow behind when", lambda: (a >> b).when(a.x == 1) >> c, "`when` and the like belong to the last arrow"),
    ("an arrow of arrows", lambda: a >> (b >> c), "an arrow cannot begin or end at an arrow: leave out the brackets"),
    ("an unknown policy", lambda: (a >> b).on_max("stop"), "on_max() takes 'forward', 'end', 'fail' or 'human', not"),
    ("a value outside the enum", lambda: flow("t", [judge, a], [(judge >> a).when(judge.verdict == "maybe")]), "maybe"),
    ("an endless loop", lambda: flow("t", [a, b], [a >> b, b >> a]), "unbounded"),
    (
        "a misspelt parameter",
        lambda: flow("t", [judge, agent(functions.misspelt)]),
        "misspelt() reads 'verdit', which ",
    ),
    (
        "an output of two agents",
        lambda: flow("t", [agent(functions.a), agent(functions.b), agent(functions.two_texts)]),
        "two_texts() reads 'result', which several agents give: a, b; name the parameter after one of them, a, and",
    ),
    (
        "an output of another type",
        lambda: flow("t", [agent(functions.editor), agent(functions.wrong_type)]),
        "wrong_type() reads 'version' as str, and editor gives it as integer",
    ),
    (
        "a type without a schema",
        lambda: agent("x", model="m", outputs={"f": type}),
        "has a type that JSON cannot expr",
    ),
    (
        "the backend by another word",
        lambda: agent("a", prompt="Write", backend="pi"),
        "unknown setting 'backend' of an agent; did you mean 'type'",
    ),
    (
        "an unknown setting",
        lambda: agent("x", modell="haiku"),
        "unknown setting 'modell' of an agent; did you mean 'model'",
    ),
    (
        "two backends",
        lambda: agent("x", model="m", command=["cat"]),
        "an agent has 2 backends: model, command; keep one",
    ),
    (
        "a model as second argument",
        lambda: agent("x", "haiku"),
        "takes a function, a class, a team or its path as second",
    ),
    ("a record for a person", lambda: human("x", "?", outputs=functions.Review), "a person gives texts, numbers, and "),
    ("a gate beside no arrow", lambda: flow("t", [a, b, gate("g", "true", after=a, before=b)], [b >> a]), "gate"),
    (
        "a team without a file",
        lambda: coterie.to_at(flow("t", [agent("in", flow("inner", [a]))])),
        "the team at 'in' has",
    ),
    ("one agent to read", lambda: agent("x", model="m", reads=a), "reads is a list: reads=[…], not <agent a>"),
    ("one file to read", lambda: agent("x", model="m", reads="notes.md"), "reads is a list: reads=[…], not 'notes.md'"),
    ("an output to read", lambda: agent("x", model="m", reads=[a.verdict]), "agents and paths of files, not a.verdict"),
    ("one tool", lambda: agent("x", model="m", tools=functions.a), "tools is a list: tools=[…], not <function a"),
    ("no list of capabilities", lambda: agent("x", model="m", capabilities=5), "capabilities is 5: expected a list"),
    ("a phase in words", lambda: agent("x", model="m", phase="one"), "phase is 'one': expected a number"),
    ("a type that is none", lambda: agent("x", type=5), "type is 5: expected one of human, model"),
    ("an agent to ask", lambda: agent("x", ask=a), "ask is <agent a>: expected a text"),
    ("a list of outputs", lambda: agent("x", model="m", outputs=["verdict"]), "which is no type: outputs={"),
    ("values as outputs", lambda: agent("x", model="m", outputs={"v": ["y", "n"]}), "'v' of agent 'x' is given as ['y"),
    ("a called function", lambda: agent("text"[0:0] or 5), "agent() begins with a name or a function"),
    ("a function and a name", lambda: agent(functions.a, "x"), "agent('x', a)"),
    ("a person for soon", lambda: human("x", "?", timeout_seconds="soon"), "timeout_seconds is 'soon': expected a num"),
    ("a gate of a list", lambda: gate("g", ["make"], after=a, before=b), "run is ['make']: expected a text"),
    ("a gate of names", lambda: gate("g", "make", after="a", before=b), "after=writer, before=reviewer, not 'a'"),
    ("an action of a list", lambda: coterie.action("p", ["git", "push"]), "commands[0] is"),
    ("a name as result", lambda: flow("t", [a], result="a"), "one of its agents, result=writer, not 'a'"),
    ("an output as result", lambda: flow("t", [a], result=a.x), "one of its agents, result=writer, not a.x"),
    ("a folder that is none", lambda: flow("t", [a], folder=5), "the folder of a flow is a text, not 5"),
    ("a name of two words", lambda: coterie.to_at(flow("my flow", [a])), "'my flow' is no name in a file: write A to"),
    ("an agent of two", lambda: coterie.to_at(flow("t", [agent("A B", model="m")])), "'A B' is no name in a file"),
    (
        "an output of two",
        lambda: coterie.to_at(flow("t", [agent("x", model="m", outputs={"a b": int})])),
        "'a b' is no name in a file",
    ),
    ("two conditions", lambda: (a >> b).when(a.x == 1).when(a.y == 2), "one comparison, not a.x == 1 and a.y == 2; w"),
    ("an arrow to an output", lambda: a >> b.verdict, "not to the output b.verdict: write b"),
    ("a prompt of a function", lambda: agent(functions.a, prompt="Do", env={"A": "1"}), "takes no prompt, env: leave"),
    (
        "a policy of nobody",
        lambda: human("x", "?", on_timeout="never"),
        "is one of halt, skip, fallback NAME, not 'nev",
    ),
    (
        "a gate that skips",
        lambda: gate("g", "make", after=a, before=b, on_fail="skip"),
        "one of halt, bounce-back, not",
    ),
    ("an action that asks", lambda: coterie.action("p", "make", on_fail="ask"), "on_fail of action 'p' is one of halt"),
    (
        "no flow",
        lambda: coterie.to_at(coterie.Topology(name="t")),
        "'t' has no flow, and only flows can be written as ",
    ),
]


def test_an_agent_is_no_list() -> None:
    """It has every item, and a loop over it would not end."""
    with pytest.raises(TypeError, match="not iterable"):
        list(a)  # type: ignore[call-overload]


@bundle("mistake, message", [(make, message) for _, make, message in MISTAKES], ids=[name for name, _, _ in MISTAKES])
def test_a_mistake_is_explained(mistake: Callable[[], Any], message: str) -> None:
    """Every mistake raises one of our errors, which names it and what to write instead."""
    with pytest.raises(coterie.CoterieError) as raised:
        mistake()

    assert message in str(raised.value)
