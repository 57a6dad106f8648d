"""The exporter `otlp`, against a real collector that decodes what it gets."""

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="the extra 'otel' is not installed")

from collector import Collector
from free_ports import free_port
from until import soon

from coterie.agents.actors.hosted import SystemPorts
from coterie.agents.actors.message import Message
from coterie.agents.actors.plugins.otlp import OtlpExporter, number
from coterie.agents.actors.plugins.plugins import Plugins
from coterie.agents.actors.process import AgentProcess
from coterie.agents.actors.system import ActorSystem
from coterie.errors import PluginError
from coterie.history.views.spans import TraceSpan
from coterie.team.planning.system import ActorPlan, PluginPlan, PluginsPlan, SupervisorPlan, SystemPlan


class Front(AgentProcess):
    async def handle(self, message: Message) -> Message | None:
        return self.reply((await self.ask("back", message.payload)).payload)


class Back(AgentProcess):
    async def handle(self, message: Message) -> Message | None:
        if message.payload == "crash":
            raise ValueError("it broke")
        return self.reply("done")


@pytest.fixture(autouse=True)
def nothing_is_sent_any_more() -> Iterator[None]:
    """Wait for the threads that still try to send: they draw random numbers, which properties of other tests notice."""
    yield
    for thread in threading.enumerate():
        if thread.name == "coterie-otlp":
            thread.join(30)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Closing waits for the last spans however slow the machine is."""
    monkeypatch.setattr("coterie.agents.actors.plugins.otlp._LAST", 60.0)
    monkeypatch.setattr("coterie.agents.actors.plugins.plugins.CLOSING", 60.0)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is collected before it is sent, and closing waits for nothing."""
    monkeypatch.setattr("coterie.agents.actors.plugins.otlp._LINGER", 0.001)
    monkeypatch.setattr("coterie.agents.actors.plugins.otlp._LAST", 0.1)


def span(name: str = "work", **fields: object) -> TraceSpan:
    return TraceSpan(name=name, trace_id="run-1", span_id=f"id of {name}", start=1.5, end=2.0, **fields)  # type: ignore[arg-type]


@pytest.mark.usefixtures("patient")
def test_spans_of_a_system_reach_the_collector(capsys: pytest.CaptureFixture[str]) -> None:
    """Linked across agents; declared in the plan, sent by the time the system has stopped, and nothing printed."""

    async def main(url: str) -> None:
        agents = [ActorPlan(name=one.__name__.lower(), type=f"x.{one.__name__}") for one in (Front, Back)]
        exporter = PluginPlan(type="otlp", config={"endpoint": url, "service_name": "shop"})
        system = ActorSystem(
            SystemPlan(
                root=SupervisorPlan(name="root", backoff_base=0.0, children=tuple(agents)),
                plugins=PluginsPlan(exporters=(exporter,)),
            ),
            SystemPorts(classes={"x.Front": Front, "x.Back": Back}),
        )
        await system.start()
        assert (await system.ask("front", "hello")).payload == "done"
        await system.send("back", "crash")
        await soon(lambda: any(one.crashes for one in system.describe()))
        await system.stop()

    with Collector() as collector:
        asyncio.run(main(collector.url))

    assert set(collector.paths) == {"/v1/traces"}
    names = [span.name for _, span in collector.placed]
    assert names.count("process back") == 2
    front = collector.spans["process front"]
    back = next(span for _, span in collector.placed if span.parent_span_id == front.span_id)
    assert (back.name, back.trace_id, len(back.trace_id)) == ("process back", front.trace_id, 16)
    assert front.parent_span_id == b""
    assert (
        front.start_time_unix_nano <= back.start_time_unix_nano <= back.end_time_unix_nano <= front.end_time_unix_nano
    )
    failed = next(span for _, span in collector.placed if span.status.code == 2)
    assert failed.status.message == "ValueError: it broke"
    assert {resource["service.name"] for resource, _ in collector.placed} == {"shop"}
    assert capsys.readouterr() == ("", "")


@pytest.mark.usefixtures("patient")
def test_a_span_keeps_its_times_attributes_and_kind() -> None:
    """In nanoseconds, typed."""

    async def main(url: str) -> None:
        exporter = OtlpExporter(f"{url}/own/path")
        exporter.export([span(kind="client", attributes={"a": 1, "b": "x", "c": 0.5, "d": True}, parent_id="p")])
        await exporter.close()

    with Collector() as collector:
        asyncio.run(main(collector.url))

    assert collector.paths == ["/own/path"]
    ((resource, sent),) = collector.placed
    assert resource["service.name"] == "coterie"
    assert (sent.start_time_unix_nano, sent.end_time_unix_nano, sent.kind) == (1_500_000_000, 2_000_000_000, 3)
    values = {one.key: one.value for one in sent.attributes}
    assert (values["a"].int_value, values["b"].string_value) == (1, "x")
    assert (values["c"].double_value, values["d"].bool_value) == (0.5, True)
    assert len(sent.span_id) == len(sent.parent_span_id) == 8


