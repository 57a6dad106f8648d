"""What a coding agent reports of its usage is on the result, however the attempt ends; no library is needed for it."""

import asyncio
import errno
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from asking import Heard, agent, request
from hypothesis import given
from hypothesis import strategies as st

from coterie.agents.backends.attempt import ProcessEnvironment
from coterie.agents.backends.base import Answer, Failure, Result, Used
from coterie.agents.backends.coding import acp, claude, pi
from coterie.agents.backends.coding.attempt import DEADLINES, CodingAttempt, Deadlines, Gone, Wedged
from coterie.agents.backends.coding.pi_process import PiPool
from coterie.errors import Unconfined
from coterie.history.journal.records import NO_USAGE, Usage

Made = Callable[[], CodingAttempt]
REPORTED = Usage(
    input_tokens=100, output_tokens=7, cached_tokens=30, cost=0.25, context_tokens=107, context_window=9000
)


def made(kind: str, heard: Heard, **values: Any) -> Any:
    """An attempt of a backend whose agent does nothing: reports are given to it by hand."""
    asked = request(agent(argv=("agent",), timeout=values.pop("timeout", None)), **values)
    match kind:
        case "claude":
            return claude._Attempt(asked, heard, DEADLINES)
        case "pi":
            return pi._Attempt(asked, heard, DEADLINES, PiPool(DEADLINES.grace))
        case _:
            return acp._Attempt(asked, heard, DEADLINES)


def reports(kind: str, feed: Callable[[Any], object], **values: Any) -> Usage:
    """The usage of an attempt after *feed* has given it reports; each was also passed on."""
    heard = Heard()

    async def main() -> Usage:
        attempt = made(kind, heard, **values)
        attempt.task.cancel()
        feed(attempt)
        await asyncio.wait([attempt.task])
        found: Usage = attempt.used
        return found

    used = asyncio.run(main())
    told = [event.usage for event in heard if isinstance(event, Used)]
    assert used == (told[-1] if told else NO_USAGE)
    return used


# -- however it ends --------------------------------------------------------------------------------------------------


async def _waits(attempt: "Ending") -> Result:
    await asyncio.Event().wait()
    raise AssertionError


async def _raises(error: Exception) -> Result:
    raise error


async def _is(result: Result) -> Result:
    return result


ENDS: dict[str, tuple[Callable[["Ending"], Any], str]] = {
    "answer": (lambda one: _is(one.answer()), ""),
    "failure": (lambda one: _is(one.failure("HTTP 429: too many requests", wait=7.0)), "rate_limited"),
    "two results": (lambda one: _is(one.repeated("first")), "failed"),
    "wedged": (lambda one: _raises(Wedged("it did not answer")), "timeout"),
    "gone": (lambda one: _raises(Gone("it ended with status 1")), "exit"),
    "gone at a limit": (lambda one: _raises(Gone("it ended: rate limit reached")), "rate_limited"),
    "unconfined": (lambda one: _raises(Unconfined("a", "no sandbox works here")), "refused"),
    "files": (lambda one: _raises(PermissionError(errno.EACCES, "Permission denied")), "failed"),
    "time-out": (_waits, "timeout"),
    "interrupted": (_waits, "interrupted"),
}


class Ending(CodingAttempt):
    """An attempt that reports its usage, and ends in a given way."""

    label = "ending"
    ends: Callable[["Ending"], Any]

    async def _exchange(self, environment: ProcessEnvironment) -> Result:
        self.use(msgspec.structs.replace(REPORTED, cost=0.125))
        self.text("so far")
        self.use(REPORTED)
        found: Result = await self.ends()
        return found

    async def steer(self, text: str) -> bool:
        return False

    async def _cancel(self) -> bool:
        return False

    async def _release(self, usable: bool) -> None:
        assert usable is (type(self).ends is ENDS["answer"][0])


