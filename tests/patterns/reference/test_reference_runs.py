"""A user's own topology class runs: calls, hooks, messages, results, failures, and several executions at once."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio
import pytest
from bundles import bundle
from reference_play import agent, play, team

from coterie.base.clock import VirtualClock
from coterie.errors import CallFailed, CollaborationFailed, CoterieError, PatternRefused
from coterie.history.journal.records import TurnFailed, TurnFinished
from coterie.patterns import (
    AgentInvocationResult,
    BaseMixin,
    BaseTopology,
    EnsembleConfig,
    ExecutionContext,
    ExecutionStatus,
    MessageType,
    MixinRegistry,
    PipelineTopology,
    Topology,
    TopologyRegistry,
    TopologyType,
    current_call,
    mixin,
    topology,
)
from coterie.team.planning.plan import Limits

Body = Callable[[BaseTopology, ExecutionContext], Awaitable[dict[str, Any]]]


def own(body: Body, model: Any, **agents: Any) -> BaseTopology:
    """A topology class of a user's, made from its `_run`, with these slots."""

    class Own(BaseTopology):
        topology_type = TopologyType.ENSEMBLE
        config_class = EnsembleConfig

        async def _run(self, context: ExecutionContext) -> dict[str, Any]:
            return await body(self, context)

        async def _call_llm(self, request: dict[str, Any]) -> dict[str, Any]:
            answer: dict[str, Any] = await model(request)
            return answer

    defined = Topology(name="own", description="own", topology_type=TopologyType.ENSEMBLE)
    return Own(defined, agents or {"a": agent("a"), "b": agent("b")})


async def echo(request: dict[str, Any]) -> dict[str, Any]:
    """Says what it was asked."""
    return {"content": f"{current_call().slot}: {request['messages'][-1]['content']}"}


def user(text: str) -> list[dict[str, Any]]:
    """One question."""
    return [{"role": "user", "content": text}]


def test_a_call_gives_what_the_model_said() -> None:
    """Content, confidence, reasoning and usage; the messages of the caller stay what they were."""
    seen: list[dict[str, Any]] = []

    async def model(request: dict[str, Any]) -> dict[str, Any]:
        seen.append(request)
        usage = {"input_tokens": 3, "output_tokens": 2}
        return {"content": "42", "_confidence": 0.7, "_reasoning": {"steps": ["add", "halve"]}, "usage": usage}

    async def run(self: BaseTopology, context: ExecutionContext) -> dict[str, Any]:
        messages = user("How many?")
        got = await self.invoke_agent("a", messages, context)
        assert messages == user("How many?")
        assert (got.output["content"], got.confidence, got.reasoning) == ("42", 0.7, "add\nhalve")
        assert (got.token_usage, got.error) == ({"input_tokens": 3, "output_tokens": 2}, None)
        return {"n": got.text}

    set_so = {"system_prompt": "Count.", "temperature": 0.1, "max_tokens": 7, "output_format": "a number"}
    done = play(own(run, model, a=agent("a", **set_so)), {})

    assert (done.status, done.output_data) == (ExecutionStatus.COMPLETED, {"n": "42"})
    [request] = seen
    system = {"role": "system", "content": "Count.\n\nAnswer in this format: a number"}
    assert request["messages"] == [system, *user("How many?")]
    assert (request["temperature"], request["max_tokens"]) == (0.1, 7)


@pytest.mark.parametrize(("retries", "error"), [(2, None), (1, "down")])
def test_a_call_is_tried_as_often_as_the_agent_says(retries: int, error: str | None) -> None:
    """And what failed in the end is told, never raised."""
    tried = 0

    async def model(request: dict[str, Any]) -> dict[str, Any]:
        nonlocal tried
        tried += 1
        if tried <= 2:
            raise RuntimeError("down")
        return {"content": "up"}

    async def run(self: BaseTopology, context: ExecutionContext) -> dict[str, Any]:
        got = await self.invoke_agent("a", user("?"), context)
        return {"error": got.error, "output": got.output}

    done = play(own(run, model, a=agent("a", max_retries=retries)), {})

    assert done.output_data == {"error": error, "output": {} if error else {"content": "up"}}
    assert tried == retries + 1