@pytest.mark.usefixtures("patient")
def test_the_variables_of_opentelemetry_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Address, headers and service, so that no key is in a file."""

    async def main() -> None:
        exporter = OtlpExporter()
        exporter.export([span()])
        await exporter.close()

    with Collector() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20x")
        monkeypatch.setenv("OTEL_SERVICE_NAME", "named")
        asyncio.run(main())

    assert collector.headers[0]["authorization"] == "Bearer x"
    assert collector.placed[0][0]["service.name"] == "named"


@pytest.mark.usefixtures("patient")
def test_many_spans_go_in_batches() -> None:
    """None is lost, and they are not sent one by one."""

    async def main(url: str) -> None:
        exporter = OtlpExporter(url)
        for n in range(2000):
            exporter.export([span(f"s{n}")])
        await exporter.close()

    with Collector() as collector:
        asyncio.run(main(collector.url))

    assert len(collector.spans) == 2000
    assert len(collector.requests) <= 20


def test_a_close_that_is_cancelled_says_what_was_lost(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time for it had passed before the exporter gave up, as on a slow machine."""
    monkeypatch.setattr("coterie.agents.actors.plugins.plugins.CLOSING", 0.0)

    async def main() -> None:
        plugins = Plugins(exporters=[OtlpExporter(f"http://127.0.0.1:{free_port()}")])
        plugins.tracer.export(span())
        await plugins.close()

    asyncio.run(main())
    assert "1 spans were not sent to http://127.0.0.1:" in capsys.readouterr().err


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("collector", ["nothing listens", "never answers", "refuses"])
def test_a_dead_collector_never_holds_up_the_end(collector: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The system does not wait for it, and one line says that spans were lost."""
    release = threading.Event()

    async def main(url: str, server: Collector | None = None) -> float:
        plugins = Plugins(exporters=[OtlpExporter(url, timeout=60.0)])
        for n in range(3):
            plugins.tracer.export(span(f"s{n}"))
        if server is not None:
            await asyncio.to_thread(server.arrived.wait, 30)
        began = time.monotonic()
        await plugins.close()
        return time.monotonic() - began

    if collector == "nothing listens":
        took = asyncio.run(main(f"http://127.0.0.1:{free_port()}"))
    else:
        with Collector(400 if collector == "refuses" else 200, None if collector == "refuses" else release) as server:
            took = asyncio.run(main(server.url, server))
            release.set()
    assert took < 20.0
    out, err = capsys.readouterr()
    assert out == ""
    assert "3 spans were not sent to http://127.0.0.1:" in err


def test_a_process_with_a_dead_collector_ends_at_once() -> None:
    """Neither a thread nor the library holds up the interpreter, and only our own line is printed."""
    code = (
        "import asyncio, time\n"
        "from coterie.agents.actors.plugins import otlp\n"
        "from coterie.history.views.spans import TraceSpan\n"
        "async def main():\n"
        "    otlp._LAST = 0.1\n"
        f"    exporter = otlp.OtlpExporter('http://127.0.0.1:{free_port()}', timeout=60.0)\n"
        "    exporter.export([TraceSpan(name='a', trace_id='t', span_id='s')])\n"
        "    await exporter.close()\n"
        "    print('closed', time.time())\n"
        "asyncio.run(main())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    ended = time.time()

    word, at = done.stdout.split()
    assert word == "closed"
    assert ended - float(at) < 20.0
    lines = done.stderr.splitlines()
    assert all(line.startswith("coterie: ") for line in lines), done.stderr
    assert "1 spans were not sent" in lines[-1] or "1 span was not sent" in lines[-1]


@pytest.mark.usefixtures("hasty")
def test_more_spans_than_fit_are_dropped_and_counted(capsys: pytest.CaptureFixture[str]) -> None:
    """Memory stays bounded while a collector does not answer."""
    release = threading.Event()

    async def main(url: str) -> None:
        exporter = OtlpExporter(url)
        exporter.export([span(f"s{n}") for n in range(15_000)])
        await exporter.close()

    with Collector(hold=release) as collector:
        asyncio.run(main(collector.url))
        release.set()

    assert "15000 spans were not sent" in capsys.readouterr().err


def test_an_address_that_is_none_is_refused() -> None:
    """Before anything starts."""
    with pytest.raises(PluginError, match="endpoint 'localhost:4318' does not begin with http:// or https://"):
        OtlpExporter("localhost:4318")


def test_ids_are_kept_if_they_are_hexadecimal_and_hashed_otherwise() -> None:
    """So that a message's id is found again in the collector."""
    assert number("00000000000000ff", 64) == 255
    assert number("00000000000000ff", 128) == 255
    assert number("0" * 31 + "1", 128) == 1
    assert number("run-1", 64) == number("run-1", 64) != number("run-2", 64)
    assert 0 < number("0" * 16, 64) < 2**64
    assert 2**64 < number("run-1", 128) < 2**128
