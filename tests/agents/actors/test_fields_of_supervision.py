"""Each field of a supervision tree in `topology.yaml` changes what happens: one test each, from the text of a file."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from coterie import AgentProcess, ErrorAction, Message, Runtime
from coterie.agents.actors.runtime import _LOG
from coterie.base.clock import VirtualClock
from coterie.errors import AgentCrashed, AgentStopped, MailboxFull, SpawnError

STARTS: list[str] = []
STOPS: list[str] = []


class Worker(AgentProcess):
    """Says when it starts and stops; does what it is sent."""

    def __init__(self, name: str, word: str = "hello") -> None:
        super().__init__(name)
        self.word = word

    async def on_start(self) -> None:
        STARTS.append(self.name)

    async def on_stop(self) -> None:
        STOPS.append(self.name)

    async def handle(self, message: Message) -> Message | None:
        match message.payload:
            case "crash":
                raise ValueError("boom")
            case "exit":
                self.exit()
            case "fill":
                for _ in range(8):
                    await self.send(self.name, "x")
            case float(seconds):
                await asyncio.sleep(seconds)
        return self.reply(self.word)


class Quitter(Worker):
    """Stops for good at its first error."""

    async def on_error(self, exc: BaseException, message: Message) -> ErrorAction:
        return ErrorAction.STOP


CLASSES = {"Worker": Worker, "Quitter": Quitter}


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    STARTS.clear()
    STOPS.clear()
    monkeypatch.setattr(_LOG, "disabled", True)


Scene = Callable[[Runtime], Coroutine[Any, Any, None]]


def play(tmp_path: Path, text: str, scene: Scene) -> list[str]:
    """Run *scene* on the system of *text*, in virtual time; return the names that were started."""
    file = tmp_path / "topology.yaml"
    file.write_text(text, encoding="utf-8")

    async def main() -> None:
        async with Runtime.from_config(file, agent_classes=CLASSES) as runtime:
            await scene(runtime)

    VirtualClock().run(main())
    return list(STARTS)


def tree(fields: str = "", child: str = "", children: str = "") -> str:
    """A root with `a` and `b`; *fields* are the root's, *child* is more of `a`."""
    lines = [
        "supervision:",
        "  name: root",
        *(f"  {line}" for line in fields.split("; ") if line),
        "  children:",
        "    - agent: { name: a, type: Worker" + (f", {child}" if child else "") + " }",
        "    - agent: { name: b, type: Worker }",
    ]
    return "\n".join(lines) + "\n" + children


async def crash(runtime: Runtime, name: str = "a") -> None:
    with pytest.raises(AgentCrashed):
        await runtime.ask(name, "crash")


def crashes(*gaps: float) -> Scene:
    """Crash `a` once, and again after each of *gaps* seconds."""

    async def scene(runtime: Runtime) -> None:
        await crash(runtime)
        for gap in gaps:
            await asyncio.sleep(gap)
            await crash(runtime)
        await asyncio.sleep(1000)

    return scene


AT_ONCE = "backoff_base: 0"


@pytest.mark.parametrize(
    ("strategy", "started"), [("ONE_FOR_ONE", ["a"]), ("one_for_all", ["a", "b"]), ("REST_FOR_ONE", ["a", "b"])]
)
def test_strategy(strategy: str, started: list[str], tmp_path: Path) -> None:
    """Which siblings start again."""
    assert play(tmp_path, tree(f"strategy: {strategy}; {AT_ONCE}"), crashes())[2:] == started


@pytest.mark.parametrize(("limit", "restarts"), [(0, 0), (1, 1), (2, 2)])
def test_max_restarts(limit: int, restarts: int, tmp_path: Path) -> None:
    """One more failure stops the tree."""

    async def scene(runtime: Runtime) -> None:
        for _ in range(limit + 1):
            await crash(runtime)
        await asyncio.sleep(1)
        with pytest.raises(AgentStopped):
            await runtime.ask("b", "x")

    assert play(tmp_path, tree(f"max_restarts: {limit}; {AT_ONCE}"), scene)[2:] == ["a"] * restarts