def test_a_model_that_takes_too_long_is_cut_off() -> None:
    """After the agent's `timeout_seconds`, at each attempt; the second begins a second later."""

    async def model(request: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(3600)
        return {}

    async def run(self: BaseTopology, context: ExecutionContext) -> dict[str, Any]:
        got = await self.invoke_agent("a", user("?"), context)
        return {"error": got.error, "took": got.duration_ms}

    done = play(own(run, model, a=agent("a", timeout_seconds=5, max_retries=1)), {})

    assert done.output_data == {"error": "the model took longer than 5 s", "took": 11_000}


def test_what_passes_is_tried_again_after_a_while() -> None:
    """`CallFailed` says of which kind a failure is: one that passes is waited for, whatever `max_retries` says."""
    times: list[float] = []

    async def model(request: dict[str, Any]) -> dict[str, Any]:
        times.append(asyncio.get_running_loop().time())
        if len(times) < 3:
            raise CallFailed("too many requests", "rate_limited", wait=7)
        return {"content": "now"}

    async def run(self: BaseTopology, context: ExecutionContext) -> dict[str, Any]:
        return {"said": (await self.invoke_agent("a", user("?"), context)).text}

    assert play(own(run, model), {}).output_data == {"said": "now"}
    assert times == [0, 7, 14]


def test_a_stage_of_a_pipeline_is_tried_so_often_and_no_more() -> None:
    """`max_stage_retries` is all there is, even where a failure would pass."""
    tried = 0

    class Stages(PipelineTopology):
        async def _call_llm(self, request: dict[str, Any]) -> dict[str, Any]:
            nonlocal tried
            tried += 1
            raise CallFailed("too many requests", "rate_limited")

    config = {"max_stage_retries": 1}
    defined = Topology(name="p", description="p", topology_type=TopologyType.PIPELINE, config=config)
    with pytest.raises(CoterieError, match="Pipeline failed at stage 'a': too many requests"):
        play(Stages(defined, {"a": agent("a")}), {"doc": "x"})
    assert tried == 2


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("text", "must be a dictionary, not str"),
        (None, "must be a dictionary, not NoneType"),
        ({"content": object()}, "cannot be written down as JSON: object is not a JSON value"),
    ],
)
def test_a_response_that_cannot_be_kept_is_a_failed_call(said: Any, why: str) -> None:
    """It must be a dictionary of JSON values."""

    async def model(request: dict[str, Any]) -> Any:
        return said

    async def run(self: BaseTopology, context: ExecutionContext) -> dict[str, Any]:
        return {"error": (await self.invoke_agent("a", user("?"), context)).error}

    output = play(own(run, model), {}).output_data
    assert output is not None
    assert output["error"] == f"what _call_llm gave {why}"


@bundle(
    ("failure", "times", "told"),
    [
        (CallFailed("no", "auth"), 1, "no"),
        (CallFailed("no", "rate_limit"), 3, "unknown kind of failure 'rate_limit'; known are auth, .*: no"),
        (CallFailed("no", "interrupted"), 3, "unknown kind of failure 'interrupted'; known are .*: no"),
        (CallFailed("no", "transient", "soon"), 4, "no"),  # type: ignore[arg-type]
        (CallFailed("no", "rate_limited", float("nan")), 4, "no"),
        (CallFailed("no", "transient", -1.0), 4, "no"),
    ],
)
def test_how_a_call_says_it_failed_is_checked(failure: CallFailed, times: int, told: str) -> None:
    """A kind that there is not is named; what is no time to wait is none; nobody is asked for ever."""
    asked: list[int] = []

    async def model(request: dict[str, Any]) -> dict[str, Any]:
        asked.append(len(asked))
        if len(asked) > 9:
            return {"content": "enough"}
        raise failure

    async def run(self: BaseTopology, context: ExecutionContext) -> dict[str, Any]:
        return {"error": (await self.invoke_agent("a", user("?"), context)).error}

    output = play(own(run, model, a=agent("a", max_retries=2)), {}).output_data
    assert output is not None
    assert re.fullmatch(told, output["error"])
    assert len(asked) == times


def test_who_says_null_says_nothing() -> None:
    """So a pattern does not take it for an answer."""

    async def model(request: dict[str, Any]) -> dict[str, Any]:
        return {"content": None}

    async def run(self: BaseTopology, context: ExecutionContext) -> dict[str, Any]:
        return {"said": (await self.invoke_agent("a", user("?"), context)).text}

    assert play(own(run, model), {}).output_data == {"said": ""}
    with pytest.raises(CollaborationFailed, match="it gave an empty answer"):
        play(team("pipeline", ["a"], model), {"x": 1})


