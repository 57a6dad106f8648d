"""What is built in: tools, memory, reasoning, a human in the loop, JSON of a given shape."""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from bundles import bundle
from reference_play import agent, play

from coterie.agents.backends.base import Request
from coterie.errors import PatternRefused
from coterie.history.journal.jsonl import JsonlStore
from coterie.patterns import (
    BaseMixin,
    BaseTopology,
    EnsembleConfig,
    ExecutionContext,
    MixinRegistry,
    Topology,
    TopologyType,
    current_call,
)
from coterie.patterns.reference.mixins.base import ReplyRefused
from coterie.patterns.reference.mixins.structured import faults
from coterie.patterns.reference.program_run import HUMAN


class Asks(BaseTopology):
    """Asks the one agent what the input says, question by question; replies come from a list."""

    topology_type = TopologyType.ENSEMBLE
    config_class = EnsembleConfig

    replies: Sequence[dict[str, Any]]
    seen: list[dict[str, Any]]

    async def _run(self, context: ExecutionContext) -> dict[str, Any]:
        got = []
        for text in context.input_data["ask"]:
            got.append(await self.invoke_agent("a", [{"role": "user", "content": text}], context))
        return {"got": [one.output for one in got], "errors": [one.error for one in got]}

    async def _call_llm(self, request: dict[str, Any]) -> dict[str, Any]:
        self.seen.append(request)
        return dict(self.replies[min(len(self.seen), len(self.replies)) - 1])


def asks(replies: Sequence[dict[str, Any] | str], capabilities: Sequence[dict[str, Any]], **config: Any) -> Asks:
    """An object of the class, whose agent has these capabilities."""
    defined = Topology(name="asks", description="asks", topology_type=TopologyType.ENSEMBLE)
    made = Asks(defined, {"a": agent("a", capabilities=list(capabilities), **config)})
    made.replies = [{"content": one} if isinstance(one, str) else one for one in replies]
    made.seen = []
    return made


def got(made: Asks, *ask: str, **options: Any) -> list[dict[str, Any]]:
    """What the agent's answers to *ask* counted as."""
    output = play(made, {"ask": ask or ["?"]}, **options).output_data
    assert output is not None
    assert output["errors"] == [None] * len(output["errors"])
    answers: list[dict[str, Any]] = output["got"]
    return answers


def wants(name: str, **arguments: Any) -> dict[str, Any]:
    """A response that wants a tool."""
    return {"content": "", "tool_calls": [{"id": "1", "name": name, "arguments": arguments}]}


def said(request: dict[str, Any]) -> str:
    """The last message of a request."""
    return str(request["messages"][-1]["content"])


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def slow() -> str:
    """Take long."""
    await asyncio.sleep(1000)
    return "late"


# -- tools


def test_a_tool_is_offered_used_and_told_of() -> None:
    """The model is asked again with what the tool gave."""
    made = asks([wants("add", a=2, b=3), "five"], [{"name": "tool_use"}])
    made.tools = {"add": add}

    [answer] = got(made)

    assert answer["content"] == "five"
    [tool] = made.seen[0]["tools"]
    assert (tool["name"], tool["description"], set(tool["input_schema"]["properties"])) == (
        "add",
        "Add two numbers.",
        {"a", "b"},
    )
    assert said(made.seen[1]) == "5"


@bundle(
    ("config", "wanted", "why"),
    [
        ({"denied_tools": ["add"]}, wants("add", a=1, b=1), "refused: 'add' is denied"),
        ({"allowed_tools": ["slow"]}, wants("add", a=1, b=1), "refused: 'add' is not allowed"),
        ({"max_tool_calls_per_turn": 0}, wants("add", a=1, b=1), "refused: only 0 tool calls"),
        ({"tool_call_timeout_seconds": 5}, wants("slow"), "error: slow took longer than 5 s"),
        ({}, wants("missing"), "error: unknown tool 'missing'; known are add, slow"),
        ({}, wants("add", a=1), "error: TypeError"),
        ({}, {"content": "", "tool_calls": [{"name": "add", "arguments": "{no"}]}, "error: the arguments are no JSON"),
    ],
)
def test_a_tool_that_may_not_be_used_is_told_to_the_model(
    config: dict[str, Any], wanted: dict[str, Any], why: str
) -> None:
    """So is one that fails; the model goes on."""
    made = asks([wanted, "then not"], [{"name": "tool_use", "config": config}])
    made.tools = {"add": add, "slow": slow}

    assert got(made)[0]["content"] == "then not"
    assert said(made.seen[1]).startswith(why)