@pytest.mark.parametrize("how", ENDS)
def test_what_was_reported_is_on_the_result_however_the_attempt_ends(tmp_path: Path, how: str) -> None:
    """With the seconds that it took, and the text of a failure; a wait that the provider names is kept."""
    ends, kind = ENDS[how]
    heard = Heard()

    async def main() -> Result:
        timeout = 0.001 if how == "time-out" else None
        asked = request(agent(timeout=timeout), cwd=tmp_path)
        attempt = type("_", (Ending,), {"ends": ends})(asked, heard, Deadlines(cancel=0.0))
        if how == "interrupted":
            await heard.until(lambda found: Used(usage=REPORTED) in found)
            await attempt.interrupt()
        return cast(Result, await asyncio.wait_for(attempt.result(), 60))

    result = asyncio.run(main())
    assert msgspec.structs.replace(result.usage, seconds=0.0) == REPORTED
    assert result.usage.seconds > 0
    assert isinstance(result, Answer if not kind else Failure)
    assert result.text == ("first" if how == "two results" else "so far")
    if isinstance(result, Failure):
        assert (result.kind, result.wait) == (kind, 7.0 if how == "failure" else 0.0)


# -- Claude Code ------------------------------------------------------------------------------------------------------

TOKENS = st.integers(0, 1000)
MESSAGES = st.lists(st.tuples(st.sampled_from("abc"), st.booleans(), TOKENS, TOKENS, TOKENS, TOKENS), max_size=8)


@given(MESSAGES)
def test_the_last_report_of_each_message_of_claude_counts(
    messages: list[tuple[str, bool, int, int, int, int]],
) -> None:
    """Those of sub-agents too; the tokens of a message's beginning count with it."""
    last: dict[str, tuple[int, int, int]] = {}

    def feed(attempt: Any) -> None:
        for id, is_top, fresh, read, written, said in messages:
            whole = {"input_tokens": fresh, "cache_read_input_tokens": read, "cache_creation_input_tokens": written}
            name = f"{id} of a sub-agent" if not is_top else id
            last[name] = fresh + read + written, said, read
            if is_top:
                attempt._receive_piece({"type": "message_start", "message": {"id": id, "usage": whole, "model": "m"}})
                attempt._receive_piece({"type": "message_delta", "usage": {"output_tokens": said}})
            else:
                attempt._count(name, whole | {"output_tokens": said}, "m", top=False)

    used = reports("claude", feed)
    assert (used.input_tokens, used.output_tokens, used.cached_tokens) == tuple(
        sum(one[k] for one in last.values()) for k in range(3)
    )
    tops = [sum(counts) for _, is_top, *counts in messages if is_top]
    assert used.context_tokens == (tops[-1] if tops else 0)


@pytest.mark.parametrize(("session", "cost", "tokens"), [("", 2.0, 900), ("s1", 1.0, 450)], ids=["new", "continued"])
def test_the_total_of_a_continued_session_of_claude_counts_in_part(session: str, cost: float, tokens: int) -> None:
    """By the share of what this process was heard to use; a new session costs what it says."""
    half = {"input_tokens": 400, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 50, "output_tokens": 10}
    total = {"inputTokens": 800, "cacheCreationInputTokens": 100, "outputTokens": 20, "contextWindow": 200_000}

    def feed(attempt: Any) -> None:
        attempt._resumed = bool(session)
        attempt._count("a", half, "m", top=True)
        attempt._receive_totals(SimpleNamespace(model_usage={"m": total}, total_cost_usd=2.0))
        attempt._receive_totals(SimpleNamespace(model_usage=None, total_cost_usd=0.0))

    used = reports("claude", feed, session=session)
    assert (used.cost, used.input_tokens, used.context_window) == (pytest.approx(cost), tokens, 200_000)


# -- ACP --------------------------------------------------------------------------------------------------------------


def update(used: int, cost: float | None = None, currency: str = "USD") -> dict[str, Any]:
    """A report of an agent that speaks ACP."""
    amount = {"cost": {"amount": cost, "currency": currency}} if cost is not None else {}
    return {"sessionUpdate": "usage_update", "used": used, "size": 1000, **amount}