def test_what_awaits_something_cancelled_has_failed() -> None:
    """A model or a program whose own code lets a cancellation out: nobody waits for it for ever."""

    async def gone() -> None:
        raise asyncio.CancelledError

    async def model(request: dict[str, Any]) -> dict[str, Any]:
        await gone()
        return {}

    async def asks(self: BaseTopology, context: ExecutionContext) -> dict[str, Any]:
        return {"error": (await self.invoke_agent("a", user("?"), context)).error}

    async def itself(self: BaseTopology, context: ExecutionContext) -> dict[str, Any]:
        await gone()
        return {}

    assert play(own(asks, model), {}).output_data == {"error": "it awaited something that had been cancelled"}
    with pytest.raises(CoterieError, match="it awaited something that had been cancelled"):
        play(own(itself, echo), {})


@pytest.mark.parametrize("messages", [None, "hello", [1, 2]])
def test_messages_that_are_none_are_refused(messages: Any) -> None:
    """In words, before anybody is asked."""

    async def run(self: BaseTopology, context: ExecutionContext) -> dict[str, Any]:
        await self.invoke_agent("a", messages, context)
        return {}

    with pytest.raises(PatternRefused, match="the messages to 'a' must be a list of dictionaries"):
        play(own(run, echo), {})


def test_what_a_model_says_it_used_is_never_less_than_nothing() -> None:
    """So no limit of a run is moved by an answer; what is no number counts for nothing."""
    used = iter([{"input_tokens": -5, "cost": -3.0}, {"prompt_tokens": "7", "cost": True}, {"output_tokens": 2}])
    records: list[TurnFinished] = []

    async def model(request: dict[str, Any]) -> dict[str, Any]:
        return {"content": "x", "usage": next(used)}

    async def run(self: BaseTopology, context: ExecutionContext) -> dict[str, Any]:
        for _ in range(3):
            got = await self.invoke_agent("a", user("?"), context)
            assert isinstance(got._outcome, TurnFinished)
            records.append(got._outcome)
        return {}

    play(own(run, model), {})
    assert [(one.usage.input_tokens, one.usage.output_tokens, one.usage.cost) for one in records] == [
        (0, 0, 0.0),
        (0, 0, 0.0),
        (0, 2, 0.0),
    ]


def test_a_program_may_ask_several_at_once() -> None:
    """They are asked at the same time; a limit of the run holds."""
    most = now = 0

    async def model(request: dict[str, Any]) -> dict[str, Any]:
        nonlocal most, now
        now += 1
        most = max(most, now)
        await asyncio.sleep(1)
        now -= 1
        return await echo(request)

    async def run(self: BaseTopology, context: ExecutionContext) -> dict[str, Any]:
        got = await asyncio.gather(*(self.invoke_agent("a", user(str(n)), context) for n in range(6)))
        return {"said": [one.text for one in got]}

    assert play(own(run, model), {}).output_data == {"said": [f"a: {n}" for n in range(6)]}
    assert most == 6
    most = 0
    play(own(run, model), {}, limits=Limits(max_parallel=2))
    assert most == 2


def test_a_call_that_is_no_longer_waited_for_is_called_off() -> None:
    """Started or not: the model's answer is not waited for either."""
    ended: list[str] = []

    async def model(request: dict[str, Any]) -> dict[str, Any]:
        try:
            await asyncio.sleep(100)
        finally:
            ended.append(current_call().turn)
        return {}

    async def run(self: BaseTopology, context: ExecutionContext) -> dict[str, Any]:
        try:
            async with asyncio.timeout(3):
                await asyncio.gather(*(self.invoke_agent(slot, user("?"), context) for slot in "ab"))
        except TimeoutError:
            return {"after": asyncio.get_running_loop().time()}
        return {}

    assert play(own(run, model), {}, limits=Limits(max_parallel=1)).output_data == {"after": 3.0}
    assert ended == ["a#1"]


def test_messages_have_their_place_and_their_readers() -> None:
    """Broadcasts go to each but the sender and the excluded; a mixin of the recipient may change what is kept."""

    @mixin
    class Loud(BaseMixin):
        name = "loud"

        async def on_message(self, message: Any) -> Any:
            message.content = {"said": message.content["said"].upper()}
            return message

    async def run(self: BaseTopology, context: ExecutionContext) -> dict[str, Any]:
        context.round_number = 2
        one = await self.send_message("a", "b", MessageType.FEEDBACK, {"said": "psst"}, context)
        two = await self.send_message("a", None, MessageType.SYSTEM, {"said": "all"}, context)
        rest = await self.broadcast_message("a", MessageType.BROADCAST, {"said": "hi"}, context, exclude=["c"])
        assert (one.content, one.round_number, two.recipient_id) == ({"said": "PSST"}, 2, None)
        assert [one.recipient_id for one in rest] == [self._instances[slot].id for slot in "bd"]
        return {"numbers": [message.sequence_number for message in [one, two, *rest]]}

    try:
        agents = {slot: agent(slot) for slot in "acd"} | {"b": agent("b", capabilities=[{"name": "loud"}])}
        done = play(own(run, echo, **{slot: agents[slot] for slot in "abcd"}), {})
    finally:
        del MixinRegistry._mixins["loud"]
    assert done.output_data == {"numbers": [1, 2, 3, 4]}