def test_tools_are_counted_for_each_call_anew_and_bounded_for_the_agent() -> None:
    """`max_tool_calls_per_turn` is told to the model; above `max_tool_calls` the call fails."""
    once = [{"name": "tool_use", "config": {"max_tool_calls_per_turn": 1}}]
    made = asks([wants("add", a=1, b=1), "two", wants("add", a=2, b=2), "four"], once)
    made.tools = {"add": add}
    assert [one["content"] for one in got(made, "x", "y")] == ["two", "four"]
    assert [said(request) for request in made.seen] == ["x", "2", "y", "4"]

    greedy = asks([wants("add", a=1, b=1)], [{"name": "tool_use"}], max_tool_calls=3)
    greedy.tools = {"add": add}
    output = play(greedy, {"ask": ["?"]}).output_data
    assert output is not None
    assert "may have 3" in output["errors"][0]
    assert len(greedy.seen) == 4


def test_of_too_many_tools_at_once_the_first_are_used() -> None:
    """As many as `max_tool_calls` leaves; the model is told of those alone, and may answer."""
    used: list[int] = []

    def note(n: int) -> str:
        """Note a number."""
        used.append(n)
        return f"noted {n}"

    many = [{"id": str(n), "name": "note", "arguments": {"n": n}} for n in range(3)]
    made = asks(
        [wants("note", n=9), {"content": "", "tool_calls": many}, "done"], [{"name": "tool_use"}], max_tool_calls=3
    )
    made.tools = {"note": note}

    assert got(made)[0]["content"] == "done"
    assert used == [9, 0, 1]
    *_, wanted, first, second = made.seen[2]["messages"]
    assert [one["id"] for one in wanted["tool_calls"]] == ["0", "1"]
    assert [(one["tool_call_id"], one["content"]) for one in (first, second)] == [("0", "noted 0"), ("1", "noted 1")]


def test_a_failed_call_takes_back_what_its_hooks_changed() -> None:
    """The next attempt begins with the state that was recorded, and so does the next call."""

    class Counts(BaseMixin):
        name = "counts"

        async def on_response(self, response: dict[str, Any]) -> dict[str, Any]:
            n = self.agent.state.get("n", 0) + 1
            self.agent.state["n"] = n
            if response["content"] == "bad":
                raise ReplyRefused("try again")
            return {**response, "content": f"{response['content']} {n}"}

    MixinRegistry.register(Counts)
    try:
        made = asks(["one", "bad", "bad", "three"], [{"name": "counts"}])
        output = play(made, {"ask": ["x", "y", "z"]}).output_data
        again = asks(["bad", "good"], [{"name": "counts"}], max_retries=1)
        retried = got(again)
    finally:
        del MixinRegistry._mixins["counts"]

    assert output is not None
    assert [one.get("content") for one in output["got"]] == ["one 1", None, "three 2"]
    assert output["errors"] == [None, "try again", None]
    assert [one["content"] for one in retried] == ["good 1"]


def test_who_has_no_tools_is_offered_none() -> None:
    """Tools are for agents with the capability `tool_use`."""
    made = asks([wants("add", a=1, b=1), "then not"], [])
    made.tools = {"add": add}

    assert got(made)[0]["content"] == "then not"
    assert "tools" not in made.seen[0]
    assert said(made.seen[1]) == "error: unknown tool 'add'; known are none"


# -- a human in the loop


@bundle(
    ("answer", "config", "told"),
    [
        ("Yes.", {}, "3"),
        ("not today", {}, "refused: a human said: not today"),
        ('{"a": 5, "b": 5}', {}, "10"),
        ('{"a": 5, "b": 5}', {"allow_modification": False}, 'refused: a human said: {"a": 5, "b": 5}'),
        ("asked in vain", {"require_approval_for": ["slow"]}, "3"),
    ],
)
def test_a_human_allows_a_tool_or_does_not(answer: str, config: dict[str, Any], told: str) -> None:
    """They are asked what is about to be done; they may change it."""
    made = asks([wants("add", a=1, b=2), "done"], [{"name": "human_in_loop", "config": config}])
    made.tools = {"add": add}

    async def human(request: Request) -> str:
        assert "a wants to use the tool add" in request.prompt
        return answer

    assert got(made, human=human)[0]["content"] == "done"
    assert said(made.seen[1]) == told