@given(st.lists(st.floats(0, 8), max_size=3), st.lists(st.one_of(st.none(), st.floats(0, 8)), max_size=5))
def test_a_session_of_acp_costs_what_it_adds_to_its_earlier_cost(
    before: list[float], after: list[float | None]
) -> None:
    """A report without a cost, or in another currency, leaves it as it was; the tokens come at the end of the turn."""

    def feed(attempt: Any) -> None:
        for cost in before:
            attempt._receive(update(1, cost))
        attempt._prompted = True
        for n, spent in enumerate(after):
            attempt._receive(update(n, spent))
            attempt._receive(update(n, 100.0, "EUR"))
        ends = [{"usage": {"inputTokens": 3, "outputTokens": 2}}, {"usage": {"inputTokens": 4}, "stopReason": "end"}]
        assert isinstance(attempt._ended(ends), Answer)

    used = reports("acp", feed)
    told = [cost for cost in after if cost is not None]
    begin = next((cost for cost in reversed(before) if cost), 0.0)
    assert used.cost == (max(told[-1] - begin, 0.0) if told else 0.0)
    assert (used.input_tokens, used.output_tokens) == (7, 2)
    assert (used.context_tokens, used.context_window) == ((len(after) - 1, 1000) if after else (0, 0))


@pytest.mark.parametrize("why", ["refusal", "cancelled", "max_tokens", "max_turn_requests"])
def test_a_turn_of_acp_that_ends_badly_has_used_its_tokens(why: str) -> None:
    """They are reported with the end, whatever it is."""

    def feed(attempt: Any) -> None:
        found = attempt._ended([{"usage": {"inputTokens": 3, "outputTokens": 2}, "stopReason": why}])
        assert isinstance(found, Failure)

    used = reports("acp", feed)
    assert (used.input_tokens, used.output_tokens) == (3, 2)


# -- pi ---------------------------------------------------------------------------------------------------------------


def of_pi(tokens: tuple[int, int, int, int], cost: float, *, is_total: bool = False) -> Mapping[str, Any]:
    """The usage of a message of pi, or the statistics of a session."""
    counted = dict(zip(("input", "output", "cacheRead", "cacheWrite"), tokens, strict=True))
    if is_total:
        return {"tokens": counted, "cost": cost, "contextUsage": {"tokens": 5, "contextWindow": 50}}
    return {"role": "assistant", "usage": counted | {"cost": {"total": cost}}}


FOUR = st.tuples(TOKENS, TOKENS, TOKENS, TOKENS)
CENTS = st.integers(0, 400).map(lambda n: n / 4)


@given(st.lists(st.tuples(FOUR, CENTS), max_size=4), st.tuples(FOUR, CENTS), st.tuples(FOUR, CENTS))
def test_a_turn_of_pi_used_what_its_messages_say_or_its_session_if_that_is_more(
    messages: list[tuple[tuple[int, int, int, int], float]],
    before: tuple[tuple[int, int, int, int], float],
    total: tuple[tuple[int, int, int, int], float],
) -> None:
    """Messages of users do not count, and neither does what the session had used before."""

    def feed(attempt: Any) -> None:
        attempt._used_before = pi._total(of_pi(*before, is_total=True))
        for tokens, cost in messages:
            attempt._receive_message(of_pi(tokens, cost))
            attempt._receive_message({**of_pi(tokens, cost), "role": "user"})
        attempt._count(of_pi(*total, is_total=True))

    def sums(tokens: tuple[int, int, int, int], cost: float) -> tuple[float, ...]:
        fresh, said, read, written = tokens
        return fresh + read + written, said, read, cost

    used = reports("pi", feed)
    heard = [sum(column) for column in zip((0, 0, 0, 0), *(sums(*one) for one in messages), strict=True)]
    added = [now - then for now, then in zip(sums(*total), sums(*before), strict=True)]
    assert [used.input_tokens, used.output_tokens, used.cached_tokens, used.cost] == [*map(max, heard, added)]
    assert (used.context_tokens, used.context_window) == (5, 50)
