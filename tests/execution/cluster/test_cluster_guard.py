"""The guard of a node: what it ends, what it says of it, and what replaces it."""

import asyncio
import os
import signal
import subprocess
from collections.abc import Callable

import pytest
from marking import marked
from until import soon

from coterie.execution.cluster import guard as guards
from coterie.execution.cluster.guard import Guard

MARK = "guarded/a#1.1"


def agent() -> "subprocess.Popen[bytes]":
    """A process that carries the mark and does not end by itself."""
    with marked(MARK):
        return subprocess.Popen(["sleep", "3600"])


@pytest.mark.slow
def test_a_node_that_was_silent_learns_whose_agents_were_ended() -> None:
    """Before they end; an attempt without a process, as that of a model, is not ended."""
    guard = Guard(print, silence=0.5)
    with guard.over("guarded/model#1.1"), guard.over(MARK):
        one = agent()
        assert one.wait(60) != 0
        assert guard.has_ended(MARK)
        assert not guard.has_ended("guarded/model#1.1")
    with guard.over(MARK):
        assert not guard.has_ended(MARK)  # the next one of that name
    guard.close()


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP])
def test_a_guard_that_was_killed_is_replaced_and_knows_what_it_guards(
    how: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So is one that is frozen, and would let the agents of a node that dies go on."""
    monkeypatch.setattr(guards, "EVERY", 0.05)
    monkeypatch.setattr(guards, "UNANSWERED", 40)  # a second starts no guard on a slow machine
    notices: list[str] = []
    guard = Guard(notices.append, silence=600)
    with guard.over(MARK):
        one = agent()
        first = guard.pid
        os.kill(first, how)
        asyncio.run(_beats(guard, lambda: guard.pid != first))
        fate = "does not answer" if how == signal.SIGSTOP else "has died"
        assert notices == [f"the guard of this node {fate}; another one is started"]
        assert one.poll() is None
        guard.close()  # as the node's end does it
        assert one.wait(60) != 0


@pytest.mark.slow
def test_a_node_ends_beside_a_guard_that_is_frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guards, "ENDS_WITHIN", 0.1)
    guard = Guard(print)
    os.kill(guard.pid, signal.SIGSTOP)
    guard.close()


async def _beats(guard: Guard, condition: Callable[[], bool]) -> None:
    beating = asyncio.create_task(guard.beat())
    await soon(condition)
    beating.cancel()