@pytest.mark.parametrize(
    ("what", "told", "error"),
    [
        ("continue", "3", None),
        ("default", "refused: no answer within 60 s", None),
        ("abort", "", "no answer within 60 s whether 'add' may be used"),
    ],
)
def test_a_human_who_does_not_answer(what: str, told: str, error: str | None) -> None:
    """What then is to happen is a setting."""
    config = {"approval_timeout_seconds": 60, "escalation_on_timeout": what}
    made = asks([wants("add", a=1, b=2), "done"], [{"name": "human_in_loop", "config": config}])
    made.tools = {"add": add}

    async def human(request: Request) -> str:
        await asyncio.sleep(1e6)
        return "yes"

    output = play(made, {"ask": ["?"]}, human=human).output_data
    assert output is not None
    assert output["errors"] == [error]
    assert [said(request) for request in made.seen[1:]] == ([told] if told else [])


def test_confirmation_of_each_tool_is_a_setting_of_tools_too() -> None:
    """`require_confirmation` of `tool_use`."""
    made = asks([wants("add", a=1, b=2), "done"], [{"name": "tool_use", "config": {"require_confirmation": True}}])
    made.tools = {"add": add}
    questions: list[str] = []

    async def human(request: Request) -> str:
        questions.append(request.prompt)
        return "ok"

    got(made, human=human)
    assert len(questions) == 1


def test_a_human_is_asked_each_time_a_tool_is_wanted() -> None:
    """The same question twice in one call is two questions."""
    made = asks([wants("add", a=1, b=2), wants("add", a=1, b=2), "done"], [{"name": "human_in_loop"}])
    made.tools = {"add": add}
    answers = iter(["yes", "once is enough"])

    async def human(request: Request) -> str:
        return next(answers)

    got(made, human=human)
    assert [said(request) for request in made.seen[1:]] == ["3", "refused: a human said: once is enough"]


def test_a_human_answers_from_elsewhere(tmp_path: Path) -> None:
    """The question stands in the run, `coterie control respond` answers it."""
    made = asks([wants("add", a=1, b=2), "done"], [{"name": "human_in_loop"}])
    made.tools = {"add": add}

    async def respond(run: str) -> int:
        command = [sys.executable, "-m", "coterie", "control", "respond", run, "human#1", "yes"]
        done = await asyncio.create_subprocess_exec(*command, cwd=tmp_path)
        return await done.wait()

    async def main() -> None:
        asked = asyncio.Event()

        async def looks_away(request: Request) -> str:
            asked.set()
            await asyncio.Event().wait()
            return "never"

        state_dir = tmp_path / ".coterie"
        task = asyncio.create_task(made.execute({"ask": ["?"]}, state_dir=state_dir, human=looks_away))
        await asked.wait()
        [run] = JsonlStore(state_dir).list()
        assert await respond(run) == 0
        done = await task
        assert done.output_data is not None
        assert done.output_data["got"][0]["content"] == "done"
        assert said(made.seen[1]) == "3"

    asyncio.run(main())


def test_a_slot_does_not_pass_for_a_human() -> None:
    """Where one may be asked, no agent has that name."""
    one = asks(["?"], [{"name": "human_in_loop"}])
    made = Asks(one.topology, {**one.agents, HUMAN: agent("h")})
    with pytest.raises(PatternRefused, match="the slot name 'human' is reserved"):
        play(made, {"ask": ["?"]})


def test_what_a_human_has_answered_they_are_not_asked_again(tmp_path: Path) -> None:
    """The answer is in the journal, whatever became of the call that wanted it."""
    questions: list[str] = []
    reached = asyncio.Event()

    class Stops(Asks):
        async def _call_llm(self, request: dict[str, Any]) -> dict[str, Any]:
            if len(self.seen) == 1 and current_call().attempt == 1:
                reached.set()
                await asyncio.Event().wait()
            return await super()._call_llm(request)

    def made() -> Asks:
        one = asks([wants("add", a=1, b=2), "done"], [{"name": "human_in_loop"}])
        again = Stops(one.topology, one.agents)
        again.replies, again.seen, again.tools = one.replies, [], {"add": add}
        return again

    async def human(request: Request) -> str:
        questions.append(request.prompt)
        return "yes"

    async def main() -> None:
        task = asyncio.create_task(made().execute({"ask": ["?", "!"]}, state_dir=tmp_path, human=human))
        await asyncio.wait({task, asyncio.create_task(reached.wait())}, return_when=asyncio.FIRST_COMPLETED)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(questions) == 1
        [run] = JsonlStore(tmp_path).list()
        done = await made().resume(run, state_dir=tmp_path, human=human)
        assert done.output_data is not None
        assert [one["content"] for one in done.output_data["got"]] == ["done", "done"]
        assert len(questions) == 1

    asyncio.run(main())


