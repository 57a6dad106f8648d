"""Programs are started by a process of their own, which finds what hides from its attempt."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import without_subreaper
from asking import pids
from until import until

from coterie.agents.backends import process_table, spawner_client
from coterie.agents.backends.agentside import spawner
from coterie.agents.backends.base import Launched
from coterie.agents.backends.child import Child, spawn
from coterie.agents.backends.processes import alive, end_orphans, started

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has subreapers")
MARKER = f"test-spawner-{os.getpid()}/a#1.1"

HIDES = """
import os, resource, sys, time
resource.setrlimit(10, (0, 0)); resource.setrlimit(resource.RLIMIT_RSS, (0, 0))
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for fd in range(3):
            os.close(fd)
        os.execve(sys.executable, [sys.executable, "-c", '''
import os, time
with open(os.path.join({folder!r}, "part"), "w") as file:
    file.write(str(os.getpid()))
os.rename(file.name, os.path.join({folder!r}, "pid-1"))
time.sleep(600)
'''], {{}})
    os._exit(0)
os.wait()
while not os.path.exists(os.path.join({folder!r}, "pid-1")):
    time.sleep(0.005)
{then}
"""


async def begun(argv: list[str], marker: str = MARKER) -> Child:
    with open(os.devnull, "rb") as nothing:  # noqa: ASYNC230 - never blocks
        return await spawn(
            argv,
            stdin=nothing,
            env=dict(os.environ),
            cwd=Path(),
            marker=marker,
            on_event=lambda event: None,
            on_output=lambda number, data: None,
        )


def test_what_hides_ends_with_its_attempt(tmp_path: Path) -> None:
    """It has another session, no parent, and neither of the marks; another attempt that runs at once goes on."""

    async def main() -> None:
        other = await begun(["sleep", "600"], f"{MARKER}0")
        child = await begun([sys.executable, "-c", HIDES.format(folder=str(tmp_path), then="")])
        await child.exited
        [pid] = pids(tmp_path)
        assert alive(pid, started(pid))
        await child.end()
        assert not alive(pid, started(pid))
        assert not other.exited.done()
        await other.end(0.0)
        child.close()
        other.close()

    asyncio.run(main())


def test_a_program_that_clears_its_own_marks_goes_on_while_another_attempt_ends(tmp_path: Path) -> None:
    """The spawner knows which programs it has started itself."""
    clears = "import os, resource; resource.setrlimit(10, (0, 0)); os.execve('/bin/sleep', ['sleep', '600'], {})"

    async def main() -> None:
        child = await begun([sys.executable, "-c", clears])
        await asyncio.to_thread(until, lambda: process_table.read(f"{child.pid}/environ") == b"")
        await end_orphans(f"{MARKER}0", ())
        assert not child.exited.done()
        await child.end(0.0)
        await child.exited
        assert child.status == -signal.SIGKILL
        child.close()

    asyncio.run(main())


def test_it_is_certain_that_nothing_is_left_of_a_program_that_left_nothing() -> None:
    """Then its end needs no look at other processes."""

    async def main() -> tuple[bool, bool]:
        alone = await begun(["true"])
        await alone.finished
        other = await begun(["sleep", "600"], f"{MARKER}0")
        beside = await begun(["true"])
        await beside.finished
        await other.end(0.0)
        for one in (alone, other, beside):
            one.close()
        return alone.is_over, beside.is_over

    assert asyncio.run(main()) == (True, False)


@pytest.mark.skipif(without_subreaper.PRCTL is None, reason="the number of the call is not known")
def test_without_a_subreaper_what_has_a_mark_still_ends(tmp_path: Path) -> None:
    """And its end is not certain before the processes of the machine were looked through."""
    path = [str(Path(__file__).parent), str(Path(without_subreaper.__file__).parent)]
    program = UNREAPED.format(path=path)
    words = [sys.executable, without_subreaper.__file__, sys.executable, "-c", program]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert (done.stdout, done.stderr) == ("False\n", "")


UNREAPED = """
import asyncio, os, sys
sys.path[:0] = {path!r}
from test_backends_spawner import MARKER, begun
from coterie.agents.backends.processes import any_alive
async def main():
    child = await begun(["sh", "-c", "setsid sleep 600 &"])
    await child.exited
    assert any_alive(MARKER, ())
    print(child.is_over)
    await child.end()
    assert not any_alive(MARKER, ())
asyncio.run(main())
"""

OWNER = """
import asyncio, os, sys
sys.path[:0] = {path!r}
from test_backends_spawner import HIDES, begun
from coterie.agents.backends.base import Confined
async def main():
    child = await begun([sys.executable, "-c", HIDES.format(folder={folder!r}, then="time.sleep(600)")])
    confined = await begun(Confined(["sleep", "600"]))
    while not os.path.exists(os.path.join({folder!r}, "pid-1")):
        await asyncio.sleep(0.005)
    print(child.pid, confined.pid, flush=True)
    await asyncio.sleep(600)
asyncio.run(main())
"""


@pytest.mark.slow
def test_what_hides_ends_when_its_owner_is_killed(tmp_path: Path) -> None:
    """So does a program in a sandbox; any other goes on until the run is resumed, and the spawner with it."""
    path = [str(Path(__file__).parent), str(Path(__file__).parents[2] / "support")]
    program = OWNER.format(path=path, folder=str(tmp_path))
    owner = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    try:
        assert owner.stdout is not None
        pid, confined = map(int, owner.stdout.readline().split())
        [hidden] = pids(tmp_path)
        assert alive(hidden, started(hidden))
    finally:
        owner.kill()
        owner.communicate()
    until(lambda: not alive(hidden, started(hidden)))
    until(lambda: not alive(confined, started(confined)))
    record = Launched(pid=pid, group=pid, started=started(pid))
    assert asyncio.run(end_orphans(f"test-spawner-{owner.pid}/a#1.1", [record])) == [pid]


def test_a_spawner_that_was_killed_is_replaced() -> None:
    """The programs that it has started go on, and are found by their marks."""

    async def main() -> None:
        child = await begun(["sleep", "600"])
        process = spawner_client._SPAWNER._process
        assert process is not None
        process.kill()
        process.wait()
        await child.exited
        assert alive(child.pid, started(child.pid))
        other = await begun(["true"])
        await other.finished
        assert other.status == 0
        await child.end(0.0)
        assert not alive(child.pid, started(child.pid))
        child.close()
        other.close()

    asyncio.run(main())


def test_a_fork_of_the_owner_has_a_spawner_of_its_own() -> None:
    """It holds no end of the other's, which thereby notices the end of its owner."""
    asyncio.run(begun(["true"])).close()
    before = spawner_client._SPAWNER._channel
    assert before is not None
    if (pid := os.fork()) == 0:
        os._exit(int(spawner_client._SPAWNER.is_running or before.fileno() != -1))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert spawner_client._SPAWNER.is_running


@pytest.mark.parametrize("name", ["children", "stat"])
def test_children_are_known_on_every_kernel(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some have no list of them."""
    read = spawner._read
    monkeypatch.setattr(spawner, "_read", lambda path: b"" if name == "stat" and "children" in path else read(path))
    child = subprocess.Popen(["sleep", "600"])
    try:
        assert child.pid in spawner._children(os.getpid())
        assert 1 not in spawner._children(os.getpid())
    finally:
        child.kill()
        child.wait()
