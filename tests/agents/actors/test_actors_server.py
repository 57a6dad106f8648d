"""A GenServer has one method per kind of message."""

import asyncio
from typing import Any

import pytest
from actor_stage import Stage, play

from coterie.agents.actors.server import GenServer
from coterie.errors import AgentCrashed


class Stack(GenServer):
    async def on_start(self) -> None:
        self.items: list[Any] = []
        self.infos: list[Any] = []

    async def handle_call(self, payload: Any, from_: str) -> Any:
        if payload == "remind":
            self.send_after(5.0, "tick")
        return {"top": self.items[-1] if self.items else None, "from": from_}

    async def handle_cast(self, payload: Any) -> None:
        self.items.append(payload)

    async def handle_info(self, payload: Any) -> None:
        self.infos.append(payload)


def test_calls_casts_and_infos_have_a_method_each() -> None:
    """An ask is a call, a cast a command, a timer and a plain send are infos."""

    async def scene(stage: Stage) -> None:
        child = await stage.add(lambda: Stack("stack"))
        await stage.node.cast("stack", 7)
        assert await stage.node.call("stack", "remind") == {"top": 7, "from": "_runtime"}
        await stage.node.send("stack", "plain")
        await asyncio.sleep(4.9)
        assert isinstance(child.agent, Stack)
        assert child.agent.infos == ["plain"]
        await asyncio.sleep(0.2)
        assert child.agent.infos == ["plain", "tick"]

    play(scene)


def test_a_server_calls_another() -> None:
    """`call` returns the payload of the reply, `cast` returns at once."""

    class Front(GenServer):
        async def handle_call(self, payload: Any, from_: str) -> Any:
            await self.cast("stack", payload)
            return await self.call("stack")

    async def scene(stage: Stage) -> None:
        await stage.add(lambda: Stack("stack"))
        await stage.add(lambda: Front("front"))
        assert await stage.node.call("front", 3) == {"top": 3, "from": "front"}

    play(scene)


def test_a_method_that_is_missing_is_named() -> None:
    """The asker learns which method the server lacks."""

    async def scene(stage: Stage) -> None:
        await stage.add(lambda: GenServer("bare"))
        with pytest.raises(AgentCrashed, match="GenServer does not define handle_call"):
            await stage.node.call("bare")
        await stage.node.send("bare")
        await stage.node.cast("bare")
        await asyncio.sleep(1)
        assert dict(stage.node.letters.counts) == {"crashed": 1}, "an info that is not awaited is ignored"

    play(scene)


def test_init_prepares_a_server() -> None:
    """`async def` or not; it runs before the first message, and again in each incarnation."""

    class Plain(GenServer):
        def init(self) -> None:  # type: ignore[override]
            self.ready = "plain"

        async def handle_call(self, payload: Any, from_: str) -> Any:
            return self.ready

    class Awaited(Plain):
        async def init(self) -> None:  # type: ignore[override]
            await asyncio.sleep(1)
            self.ready = "awaited"

    async def scene(stage: Stage) -> None:
        await stage.add(lambda: Plain("plain"))
        await stage.add(lambda: Awaited("awaited"))
        assert [await stage.node.call(name) for name in ("plain", "awaited")] == ["plain", "awaited"]

    play(scene)


def test_a_delay_that_may_be_meant_in_milliseconds_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """`send_after` takes seconds, and a float, a shorter delay or `send_after_ms` say that they are meant."""

    class Timed(GenServer):
        async def handle_call(self, payload: Any, from_: str) -> Any:
            for delay in (999, 5000.0):
                self.send_after(delay, "later")
            self.send_after_ms(1500, "soon")
            if payload:
                self.send_after(1500, "much later")
                self.send_after(2000, "much later")

        async def handle_info(self, payload: Any) -> None:
            heard.append(payload)

    heard: list[Any] = []

    async def scene(stage: Stage) -> None:
        await stage.add(lambda: Timed("timed"))
        await stage.node.call("timed", False)
        assert not caplog.records
        await stage.node.call("timed", True)
        await asyncio.sleep(1.6)
        assert heard == ["soon", "soon"]

    play(scene)
    [said] = [record for record in caplog.records if "send_after" in record.message]
    assert said.levelname == "WARNING"
    assert "1500 seconds" in said.message
    assert "docs/from-civitas.md" in said.message