# -- memory


def test_what_is_remembered_is_shown_at_the_next_call() -> None:
    """The most important first; what matters least is forgotten when there is too much."""
    remembered = {"content": "ok", "_remember": ["minor", {"content": "major", "importance": 0.9, "tags": ["x"]}]}
    made = asks([remembered, "ok"], [{"name": "memory", "config": {"max_memories": 2}}])

    got(made, "one", "two")

    assert made.seen[0]["messages"][1:] == [{"role": "user", "content": "one"}]
    assert made.seen[1]["messages"][0]["content"].startswith("You remember:\n- major\n- minor\n\n")


def test_a_model_is_told_how_to_remember() -> None:
    """By a line of its answer, which is no part of what the others see."""
    made = asks(["42\n- **Remember:** the answer is 42", "ok", "remember: only this"], [{"name": "memory"}])

    answers = got(made, "one", "two", "three")

    assert "`remember: …`" in made.seen[0]["messages"][0]["content"]
    assert made.seen[1]["messages"][0]["content"].startswith("You remember:\n- the answer is 42\n")
    assert [one["content"] for one in answers] == ["42", "ok", "remember: only this"]


def mixin_of(name: str, **config: Any) -> Any:
    """A mixin bound to an agent that exists."""
    from uuid import uuid4

    from coterie.patterns import AgentInstance

    made = MixinRegistry.create(name, config)
    made.bind(AgentInstance(agent_type_id=1, execution_id=uuid4()))
    return made


def test_memories_are_recalled_forgotten_and_summed_up() -> None:
    """By tags and importance; with `auto_summarize` the older half becomes one."""
    memory = mixin_of("memory", max_memories=3)
    for n, importance in enumerate((0.1, 0.9, 0.5, 0.7)):
        memory.remember(f"m{n}", importance, tags=["even" if n % 2 == 0 else "odd"])
    assert [one["content"] for one in memory.recall()] == ["m1", "m3", "m2"]
    assert [one["content"] for one in memory.recall(tags=["odd"], limit=1)] == ["m1"]
    assert memory.forget(["odd"]) == 2
    assert [one["content"] for one in memory.memories] == ["m2"]
    memory.remember("later")
    assert [one["content"] for one in memory.recall()] == ["later", "m2"]  # the newest first among equals

    summing = mixin_of("memory", auto_summarize=True, summary_threshold=3)
    for n in range(4):
        summing.remember(f"m{n}")
    assert [one["content"] for one in summing.memories] == ["m0; m1", "m2", "m3"]


def test_a_memory_fades() -> None:
    """With `memory_decay`, half as much after each half-life: the newer one of two that mattered alike comes first."""
    memory = mixin_of("memory", memory_decay=True, decay_half_life_hours=1)
    memory.remember("old", 0.9)
    memory.remember("new", 0.5)
    old, new = memory.memories
    memory.agent.state = {"memories": [{**old, "at": "2020-01-01T00:00:00+00:00"}, new]}
    assert [one["content"] for one in memory.recall()] == ["new", "old"]


# -- reasoning and JSON


def test_steps_are_told_apart_from_the_conclusion() -> None:
    """`_reasoning` has both; what is shown of the answer is a setting."""
    answer = "1. First\n2) Second\n- Third\nConclusion: It is so."
    made = asks([answer], [{"name": "reasoning", "config": {"max_reasoning_steps": 2, "show_reasoning": False}}])

    [one] = got(made)

    assert one["content"] == "It is so."
    steps = {"style": "step_by_step", "steps": ["First", "Second"], "conclusion": "It is so."}
    assert one["_reasoning"] == steps
    assert "step by step" in made.seen[0]["messages"][0]["content"]


def test_an_answer_without_a_conclusion_is_asked_for_again() -> None:
    """Where one is required."""
    made = asks(["1. So", "Conclusion: so"], [{"name": "reasoning"}], max_retries=0)
    assert got(made)[0]["_reasoning"]["conclusion"] == "so"
    lax = asks(["1. So"], [{"name": "reasoning", "config": {"require_conclusion": False}}])
    assert got(lax)[0]["content"] == "1. So"


SCHEMA = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer", "minimum": 1}}}


def structured(**config: Any) -> list[dict[str, Any]]:
    """The capability, with a schema."""
    return [{"name": "structured_output", "config": {"output_schema": SCHEMA, **config}}]