def test_restart_window(tmp_path: Path) -> None:
    """Failures further apart than the window do not add up."""
    fields = f"max_restarts: 1; restart_window: 10; {AT_ONCE}"

    assert play(tmp_path, tree(fields), crashes(10.5, 10.5))[2:] == ["a", "a", "a"]
    STARTS.clear()
    with pytest.raises(AgentStopped):
        play(tmp_path, tree(fields), crashes(9.5, 9.5))


@pytest.mark.parametrize(
    ("fields", "delays"),
    [
        ("", [1, 1, 1]),
        ("backoff_base: 5", [5, 5, 5]),
        ("backoff: linear; backoff_base: 2", [2, 4, 6]),
        ("backoff: EXPONENTIAL; backoff_base: 2", [2, 4, 8]),
        ("backoff: EXPONENTIAL; backoff_base: 2; backoff_max: 3", [2, 3, 3]),
    ],
)
def test_backoff_backoff_base_and_backoff_max(fields: str, delays: list[float], tmp_path: Path) -> None:
    """How long each restart waits."""

    async def scene(runtime: Runtime) -> None:
        loop = asyncio.get_running_loop()
        waited = []
        for _ in delays:
            await crash(runtime)
            began = loop.time()
            await runtime.ask("a", "x")
            waited.append(loop.time() - began)
        assert waited == pytest.approx(delays)

    play(tmp_path, tree(fields), scene)


def test_backoff_jitter(tmp_path: Path) -> None:
    """A share of the delay is added at random."""

    async def scene(runtime: Runtime) -> None:
        began = asyncio.get_running_loop().time()
        await crash(runtime)
        await runtime.ask("a", "x")
        assert 10 < asyncio.get_running_loop().time() - began < 15

    play(tmp_path, tree("backoff_base: 10; backoff_jitter: 0.5"), scene)


@pytest.mark.parametrize(
    ("restart", "what", "restarts"),
    [
        ("permanent", "exit", 1),
        ("transient", "exit", 0),
        ("temporary", "exit", 0),
        ("permanent", "crash", 1),
        ("transient", "crash", 1),
        ("temporary", "crash", 0),
    ],
)
def test_restart(restart: str, what: str, restarts: int, tmp_path: Path) -> None:
    """After which ends a child starts again."""

    async def scene(runtime: Runtime) -> None:
        await runtime.send("a", what)
        await asyncio.sleep(1)

    assert play(tmp_path, tree(AT_ONCE, f"restart: {restart}"), scene)[2:] == ["a"] * restarts


@pytest.mark.parametrize(("what", "reason"), [("crash", "crashed"), ("exit", "shutdown")])
def test_a_temporary_agent_that_crashed_says_so(what: str, reason: str, tmp_path: Path) -> None:
    """Nobody shut it down."""

    async def scene(runtime: Runtime) -> None:
        await runtime.send("a", what)
        await asyncio.sleep(1)
        with pytest.raises(AgentStopped, match=f"agent 'a' has stopped: {reason}"):
            await runtime.ask("a", "x")

    play(tmp_path, tree(AT_ONCE, "restart: temporary"), scene)


def test_type(tmp_path: Path) -> None:
    """The class decides what an error means."""

    async def scene(runtime: Runtime) -> None:
        await runtime.send("a", "crash")
        await asyncio.sleep(1)

    assert play(tmp_path, tree(AT_ONCE).replace("name: a, type: Worker", "name: a, type: Quitter"), scene)[2:] == []


def test_config(tmp_path: Path) -> None:
    """Arguments of the constructor, of later incarnations too."""

    async def scene(runtime: Runtime) -> None:
        await crash(runtime)
        assert (await runtime.ask("a", "x")).payload == "hi"
        assert (await runtime.ask("b", "x")).payload == "hello"

    play(tmp_path, tree(AT_ONCE, "config: { word: hi }"), scene)


