"""Functions that use their context, for tests of what they may say and learn."""

import asyncio
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from context_library import client

import coterie
from coterie.agents.backends import turn_attempt, turn_key


def tells(prompt: str, context: coterie.Context) -> list[str]:
    assert coterie.current() is context
    context.note("I begin")
    context.emit("half ")
    context.emit("whole")
    return [
        context.run,
        context.turn,
        str(context.attempt),
        context.agent,
        context.key,
        turn_key(),
        str(turn_attempt()),
    ]


async def tells_async(prompt: str, where: coterie.Context) -> str:
    where.emit("a")
    await asyncio.gather(inner(), inner())
    return where.turn


async def inner() -> None:
    coterie.current().emit("b")


def reports(context: coterie.Context) -> str:
    context.report({"prompt_tokens": 10, "completion_tokens": 5}, cost=0.5)
    context.report(SimpleNamespace(input_tokens=1, output_tokens=2), cost=0.25)
    return "spent"


def fails_and_reports(context: coterie.Context) -> str:
    context.report(cost=1.0)
    raise ValueError("too bad")


def fails_once(context: coterie.Context) -> str:
    Path(f"key-{context.attempt}").write_text(context.key)
    if context.attempt == 1:
        raise ValueError("once")
    return context.key


def waits_until_cancelled(context: coterie.Context) -> str:
    until = time.monotonic() + 60
    while not context.cancelled and time.monotonic() < until:
        time.sleep(0.001)
    context.emit("too late")
    Path("ended").touch()
    return "late"


def speaks_late(context: coterie.Context) -> str:
    def later() -> None:
        while not Path("over").exists():
            time.sleep(0.001)
        context.emit("too late")
        context.report(cost=9.0)
        Path("said").touch()

    threading.Thread(target=later, daemon=True).start()
    return "done"


def uses_a_library(prompt: str) -> str:
    return client(prompt)


def uses_a_library_and_reports(prompt: str, context: coterie.Context) -> str:
    context.report(cost=0.1)
    return client(prompt)


def imports_a_library(prompt: str) -> str:
    from openai import OpenAI  # type: ignore[import-not-found, unused-ignore]

    return str(OpenAI)


def finds(prompt: str) -> list[Any]:
    return [["x", 1], "b"]


def tells_its_item(context: coterie.Context) -> Any:
    return context.item
