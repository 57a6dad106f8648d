"""Exporters in a running system: which spans there are, how they are linked, and what happens when one fails."""

import asyncio
import re
from collections.abc import Sequence
from typing import Any

import pytest

from coterie.agents.actors.hosted import SystemPorts
from coterie.agents.actors.message import Message
from coterie.agents.actors.plugins.console import ConsoleExporter
from coterie.agents.actors.plugins.plugins import Plugins
from coterie.agents.actors.process import AgentProcess
from coterie.agents.actors.state.in_memory import InMemoryStateStore
from coterie.agents.actors.system import ActorSystem
from coterie.agents.backends.models.response import ModelResponse, ToolRequest
from coterie.base.clock import VirtualClock
from coterie.history.views.spans import TraceSpan
from coterie.team.planning.system import ActorPlan, SupervisorPlan, SystemPlan


class Front(AgentProcess):
    async def handle(self, message: Message) -> Message | None:
        reply = await self.ask("back", {"n": 1})
        return self.reply(reply.payload)


class Back(AgentProcess):
    async def handle(self, message: Message) -> Message | None:
        if message.payload == "crash":
            raise ValueError("it broke")
        await asyncio.sleep(2)
        response = await self.llm.answer("What is it?", model="m-1", tools=[double])
        return self.reply({"said": response.content})


def double(n: int) -> int:
    """Double a number."""
    return 2 * n


class Model:
    """Wants a tool, then answers."""

    name = "mine"

    async def chat(self, model: str, messages: Sequence[Any], tools: Any = None) -> ModelResponse:
        await asyncio.sleep(1)
        if messages[-1]["role"] == "tool":
            return ModelResponse(content=messages[-1]["content"], model=model, tokens_in=7, tokens_out=3, cost_usd=0.5)
        return ModelResponse(
            model=model, tokens_in=5, tokens_out=2, tool_calls=(ToolRequest("c1", "double", {"n": 4}),)
        )


class Listing:
    def __init__(self) -> None:
        self.spans: list[TraceSpan] = []
        self.closed = False

    def export(self, spans: Sequence[TraceSpan]) -> None:
        self.spans += spans

    async def close(self) -> None:
        self.closed = True

    def one(self, name: str) -> TraceSpan:
        (found,) = [span for span in self.spans if span.name == name]
        return found


def plan(*children: ActorPlan) -> SystemPlan:
    return SystemPlan(root=SupervisorPlan(name="root", backoff_base=0.0, children=children))


FRONT, BACK = (
    ActorPlan(name=name, type=f"{__name__}.{kind.__name__}") for name, kind in (("front", Front), ("back", Back))
)
CLASSES = {one.type: kind for one, kind in ((FRONT, Front), (BACK, Back))}


def play(*exporters: Any, script: Any) -> None:
    clock = VirtualClock(1000.0)

    async def main() -> None:
        plugins = Plugins([Model()], exporters=exporters, clock=clock)
        system = ActorSystem(plan(FRONT, BACK), SystemPorts(clock=clock, classes=CLASSES, plugins=plugins))
        await system.start()
        try:
            await script(system)
        finally:
            await system.stop()

    clock.run(main())


async def ask_front(system: ActorSystem) -> None:
    reply = await system.ask("front", {"hello": True})
    assert reply.payload == {"said": "8"}


async def crash_back(system: ActorSystem) -> None:
    await system.send("back", "crash")
    await asyncio.sleep(1)


@pytest.fixture(autouse=True)
def tool_calls_in_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread would hold up virtual time."""

    async def call(work: Any, name: str) -> Any:
        return work()

    monkeypatch.setattr("coterie.agents.actors.plugins.toolbox.in_thread", call)


def test_a_message_and_all_that_it_causes_are_one_trace() -> None:
    """From agent to agent, to the model and to the tool: each span is below the one that caused it."""
    seen = Listing()
    play(seen, script=ask_front)

    front, back = seen.one("process front"), seen.one("process back")
    chats = [span for span in seen.spans if span.name == "chat m-1"]
    tool = seen.one("execute_tool double")
    assert {span.trace_id for span in (front, back, *chats, tool)} == {front.trace_id}
    assert front.parent_id == ""
    assert back.parent_id == front.span_id
    assert {span.parent_id for span in (*chats, tool)} == {back.span_id}
    assert len({span.span_id for span in seen.spans}) == len(seen.spans)
    assert [(front.start, front.end), (back.start, back.end)] == [(1000.0, 1004.0)] * 2
    assert [(span.start, span.end) for span in chats] == [(1002.0, 1003.0), (1003.0, 1004.0)]


def test_attributes_have_the_names_of_opentelemetry() -> None:
    """The GenAI conventions for models, tools and agents, those of messaging for messages."""
    seen = Listing()
    play(seen, script=ask_front)

    chat = [span for span in seen.spans if span.name == "chat m-1"][1]
    assert chat.kind == "client"
    assert chat.attributes == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "mine",
        "gen_ai.request.model": "m-1",
        "gen_ai.response.model": "m-1",
        "gen_ai.usage.input_tokens": 7,
        "gen_ai.usage.output_tokens": 3,
        "gen_ai.agent.name": "back",
        "coterie.usage.cost_usd": 0.5,
    }
    tool = seen.one("execute_tool double").attributes
    assert (tool["gen_ai.operation.name"], tool["gen_ai.tool.name"]) == ("execute_tool", "double")
    back = seen.one("process back")
    assert back.kind == "consumer"
    assert back.attributes["messaging.destination.name"] == "back"
    assert back.attributes["messaging.message.id"] == back.span_id
    assert back.attributes["coterie.message.sender"] == "front"


def test_crashes_restarts_and_dead_letters_are_spans() -> None:
    """With the error; the incarnation that crashed and the next one have their own."""
    seen = Listing()
    play(seen, script=crash_back)

    message = seen.one("process back")
    assert message.error == "ValueError: it broke"
    assert message.attributes["error.type"] == "ValueError"
    first, second = [span for span in seen.spans if span.name == "agent back"]
    assert (first.attributes["coterie.agent.incarnation"], first.error) == (1, "ValueError: it broke")
    assert first.attributes["error.type"] == "ValueError"
    assert first.attributes["coterie.message.id"] == message.span_id
    assert (second.attributes["coterie.agent.incarnation"], second.error) == (2, "")
    assert seen.one("restart back").attributes["coterie.supervisor"] == "root"
    assert seen.one("dead letter back").attributes["coterie.message.id"] == message.span_id


def test_no_secret_leaves_in_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception of an agent may quote what it was given."""
    monkeypatch.setenv("MY_TOKEN", "it broke")
    seen = Listing()
    play(seen, script=crash_back)

    assert {span.error for span in seen.spans} == {"", "ValueError: ***"}


