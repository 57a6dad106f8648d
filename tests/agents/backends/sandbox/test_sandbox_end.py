"""How the processes of a confined attempt end."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
from marking import marked
from sandboxes import Neighbourhood

from coterie.agents.backends.processes import alive, any_alive, end_group, end_orphans, family_of

_POLITE = """
import signal, time

signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # a handler could miss one that comes before the wait
print("ready", flush=True)
signal.sigwait({signal.SIGTERM})
time.sleep(0.3)
print("bye", flush=True)
"""


@pytest.fixture
def agent(around: Neighbourhood) -> "Iterator[subprocess.Popen[str]]":
    """A confined agent at work, which says so when it is told to end."""
    with around.confined(sys.executable, "-c", _POLITE) as given:
        with marked(around.request(around.tree).ref.marker):
            process = subprocess.Popen(**given, stdout=subprocess.PIPE, text=True, start_new_session=True)  # type: ignore[call-overload]
        with process:
            assert process.stdout.readline() == "ready\n"
            yield process
            process.kill()


def test_it_has_its_grace(agent: "subprocess.Popen[str]", around: Neighbourhood) -> None:
    """SIGTERM reaches the agent, which ends by itself; then nothing is left."""
    marker = around.request(around.tree).ref.marker

    ended = asyncio.run(end_group(agent.pid, marker, grace=120.0))

    assert agent.pid in ended
    assert agent.communicate()[0] == "bye\n"
    assert not any_alive(marker, ())


def test_it_ends_with_its_sandbox(agent: "subprocess.Popen[str]", around: Neighbourhood) -> None:
    """The end of the process that the owner started is the end of all in the sandbox, or of all that its mark finds."""
    marker = around.request(around.tree).ref.marker
    family = asyncio.run(family_of(agent.pid, marker))

    os.kill(agent.pid, signal.SIGKILL)
    agent.wait()
    asyncio.run(end_orphans(marker, (), grace=0.0))

    assert not [pid for pid, began in family.items() if alive(pid, began)]