def test_a_result_of_a_call_and_one_of_the_programs_own_can_be_recorded() -> None:
    """The first is known already; what was changed, or made up, is kept as it is given."""

    async def run(self: BaseTopology, context: ExecutionContext) -> dict[str, Any]:
        got = await self.invoke_agent("a", user("?"), context)
        same = [await self.record_result(got, context), await self.record_result(got, context)]
        assert same[0].id == same[1].id
        got.output["validation"] = "ok"
        changed = await self.record_result(got, context)
        made = AgentInvocationResult(agent_instance_id=got.agent_instance_id, output={"of": 1}, duration_ms=0)
        own = await self.record_result(made, context)
        assert same[0].output == {"content": "a: ?"}
        assert (changed.output["validation"], own.output) == ("ok", {"of": 1})
        assert all(one.started_at <= one.completed_at for one in (*same, changed, own) if one.completed_at)
        return {"ids": len({one.id for one in (*same, changed, own)})}

    assert play(own(run, echo), {}).output_data == {"ids": 3}


def test_hooks_run_in_order_and_once_for_a_call() -> None:
    """Around everything: slot by slot, each mixin behind what it needs; a failed call has no response."""
    told: list[str] = []

    class Told(BaseMixin):
        async def on_create(self) -> None:
            told.append(f"{self.name} of {self.agent.metadata_['slot']} created")

        async def on_start(self, context: dict[str, Any]) -> None:
            told.append(f"{self.name} started {context['input_data']}")

        async def on_invoke(self, request: dict[str, Any]) -> dict[str, Any]:
            told.append(f"{self.name} invoke")
            return {**request, self.name: True}

        async def on_response(self, response: dict[str, Any]) -> dict[str, Any]:
            told.append(f"{self.name} response")
            return {**response, "content": f"{self.name}({response['content']})"}

        async def on_complete(self, result: dict[str, Any]) -> dict[str, Any]:
            told.append(f"{self.name} complete")
            return {**result, "order": [*result.get("order", []), self.agent.metadata_["slot"] + self.name]}

        async def on_destroy(self) -> None:
            told.append(f"{self.name} destroyed")

    class Under(Told):
        name = "under"

    class Over(Told):
        name = "over"
        dependencies = ["under"]

    async def model(request: dict[str, Any]) -> dict[str, Any]:
        assert request["under"]
        assert request["over"]
        if request["messages"][-1]["content"] == "fail":
            raise RuntimeError("no")
        return {"content": "said"}

    async def run(self: BaseTopology, context: ExecutionContext) -> dict[str, Any]:
        told.append("run")
        said = (await self.invoke_agent("a", user("?"), context)).text
        assert (await self.invoke_agent("a", user("fail"), context)).error == "no"
        return {"said": said}

    capable = {"capabilities": [{"name": "over"}, {"name": "under", "enabled": False}]}
    MixinRegistry.register(Under)
    MixinRegistry.register(Over)
    try:
        made = own(run, model, a=agent("a", **capable, max_retries=1), b=agent("b", capabilities=[{"name": "under"}]))
        done = play(made, {"x": 1})
    finally:
        del MixinRegistry._mixins["under"], MixinRegistry._mixins["over"]

    assert done.output_data == {"said": "over(under(said))", "order": ["aunder", "aover", "bunder"]}
    names = ["under", "over", "under"]
    assert told == [
        *("under of a created", "over of a created", "under of b created"),
        *(f"{name} started {{'x': 1}}" for name in names),
        "run",
        *("under invoke", "over invoke", "under response", "over response"),
        *("under invoke", "over invoke"),
        *(f"{name} complete" for name in names),
        *(f"{name} destroyed" for name in names),
    ]


