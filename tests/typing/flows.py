"""The types of flows in Python; `tests/test_typing.py` checks this file and never runs it."""

from dataclasses import dataclass
from typing import Literal, assert_type

import coterie
from coterie import agent, flow, gate, human
from coterie.execution.runs.outcome import RunResult


@dataclass
class Review:
    """A typed answer."""

    verdict: Literal["approve", "revise"]


async def summarise(prompt: str) -> str:
    """An agent that is a function."""
    return prompt


def judge(summarise: str) -> Review:
    """Another, which reads the first."""
    return Review("approve")


first, second = agent(summarise), agent(judge)
critic = agent("critic", model="opus", outputs=Review)
plain = agent("plain", model="haiku", outputs={"score": float}, reads=[first, "notes.md"])
boss = human("boss", "Publish?", outputs={"answer": Literal["yes", "no"]}, timeout_seconds=60)
tests = gate("tests", "make test", after=first, before=second, on_fail="bounce-back", max_retries=2)
arrows = [
    first >> [second, critic] >> plain >> boss,
    [first, second] >> critic,
    (boss >> first).when(boss.answer == "no").max(2).per("run").on_max("fail"),
    (critic >> first).when(critic["verdict"] != "approve").max(1).per(first),
]
members = [first, second, critic, plain, boss, tests]
assert_type(flow("t", members, arrows), coterie.Topology)
typed = flow("t", members, arrows, result=critic)
assert_type(typed, coterie.TypedFlow[Review])
assert_type(flow("t", [first], result=first), coterie.TypedFlow[str])
assert_type(flow("t", [first, second], [first >> second], result=second), coterie.TypedFlow[Review])
assert_type(coterie.to_at(typed), str)
named, classed = agent("named", judge), agent("classed", coterie.AgentProcess)
assert_type(flow("t", [named], result=named), coterie.TypedFlow[Review])
assert_type(flow("t", [classed], result=classed), coterie.TypedFlow[RunResult])
assert_type(flow("t", [plain], result=plain), coterie.TypedFlow[RunResult])
mapped = flow("t", [first], [first.each("files", at_most=9)], result=[first])
assert_type(mapped, coterie.TypedFlow[list[str | None]])


async def use() -> None:
    """What comes back has the type of the agent that gives the result."""
    outcome = await coterie.run(typed, "tea", limits=coterie.Limits(max_turns=3))
    assert_type(outcome, coterie.Outcome[Review])
    assert_type(outcome.result, Review)
    assert_type((await coterie.run("team.at")).result, RunResult)
    assert_type((await coterie.run(mapped, {"files": ["a"]})).result, list[str | None])
    run = coterie.start(typed, "tea")
    assert_type(run, coterie.StartedRun[Review])
    async for event in run:
        assert_type(event, coterie.RunEvent)
        assert_type(event.topic, str)
    async for each in coterie.get(run.id).events(text=True, after=""):
        assert_type(each, coterie.RunEvent | coterie.RunText)
        assert_type(each.position, str)
    assert_type((await run).result, Review)
    assert_type(await run.cancel(), coterie.Outcome[Review])
    assert_type((await coterie.start("team.at", "tea")).result, RunResult)
    assert_type(await coterie.resume("last", team=typed), coterie.Outcome[Review])
    assert_type((await coterie.resume("last")).result, RunResult)
    assert_type(await coterie.fork("last", team=typed, at=3), coterie.Outcome[Review])
    assert_type((await coterie.fork("last")).result, RunResult)


counter = agent("counter", command=["count"], outputs=int)


@coterie.program(agents=[counter], max_turns=9)
async def counted(text: str) -> list[int]:
    assert_type(await counter(text), int)
    assert_type(await coterie.together([counter(text)]), list[int])
    assert_type(await coterie.together([counter(text)], until=lambda known: len(known) > 1), list[int | None])
    assert_type(await coterie.first([counter(text)]), int)
    assert_type(await coterie.first([counter(text), coterie.sleep(3)]), int | None)
    assert_type(coterie.now(), float)
    return [await counter(text)]


assert_type(counted, coterie.TypedProgram[list[int]])


async def run_counted() -> None:
    assert_type((await coterie.run(counted, "a")).result, list[int])
