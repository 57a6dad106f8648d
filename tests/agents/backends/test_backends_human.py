"""A human is asked at the terminal, or waited for."""

import asyncio

import pytest
from asking import Heard, agent, ask, request, started

from coterie.agents.backends.base import Answer, Failure, Request
from coterie.agents.backends.human import HumanBackend
from coterie.base.clock import VirtualClock

ADA = agent("ada", backend="human", kind="human", timeout=5.0)


def test_the_answer_of_the_terminal_is_the_result() -> None:
    """The terminal is shown the whole request."""
    asked: list[Request] = []

    async def terminal(request: Request) -> str:
        asked.append(request)
        return "yes"

    result, heard = ask(HumanBackend(terminal), ADA, prompt="may I?")
    assert result == Answer(text="yes")
    assert [one.prompt for one in asked] == ["may I?"]
    assert list(heard) == []


def test_without_a_terminal_it_waits_however_long() -> None:
    """Time-outs of humans are kept by the run: they outlive the process."""

    async def main() -> None:
        session, _ = await started(HumanBackend(), ADA)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(session.result(), 1_000_000)

    VirtualClock().run(main())


@pytest.mark.parametrize("how", ["interrupt", "cancel", "close"])
def test_the_question_leaves_the_terminal_when_it_is_called_off(how: str) -> None:
    """Whoever is answered from elsewhere no longer reads from the terminal."""
    left = asyncio.Event()

    async def terminal(request: Request) -> str:
        try:
            return await asyncio.get_running_loop().create_future()
        finally:
            left.set()

    async def main() -> None:
        backend = HumanBackend(terminal)
        session = await backend.start(request(ADA), Heard())
        waiting = asyncio.create_task(session.result())
        await asyncio.sleep(0)
        match how:
            case "interrupt":
                await session.interrupt()
            case "cancel":
                waiting.cancel()
            case _:
                await backend.close()
        await asyncio.wait_for(left.wait(), 60)
        await asyncio.wait({waiting})
        assert waiting.cancelled() or getattr(waiting.result(), "kind", "") == "interrupted"

    asyncio.run(main())


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError("the terminal is gone"), "OSError: the terminal is gone"),
        (asyncio.CancelledError(), "it awaited something that had been cancelled"),
    ],
)
def test_a_terminal_that_fails_is_a_crash(error: BaseException, reason: str) -> None:
    """An error of whoever asks becomes a result that names it; nothing waits for an answer that never comes."""

    async def terminal(request: Request) -> str:
        raise error

    result, _ = ask(HumanBackend(terminal), ADA)
    assert result == Failure(kind="crashed", reason=reason)