@pytest.mark.parametrize(("child", "seconds"), [("", 5.0), ("shutdown: 2", 2.0), ("shutdown: null", 100.0)])
def test_shutdown(child: str, seconds: float, tmp_path: Path) -> None:
    """How long a stop waits for the message in hand."""
    times: list[float] = []

    async def scene(runtime: Runtime) -> None:
        loop = asyncio.get_running_loop()
        await runtime.send("a", 100.0)
        await asyncio.sleep(0)
        times.append(loop.time())
        await runtime.stop()
        times.append(loop.time())

    play(tmp_path, tree("", child), scene)
    assert times[1] - times[0] == pytest.approx(seconds, abs=0.1)


def test_handle_timeout(tmp_path: Path) -> None:
    """A message that takes longer crashes the agent."""

    async def scene(runtime: Runtime) -> None:
        with pytest.raises(AgentCrashed, match="handle_timeout of 2 s"):
            await runtime.ask("a", 10.0)
        await runtime.ask("b", 10.0)

    play(tmp_path, tree(AT_ONCE, "handle_timeout: 2"), scene)


def test_mailbox_size(tmp_path: Path) -> None:
    """How many messages may wait: the agent sends itself eight."""

    async def scene(runtime: Runtime) -> None:
        with pytest.raises(AgentCrashed, match=f"{MailboxFull.__name__}: the mailbox of 'a' is full .5 messages"):
            await runtime.ask("a", "fill")
        await runtime.ask("b", "fill")

    play(tmp_path, tree(AT_ONCE, "mailbox_size: 5"), scene)


POOL = "    - { name: pool, type: dynamic_supervisor, config: { %s } }\n"


@pytest.mark.parametrize(
    ("config", "live", "total"),
    [("max_children: 2", 2, 4), ("max_total_spawns: 3", 3, 3), ("max_children: 1, max_total_spawns: 2", 1, 2)],
)
def test_max_children_and_max_total_spawns(config: str, live: int, total: int, tmp_path: Path) -> None:
    """How many can be spawned at once, and in all."""

    async def scene(runtime: Runtime) -> None:
        done = 0
        while done < 4:
            try:
                await runtime.spawn(Worker, f"w{done}")
            except SpawnError:
                running = [one.name for one in runtime.describe() if one.path == "root/pool"]
                if done == total:
                    break
                assert len(running) == live
                await runtime.stop_agent(running[0])
            else:
                done += 1
        assert done == total

    play(tmp_path, tree(children=POOL % config), scene)


def test_allow(tmp_path: Path) -> None:
    """Which types can be spawned by name."""

    async def scene(runtime: Runtime) -> None:
        await runtime.spawn(f"{__name__}.Worker", "w")
        with pytest.raises(SpawnError, match="not in the allow list of 'pool'"):
            await runtime.spawn(f"{__name__}.Quitter", "q")

    play(tmp_path, tree(children=POOL % f"allow: [{__name__}.Worker]"), scene)


def test_a_nested_supervisor_has_rules_of_its_own(tmp_path: Path) -> None:
    """Its limit ends it, and its parent's backoff decides when it comes back."""
    nested = "    - supervisor: { name: s, max_restarts: 0, children: [agent: { name: c, type: Worker }] }\n"

    async def scene(runtime: Runtime) -> None:
        await crash(runtime, "c")
        await asyncio.sleep(6.5)
        with pytest.raises(AgentStopped):
            await runtime.ask("c", "x")
        await asyncio.sleep(1)
        await runtime.ask("c", "x")

    assert play(tmp_path, tree("backoff_base: 7", children=nested), scene) == ["a", "b", "c", "c"]
    assert STOPS[-3:] == ["c", "b", "a"]