def test_json_that_does_not_fit_is_repaired() -> None:
    """The model is told what is wrong, and what it says then counts."""
    made = asks(["I think 0", '{"n": 0}', 'Here: ```json\n{"n": 3}\n```'], structured())

    [one] = got(made)

    assert one["_structured_output"] == {"n": 3}
    assert "there is no JSON object in it" in said(made.seen[1])
    assert "n is 0, and must be at least 1" in said(made.seen[2])


def test_json_that_is_not_repaired_fails_the_call_or_is_told() -> None:
    """As `strict_validation` says; the usage of all that was asked is added up."""
    strict = asks([{"content": "{}", "usage": {"input_tokens": 2}}], structured(max_repair_attempts=1), max_retries=0)
    output = play(strict, {"ask": ["?"]}).output_data
    assert output is not None
    assert "lacks 'n'" in output["errors"][0]

    lax = asks(
        [{"content": "{}", "usage": {"input_tokens": 2}}], structured(strict_validation=False, max_repair_attempts=2)
    )
    [one] = got(lax)
    assert (one["_structured_output"], one["_structured_error"]) == ({}, "the answer lacks 'n'")
    assert one["usage"] == {"input_tokens": 6}


def test_retries_of_a_call_do_not_multiply_its_repairs() -> None:
    """A stage has its first request, the repairs, and one request for each further attempt."""
    made = asks(["?"], structured(max_repair_attempts=3), max_retries=2)
    play(made, {"ask": ["?"]})

    assert len(made.seen) == 1 + 3 + 2


@bundle(
    ("value", "schema", "wrong"),
    [
        ({"a": [1, "x"]}, {"properties": {"a": {"items": {"type": "integer"}}}}, ["a[1] must be integer"]),
        ({"a": True}, {"properties": {"a": {"type": ["integer", "null"]}}}, ["a must be integer or null"]),
        ({"b": 1}, {"additionalProperties": False}, ["the answer has 'b', which it must not"]),
        ({"a": "red"}, {"properties": {"a": {"enum": ["blue"]}}}, ["a must be one of 'blue'"]),
        ({"a": {"b": 2}}, {"properties": {"a": {"properties": {"b": {"const": 1}}}}}, ["a.b must be 1"]),
        ({"a": "abc"}, {"properties": {"a": {"maxLength": 2}}}, ["a has 3 characters, and must be at most 2"]),
        ({"a": []}, {"properties": {"a": {"minItems": 1}}}, ["a has 0 items, and must be at least 1"]),
        ({"n": 2}, SCHEMA, []),
    ],
)
def test_what_a_schema_says(value: Any, schema: dict[str, Any], wrong: list[str]) -> None:
    """Each fault by its place."""
    assert list(faults(value, schema, "the answer")) == wrong


# -- the registry


def test_the_registry_lists_what_there_is() -> None:
    """With the schema of its settings."""
    listed = {one["name"]: one for one in MixinRegistry.list_all()}

    assert list(listed) == ["tool_use", "memory", "reasoning", "human_in_loop", "structured_output"]
    assert listed["human_in_loop"]["dependencies"] == ["tool_use"]
    assert "max_memories" in listed["memory"]["config_schema"]["properties"]
    assert MixinRegistry.resolve_dependencies(["human_in_loop", "memory"]) == ["tool_use", "human_in_loop", "memory"]


def test_what_cannot_be_is_refused() -> None:
    """Unknown capabilities, circles, settings that nobody knows: before anybody is asked."""

    class Hen(BaseMixin):
        name = "hen"
        dependencies = ["egg"]

    class Egg(BaseMixin):
        name = "egg"
        dependencies = ["hen"]

    MixinRegistry.register(Hen)
    MixinRegistry.register(Egg)
    try:
        with pytest.raises(ValueError, match="hen -> egg -> hen"):
            MixinRegistry.resolve_dependencies(["hen"])
    finally:
        del MixinRegistry._mixins["hen"], MixinRegistry._mixins["egg"]
    for capability, why in [
        ({"name": "memroy"}, "Unknown mixin: memroy .did you mean 'memory'"),
        (
            {"name": "memory", "config": {"max_memory": 3}},
            "'memory' does not fit: max_memory: .*; did you mean 'max_memories'",
        ),
    ]:
        made = asks(["?"], [capability])
        with pytest.raises(PatternRefused, match=why):
            play(made, {"ask": ["?"]})
        assert made.seen == []