def test_an_error_of_the_program_is_raised_as_it_is_or_as_a_mixin_says() -> None:
    """`on_error` hears of it and may give another one; everything is cleaned up."""
    told: list[str] = []

    class Translator(BaseMixin):
        name = "translator"

        async def on_error(self, error: Exception) -> Exception | None:
            told.append(str(error))
            return LookupError(f"translated: {error}") if "foreign" in str(error) else None

        async def on_destroy(self) -> None:
            told.append("destroyed")

    async def run(self: BaseTopology, context: ExecutionContext) -> dict[str, Any]:
        raise KeyError(context.input_data["why"])

    MixinRegistry.register(Translator)
    try:
        made = own(run, echo, a=agent("a", capabilities=[{"name": "translator"}]))
        with pytest.raises(KeyError, match="own"):
            play(made, {"why": "own"})
        with pytest.raises(LookupError, match="translated: 'foreign'"):
            play(made, {"why": "foreign"})
    finally:
        del MixinRegistry._mixins["translator"]
    assert told == ["'own'", "destroyed", "'foreign'", "destroyed"]


def test_one_object_is_executed_twice_at_once() -> None:
    """Each execution has instances, counts and a context of its own."""

    async def model(request: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(1)
        return await echo(request)

    async def run(self: BaseTopology, context: ExecutionContext) -> dict[str, Any]:
        said = [(await self.invoke_agent("a", user(f"{context.input_data['n']}.{k}"), context)).text for k in range(2)]
        assert self._instances["a"].execution_id == context.execution_id
        message = await self.send_message("a", "b", MessageType.REQUEST, {}, context)
        return {"said": said, "n": message.sequence_number}

    made, clock = own(run, model), VirtualClock()

    async def both() -> list[Any]:
        return list(await asyncio.gather(*(made.execute({"n": n}, durable=False, clock=clock) for n in range(2))))

    done = clock.run(both())
    assert [one.output_data for one in done] == [{"said": [f"a: {n}.0", f"a: {n}.1"], "n": 1} for n in range(2)]
    assert done[0].id != done[1].id
    assert clock.now() == 2.0


async def within_a_timeout(work: Awaitable[object]) -> None:
    async with asyncio.timeout(2):
        await work


async def within_a_scope(work: Awaitable[object]) -> None:
    with anyio.fail_after(2):
        await work


@pytest.mark.parametrize("bounded", [within_a_timeout, within_a_scope])
def test_a_cancelled_execution_is_cancelled_and_cleans_up(bounded: Callable[..., Awaitable[None]]) -> None:
    """Whatever it waits for: the model, or something of its own. A scope of anyio cancels it again and again."""
    told: list[str] = []

    async def model(request: dict[str, Any]) -> dict[str, Any]:
        try:
            await asyncio.sleep(3600)
        finally:
            told.append("model ended")
        return {}

    async def run(self: BaseTopology, context: ExecutionContext) -> dict[str, Any]:
        try:
            await self.invoke_agent("a", user("?"), context)
        finally:
            told.append("program ended")
        return {}

    class Cleaning(BaseMixin):
        name = "cleaning"

        async def on_destroy(self) -> None:
            told.append("destroyed")

    MixinRegistry.register(Cleaning)
    made, clock = own(run, model, a=agent("a", capabilities=[{"name": "cleaning"}])), VirtualClock()

    async def main() -> None:
        with pytest.raises(TimeoutError):
            await bounded(made.execute({}, durable=False, clock=clock))

    try:
        clock.run(main())
    finally:
        del MixinRegistry._mixins["cleaning"]
    assert told == ["model ended", "program ended", "destroyed"]


def test_a_limit_pauses_an_execution() -> None:
    """It says which, and how to go on."""

    async def run(self: BaseTopology, context: ExecutionContext) -> dict[str, Any]:
        for n in range(5):
            await self.invoke_agent("a", user(str(n)), context)
        return {}

    done = play(own(run, echo), {}, limits=Limits(max_turns=2))

    assert done.status is ExecutionStatus.PAUSED
    assert "max_turns" in str(done.error)


def test_a_parallel_compound_runs_its_teams_at_once() -> None:
    """As executions of their own, with what they gave in their order; what they used is the compound's, too."""

    async def model(request: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(5 if current_call().run.endswith("first#1.1") else 1)
        return {"content": "4", "usage": {"input_tokens": 10, "output_tokens": 2}}

    subs = {
        name: team("ensemble", ["ensemble_0"], model, name=name, aggregation_method="vote")
        for name in ("first", "second")
    }
    made = team("compound", {}, subs=subs, sub_topologies=["first", "second"], composition_type="parallel")
    clock = VirtualClock()
    done = clock.run(made.execute({"prompt": "2+2"}, durable=False, clock=clock))

    assert done.output_data is not None
    assert [(one["name"], one["status"]) for one in done.output_data["sub_results"]] == [
        ("first", "completed"),
        ("second", "completed"),
    ]
    assert clock.now() == 5.0
    used = done.output_data["usage"]
    assert (used["turns"], used["input_tokens"], used["output_tokens"]) == (2, 20, 4)


def test_a_class_of_ones_own_may_ask_teams() -> None:
    """Those that `teams` names; what comes is their output, or why they failed."""
    voters = team("ensemble", ["ensemble_0"], echo, name="voters", aggregation_method="vote")
    broken = team("debate", ["proponent"], echo, name="broken")

    class Chair(BaseTopology):
        topology_type = TopologyType.ENSEMBLE
        config_class = EnsembleConfig

        def teams(self) -> Mapping[str, BaseTopology]:
            return {"voters": voters, "broken": broken}

        async def _run(self, context: ExecutionContext) -> dict[str, Any]:
            voted, failed = await asyncio.gather(
                self.invoke_team("voters", {"prompt": "who?"}, context),
                self.invoke_team("broken", {"question": "who?"}, context),
            )
            assert isinstance(voted, TurnFinished)
            assert isinstance(failed, TurnFailed)
            with pytest.raises(PatternRefused, match="unknown team 'nobody'; known are voters, broken"):
                await self.invoke_team("nobody", {}, context)
            return {"text": voted.text, "size": voted.outputs["ensemble_size"], "why": failed.reason}

    made = Chair(Topology(name="chair", description="chair", topology_type=TopologyType.ENSEMBLE), {})
    output = play(made, {}).output_data
    assert output is not None
    assert (output["text"], output["size"]) == ("ensemble_0: who?", 1)
    assert "requires 'opponent' slot" in output["why"]


def test_what_does_not_run_cannot_be_asked() -> None:
    """Agents are asked from `_run`."""
    made = team("ensemble", ["ensemble_0"], echo)

    async def outside() -> None:
        context: Any = None
        await made.invoke_agent("ensemble_0", user("?"), context)

    with pytest.raises(PatternRefused, match="from `_run`"):
        asyncio.run(outside())


def test_an_unknown_slot_is_named() -> None:
    """With those that there are."""

    async def run(self: BaseTopology, context: ExecutionContext) -> dict[str, Any]:
        await self.invoke_agent("c", user("?"), context)
        return {}

    with pytest.raises(CoterieError, match="unknown slot 'c'; known are a, b"):
        play(own(run, echo), {})


@pytest.mark.parametrize("given", [None, {"o": object()}, 3])
def test_an_output_must_be_a_dictionary_that_can_be_written_down(given: Any) -> None:
    """Anything else fails the execution, and says so."""

    async def run(self: BaseTopology, context: ExecutionContext) -> dict[str, Any]:
        return given  # type: ignore[no-any-return]

    with pytest.raises(PatternRefused, match=r"what Own\._run gave"):
        play(own(run, echo), {})


@pytest.fixture
def own_mixins(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is gone after it."""
    monkeypatch.setattr(
        MixinRegistry, "_mixins", {one["name"]: _known(one["name"]) for one in MixinRegistry.list_all()}
    )


def _known(name: str) -> type[BaseMixin]:
    found = MixinRegistry.get(name)
    assert found is not None
    return found


@pytest.mark.usefixtures("own_mixins")
def test_what_a_hook_gives_is_told_of_as_that_hooks() -> None:
    """Whoever wrote the mixin reads which hook of it gives something that cannot be used."""

    class Forgetful(BaseMixin):
        name = "forgetful"

        async def on_complete(self, result: dict[str, Any]) -> dict[str, Any]:
            return None  # type: ignore[return-value]

        async def on_message(self, message: Any) -> Any:
            return "read"

    mixin(Forgetful)
    forgetful = agent("a", capabilities=[{"name": "forgetful"}])
    with pytest.raises(PatternRefused, match="on_complete of 'forgetful' gave must be a dictionary, not NoneType"):
        play(own(_says_nothing, echo, a=forgetful), {})

    async def tells(self: BaseTopology, context: ExecutionContext) -> dict[str, Any]:
        await self.send_message("b", "a", MessageType.REQUEST, {}, context)
        return {}

    with pytest.raises(PatternRefused, match="on_message of 'forgetful' must return a Message or None, not str"):
        play(own(tells, echo, a=forgetful, b=agent("b")), {})


@pytest.mark.parametrize("where", ["run", "model", "mixin", "tool", "teardown"])
@pytest.mark.usefixtures("own_mixins")
def test_sys_exit_in_a_users_code_fails_what_it_belongs_to(where: str) -> None:
    """A program its run, a model its call, a tool its use; mixins hear of it, and the owner goes on."""
    heard: list[str] = []

    def leave(here: str) -> None:
        if here == where:
            raise SystemExit(3)

    class Watching(BaseMixin):
        name = "watching"

        async def on_start(self, context: dict[str, Any]) -> None:
            leave("mixin")

        async def on_error(self, error: Exception) -> Exception | None:
            heard.append(str(error))
            return None

        async def on_destroy(self) -> None:
            leave("teardown")

    mixin(Watching)

    async def model(request: dict[str, Any]) -> dict[str, Any]:
        leave("model")
        results = [one["content"] for one in request["messages"] if one["role"] == "tool"]
        return {"content": results[0]} if results else {"tool_calls": [{"id": "1", "name": "leave", "arguments": {}}]}

    async def body(self: BaseTopology, context: ExecutionContext) -> dict[str, Any]:
        leave("run")
        said = await self.invoke_agent("a", user("?"), context)
        return {"said": said.text, "error": said.error}

    made = own(body, model, a=agent("a", capabilities=[{"name": "watching"}, {"name": "tool_use"}]))
    made.tools = {"leave": lambda: leave("tool")}
    if where in ("run", "mixin", "teardown"):
        with pytest.raises(RuntimeError, match="SystemExit: 3"):
            play(made, {})
        assert heard == ([] if where == "teardown" else ["SystemExit: 3"])
    else:
        output = play(made, {}).output_data
        assert output is not None
        assert "SystemExit: 3" in (output["error"] if where == "model" else output["said"])


async def _says_nothing(self: BaseTopology, context: ExecutionContext) -> dict[str, Any]:
    return {}


@pytest.mark.usefixtures("own_mixins")
def test_every_mixin_clears_up_and_what_failed_first_is_what_is_raised() -> None:
    """A hook that fails while clearing up neither keeps others from it nor hides why the execution failed."""
    gone: list[str] = []

    class Untidy(BaseMixin):
        name = "untidy"

        async def on_destroy(self) -> None:
            gone.append(str(self.agent.metadata_["slot"]))
            raise RuntimeError("the drawer is stuck")

    mixin(Untidy)
    two = {slot: agent(slot, capabilities=[{"name": "untidy"}]) for slot in ("a", "b")}

    async def fails(self: BaseTopology, context: ExecutionContext) -> dict[str, Any]:
        raise KeyError("topic")

    with pytest.raises(KeyError) as failed:
        play(own(fails, echo, **two), {})
    assert failed.value.__notes__ == ["tearing it down then raised RuntimeError: the drawer is stuck"]
    assert gone == ["a", "b"]
    with pytest.raises(RuntimeError, match="the drawer is stuck"):
        play(own(_says_nothing, echo, **two), {})


def test_an_agent_may_be_called_human() -> None:
    """Where no human is asked the name is one as any."""

    async def run(self: BaseTopology, context: ExecutionContext) -> dict[str, Any]:
        return {"said": (await self.invoke_agent("human", user("?"), context)).text}

    assert play(own(run, echo, human=agent("h")), {}).output_data == {"said": "human: ?"}


def test_a_call_from_another_event_loop_is_refused() -> None:
    """Nobody there would ever hear of its answer."""

    async def run(self: BaseTopology, context: ExecutionContext) -> dict[str, Any]:
        def elsewhere() -> Any:
            return asyncio.run(self.invoke_agent("a", user("?"), context))

        return {"said": await asyncio.to_thread(elsewhere)}

    with pytest.raises(PatternRefused, match="runs in another event loop"):
        asyncio.run(own(run, echo).execute({}, durable=False))


@bundle(
    ("made", "told"),
    [
        (lambda: own(_says_nothing, echo).execute({"when": object()}), "the input cannot be written down as JSON"),
        (lambda: own(_says_nothing, echo).execute({}, limits={"turns": 1}), "limits must be coterie.Limits"),  # type: ignore[arg-type]
        (lambda: own(_says_nothing, echo).execute({}, 7), "the correlation_id of an execution must be a text"),  # type: ignore[arg-type]
        (lambda: Hasty(_topology(), {}).execute({}, durable=False), "Hasty._run must be written with"),
        (
            lambda: own(_says_nothing, echo, **{"two\nlines": agent("a")}),
            "the name of a slot must be a text of one line",
        ),
        (lambda: BaseTopology.__init__(own(_says_nothing, echo), None, {}), "the first argument must be a Topology"),  # type: ignore[arg-type]
        (lambda: type(own(_says_nothing, echo))(_topology(), ["a"]), "agents must be a dictionary by slot"),  # type: ignore[arg-type]
        (lambda: topology(Nothing), "Nothing.topology_type must be one of debate, chain"),
        (lambda: topology(int), "a subclass of BaseTopology, not <class 'int'>"),  # type: ignore[type-var]
        (lambda: TopologyRegistry.create(_topology(), None), "agents must be a dictionary by slot"),  # type: ignore[arg-type]
        (
            lambda: type("Odd", (BaseTopology,), {"topology_type": "zigzag", "config_class": EnsembleConfig}),
            "not 'zigzag'",
        ),
        (
            lambda: type("Odd", (BaseTopology,), {"topology_type": "debate", "config_class": dict}),
            "a class of settings",
        ),
    ],
)
def test_wrong_arguments_are_refused_in_words(made: Callable[[], Any], told: str) -> None:
    """What is wrong is named; nothing of it is a traceback of ours."""

    async def go() -> None:
        done = made()
        if isinstance(done, Awaitable):
            await done

    with pytest.raises(PatternRefused, match=told):
        asyncio.run(go())


class Nothing(BaseTopology):
    """Says nothing of itself."""

    async def _run(self, context: ExecutionContext) -> dict[str, Any]:
        return {}


class Hasty(BaseTopology):
    """Does not wait."""

    topology_type = TopologyType.ENSEMBLE
    config_class = EnsembleConfig

    def _run(self, context: ExecutionContext) -> dict[str, Any]:  # type: ignore[override]
        return {}


def _topology() -> Topology:
    return Topology(name="own", description="own", topology_type=TopologyType.ENSEMBLE)


@pytest.mark.parametrize(
    ("does", "told"),
    [
        (lambda self, context: self.send_message("a", "b", "gossip", {}, context), "unknown message type 'gossip'"),
        (lambda self, context: self.send_message("a", "b", "request", None, context), "must be a dictionary"),
        (lambda self, context: self.record_result(None, context), "an AgentInvocationResult, not NoneType"),
    ],
)
def test_what_is_told_and_recorded_is_checked(does: Any, told: str) -> None:
    """A message has a type and content, a result is one."""

    async def run(self: BaseTopology, context: ExecutionContext) -> dict[str, Any]:
        return {"done": str(await does(self, context))}

    with pytest.raises(PatternRefused, match=told):
        play(own(run, echo), {})


def test_a_model_that_is_not_asynchronous_is_told_of() -> None:
    """A `_call_llm` without `async` fails each call with words that say what to do."""

    async def run(self: BaseTopology, context: ExecutionContext) -> dict[str, Any]:
        return {"error": (await self.invoke_agent("a", user("?"), context)).error}

    made = own(run, echo)
    made._call_llm = lambda request: {"content": "42"}  # type: ignore[assignment,method-assign,return-value]
    assert play(made, {}).output_data == {"error": "_call_llm must be written with `async def`"}


class Asking(BaseTopology):
    """Asks teams."""

    topology_type = TopologyType.ENSEMBLE
    config_class = EnsembleConfig

    def __init__(self, name: str, **teams: Any) -> None:
        super().__init__(Topology(name=name, description="own", topology_type="ensemble"), {"a": agent("a")})
        self.below = teams

    def teams(self) -> Mapping[str, BaseTopology]:
        return self.below

    async def _run(self, context: ExecutionContext) -> dict[str, Any]:
        return {"asked": [type(await self.invoke_team(name, {}, context)).__name__ for name in self.below]}


def _deep(levels: int) -> Asking:
    made = Asking("leaf")
    for _ in range(levels):
        made = Asking("above", below=made)
    return made


def test_teams_that_cannot_be_asked_are_refused_before_anybody_is() -> None:
    """One that holds itself, however far down; one too deep; one that is none; one whose name a slot has."""
    one, other = Asking("one"), Asking("other")
    one.below, other.below = {"down": other}, {"up": one}
    for made, told in [
        (one, "Circular teams: one -> other -> one"),
        (_deep(9), "teams nest more than 8 levels deep below 'above'"),
        (Asking("one", x=5), "team 'x' of 'one' must be a topology, not int"),
        (Asking("one", a=other), "'a' is a slot and a team of 'one'"),
    ]:
        with pytest.raises(PatternRefused, match=told):
            play(made, {})
    assert play(_deep(8), {}).output_data == {"asked": ["TurnFinished"]}
