"""Programs for tests: each is found by its module and name, as a resumed run finds it."""

import asyncio
import dataclasses
import os
from collections.abc import AsyncIterator
from typing import Any, Literal

import coterie
from coterie import AgentFailed, agent, first, human, note, now, program, random, sleep, together

COMMAND = ("cat",)
"""Agents of most tests are played; a command says that they need no model."""


@dataclasses.dataclass
class Plan:
    topics: list[str]


@dataclasses.dataclass
class Verdict:
    approved: bool
    notes: str = ""


@dataclasses.dataclass
class Report:
    sections: list[str]
    rounds: int


def shout(text: str, times: int = 1) -> str:
    return text.upper() + "!" * times


planner = agent("planner", command=COMMAND, outputs=Plan)
writer = agent("writer", command=COMMAND)
critic = agent("critic", command=COMMAND, outputs=Verdict)
chooser = agent("chooser", command=COMMAND, outputs={"word": Literal["yes", "no"]})
shouter = agent("shouter", shout)
editor = human("editor", "Is it good?", outputs={"word": Literal["yes", "no"]})


@program(agents=[planner, writer, critic], max_turns=40)
async def report(topic: str) -> Report:
    plan = await planner(topic)
    sections = await together([writer(one) for one in plan.topics], at_once=3)
    rounds = 0
    for _ in range(3):
        rounds += 1
        verdict = await critic(sections)
        if verdict.approved:
            break
        note(f"round {rounds}: {verdict.notes}")
        sections = await together([writer(one, notes=verdict.notes) for one in plan.topics], at_once=3)
    return Report(sections, rounds)


@program(agents=[shouter, editor], max_turns=3)
async def shouted(text: str, times: int = 2) -> str:
    loud = await shouter(text, times=times)
    answer = await editor(loud)
    return f"{loud} {answer.word}"


@program(agents=[writer], max_turns=2)
async def bounded(text: str) -> list[str]:
    found = await together([writer(text) for _ in range(4)], failures=True)
    return [one if isinstance(one, str) else f"{one.kind}: {one}" for one in found if one is not None]


@program(agents=[writer], max_turns=9)
async def raced(text: str) -> str:
    return await first([writer(f"{text} {n}") for n in range(3)])


@program(agents=[writer], max_turns=9)
async def twice(text: str) -> list[str]:
    question = writer(text)
    again = await together([question, question])
    return [await question, *again]


@program(agents=[writer], max_turns=9)
async def timed(text: str) -> list[float]:
    times = [now()]
    await writer(text)
    return [*times, now(), random().random(), random().random()]


async def pieces(text: str) -> AsyncIterator[str]:
    for word in text.split():
        yield await writer(word)


async def joined(text: str) -> str:
    return "+".join([one async for one in pieces(text)])


@program(agents=[writer], max_turns=9)
async def nested(text: str) -> str:
    return await joined(text)


inner = agent("inner", nested)


@program(agents=[inner, writer], max_turns=9)
async def outer(text: str) -> list[str]:
    return [await inner(text), await inner(text=f"{text} more")]


@program(agents=[writer], max_turns=9)
async def careful(text: str) -> str:
    try:
        return await writer(text)
    except AgentFailed as failure:
        return f"{failure.kind} of {failure.turn}"


@program(agents=[writer], max_turns=9)
async def forgetful(text: str) -> str:
    writer("never awaited")
    return await writer(text)


@program(agents=[writer], max_turns=9)
async def wrong(how: str) -> Any:
    """Does what programs do not do."""
    await writer("before")
    match how:
        case "sleep":
            await asyncio.sleep(1)
        case "yield":
            await asyncio.sleep(0)
        case "gather":
            await asyncio.gather(joined("a"), joined("b"))
        case "timeout":
            async with asyncio.timeout(1):
                await writer("in it")
        case "thread":
            await asyncio.to_thread(shout, "a")
        case "exit":
            raise SystemExit(3)
        case "cancel":
            raise asyncio.CancelledError
        case "stranger":
            await planner("who")
        case "question":
            await writer(writer("a"))
        case "object":
            await writer(object())
        case "coroutine":
            await together([joined("a")])  # type: ignore[list-item, arg-type, unused-ignore]
        case "arguments":
            await agent("shouter", shout)(loud=True)
        case "program":
            await nested("a")
        case "result":
            return object()
        case "stubborn":
            try:
                await asyncio.sleep(0)
            finally:
                await writer("afterwards")
    return how


@program(agents=[writer], max_turns=9)
async def numbered() -> int:
    """Gives what another type would be."""
    await writer("a")
    return coterie  # type: ignore[return-value]


@program(agents=[writer], max_turns=9)
async def patient(seconds: float) -> list[Any]:
    began = now()
    await sleep(seconds)
    return [now() - began >= seconds, await first([writer("slow"), sleep(2)]), await together([sleep(1), writer("b")])]


def found(prompt: str) -> Plan:
    return Plan([prompt, "cups"])


@program(agents=[writer], max_turns=9)
async def inner_of_flow(topics: list[str], task: str, depth: int = 1) -> Report:
    """Reads an answer of the flow, its prompt, and a value of its input."""
    return Report([f"{one} for {task}" for one in topics], depth)


def raise_without_flag(text: str) -> str:
    if not os.path.exists(os.environ["FLAG"]):
        raise ValueError("not yet")
    return text.upper()


raiser = agent("raiser", raise_without_flag, max_retries=0)


@program(agents=[raiser], max_turns=9)
async def flagged(text: str) -> list[Any]:
    return [await raiser(text), random().random()]
