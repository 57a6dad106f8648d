"""The context of a function: where it is, what it says while it works, and what it has spent."""

import asyncio
import time
from pathlib import Path
from typing import Any

import context_agents as functions
import pytest

import coterie
from coterie import Limits, agent, flow
from coterie.agents.actors.context import model_library


def team(function: Any, **settings: Any) -> Any:
    one = agent(function, **settings)
    return flow("one", [one], result=one)


def said(function: Any, **settings: Any) -> tuple[list[tuple[str, str]], coterie.Outcome[Any]]:
    async def main() -> tuple[list[tuple[str, str]], coterie.Outcome[Any]]:
        run = coterie.start(team(function, **settings), "tea", id="r")
        texts = [(e.topic, e.text) async for e in run.events(text=True) if isinstance(e, coterie.RunText)]
        return texts, await run

    return asyncio.run(main())


def wait_for(file: Path) -> None:
    """Wait for a thread to have made *file*; it makes it or dies, so a minute is only for a broken one."""
    until = time.monotonic() + 60
    while not file.exists():
        assert time.monotonic() < until
        time.sleep(0.001)


def test_a_function_knows_where_it_is_and_watchers_see_what_it_says() -> None:
    """In a thread it tells lines of its log and pieces of its output, in order, and has its key and attempt."""
    texts, outcome = said(functions.tells)

    assert outcome.result == ["r", "tells#1", "1", "tells", "r/tells#1", "r/tells#1", "1"]
    assert texts == [("log", "I begin\n"), ("text", "half "), ("text", "whole")]


def test_what_an_async_function_calls_has_its_context() -> None:
    """Any name of the parameter will do, since its type says what it is."""
    texts, outcome = said(functions.tells_async)

    assert outcome.result == "tells_async#1"
    assert [text for _, text in texts] == ["a", "b", "b"]


def test_what_a_function_reports_is_counted_and_limited() -> None:
    """Usage of several libraries adds up, also of a turn that fails, and stops the run at its budget."""
    outcome = said(functions.reports)[1]
    assert (outcome.usage.input_tokens, outcome.usage.output_tokens, outcome.usage.cost) == (11, 7, 0.75)

    failed = asyncio.run(coterie.run(team(functions.fails_and_reports), "tea"))
    assert (failed.status, failed.usage.cost) == ("failed", 1.0)

    one, two = agent("one", functions.reports), agent("two", functions.reports)
    stopped = asyncio.run(coterie.run(flow("f", [one, two], [one >> two]), "tea", limits=Limits(max_cost=0.7)))
    assert (stopped.status, stopped.usage.cost) == ("stopped", 0.75)


def test_the_key_is_the_same_in_every_attempt() -> None:
    """So an effect that takes it happens once, however often the turn is tried."""
    outcome = said(functions.fails_once, max_retries=1)[1]

    assert [Path(f"key-{n}").read_text() for n in (1, 2)] == [outcome.result] * 2


def test_a_thread_learns_that_its_turn_is_over_and_is_not_heard_after_that() -> None:
    """A time-out is told to the thread, whose later words have no effect."""
    texts, outcome = said(functions.waits_until_cancelled, timeout_seconds=0.05)

    assert (outcome.status, "no answer within 0.05 s" in outcome.reason) == ("failed", True)
    wait_for(Path("ended"))
    assert texts == []


def test_what_is_said_after_the_turn_is_not_heard() -> None:
    """A thread that the function left behind neither speaks nor spends."""
    texts, outcome = said(functions.speaks_late)
    Path("over").touch()
    wait_for(Path("said"))

    assert (texts, outcome.usage.cost) == ([], 0.0)


def test_a_function_that_uses_a_model_library_without_reporting_is_named() -> None:
    """The notice says what to call; a function that reports has none."""
    outcome = said(functions.uses_a_library)[1]
    assert outcome.notices == (
        "uses_a_library() uses openai and reported no usage: call context.report(usage, cost=…)",
    )
    assert asyncio.run(coterie.run(team(functions.uses_a_library_and_reports), "tea")).notices == ()


def test_an_import_in_a_function_is_noticed_and_a_module_named_agents_is_not() -> None:
    """A library is known by its modules; a program may call a module of its own `agents`."""
    own: dict[str, Any] = {"__name__": "agents"}
    exec("def helper(): ...\ndef work(prompt: str) -> str: return prompt", own)

    assert model_library(functions.imports_a_library) == "openai"
    assert model_library(own["work"]) == ""


def test_a_function_knows_the_item_of_its_turn() -> None:
    """Also one that has no parameter for it; elsewhere there is none."""
    scout, reader = agent(functions.finds), agent(functions.tells_its_item)
    mapped = flow("read", [scout, reader], [(scout >> reader).each(scout.result, at_most=5)], result=[reader])

    assert asyncio.run(coterie.run(mapped, "tea")).result == [["x", 1], "b"]
    assert asyncio.run(coterie.run(team(functions.tells_its_item), "tea")).result == ""


def test_outside_of_a_function_there_is_no_context() -> None:
    """The error says where there is one."""
    with pytest.raises(LookupError, match="only in a function that is an agent"):
        coterie.current()