def test_without_an_exporter_nothing_is_measured() -> None:
    """Messages pay for no span."""
    system = ActorSystem(plan(FRONT, BACK), SystemPorts(classes=CLASSES))

    assert system.node.on_span is None
    assert (
        ActorSystem(plan(FRONT), SystemPorts(classes=CLASSES, plugins=Plugins(exporters=[Listing()]))).node.on_span
        is not None
    )


def test_the_console_prints_on_standard_error_only(capsys: pytest.CaptureFixture[str]) -> None:
    """A line for each span; nothing on standard output."""
    play(ConsoleExporter(), script=ask_front)

    out, err = capsys.readouterr()
    assert out == ""
    lines = [re.sub(r"^\d\d:\d\d:\d\d\.\d{3} ", "", line) for line in err.splitlines()]
    assert lines[:4] == [
        "chat m-1  5+2 tokens, 1.0 s",
        "execute_tool double",
        "chat m-1  7+3 tokens, 1.0 s",
        "process back  message from front, 4.0 s",
    ]


def test_the_console_can_be_kept_to_errors(capsys: pytest.CaptureFixture[str]) -> None:
    """`only_errors`; a text that could control the terminal is escaped."""
    exporter = ConsoleExporter(only_errors=True)
    exporter.export(
        [
            TraceSpan(name="good", trace_id="t", span_id="1"),
            TraceSpan(name="bad", trace_id="t", span_id="2", error="\x1b[31mred\n"),
        ]
    )

    assert capsys.readouterr().err.endswith("bad  failed: \\x1b[31mred\\x0a\n")


@pytest.mark.parametrize(
    ("error", "said"),
    [(OSError("disk full"), "OSError: disk full"), (SystemExit(3), "RuntimeError: SystemExit: 3")],
)
def test_an_exporter_that_fails_gets_no_more_and_ends_nobody(
    capsys: pytest.CaptureFixture[str], error: BaseException, said: str
) -> None:
    """The agents go on, the other exporters too, and one line says what happened."""

    class Broken(Listing):
        def export(self, spans: Sequence[TraceSpan]) -> None:
            raise error

    seen = Listing()
    play(Broken(), seen, script=ask_front)

    assert seen.one("process front").error == ""
    assert capsys.readouterr().err == f"coterie: Broken failed and gets no more spans: {said}\n"


def test_an_async_export_is_refused_once(capsys: pytest.CaptureFixture[str]) -> None:
    """Its spans would be lost silently."""

    class Late(Listing):
        async def export(self, spans: Sequence[TraceSpan]) -> None:  # type: ignore[override]
            self.spans += spans

    play(Late(), script=ask_front)
    assert capsys.readouterr().err.startswith("coterie: Late failed and gets no more spans: TypeError: export must not")


def test_exporters_are_closed_with_the_system(capsys: pytest.CaptureFixture[str]) -> None:
    """After the last span; one that hangs is left behind after a second, one that fails is reported."""

    class Hanging(Listing):
        async def close(self) -> None:
            await asyncio.sleep(3600)

    class Angry(Listing):
        async def close(self) -> None:
            raise RuntimeError("no")

    class Leaving(Listing):
        async def close(self) -> None:
            raise SystemExit(3)

    seen, clock = Listing(), VirtualClock()

    async def main() -> float:
        plugins = Plugins(exporters=[Hanging(), Angry(), Leaving(), seen], clock=clock)
        system = ActorSystem(plan(FRONT), SystemPorts(clock=clock, classes=CLASSES, plugins=plugins))
        await system.start()
        began = clock.now()
        await system.stop()
        return clock.now() - began

    assert clock.run(main()) == 1.0
    assert seen.closed
    assert seen.one("agent front").attributes["coterie.agent.ended"] == "shutdown"
    assert capsys.readouterr().err.splitlines() == [
        "coterie: Angry did not close: RuntimeError: no",
        "coterie: Leaving did not close: RuntimeError: SystemExit: 3",
        "coterie: Hanging did not close within 1 s",
    ]


def test_a_store_may_take_its_time_to_close() -> None:
    """It may have to finish what it writes."""
    closed: list[float] = []
    clock = VirtualClock()

    class Slow(InMemoryStateStore):
        async def close(self) -> None:
            await asyncio.sleep(5)
            closed.append(clock.now())

    async def main() -> None:
        plugins = Plugins(state=Slow())
        await plugins.close()
        await plugins.close()

    clock.run(main())
    assert closed == [5.0]
