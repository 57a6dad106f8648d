"""Processes are told apart, and ended with all they started."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from asking import pids
from marking import marked
from until import until

from coterie.agents.backends import process_table
from coterie.agents.backends.base import Launched
from coterie.agents.backends.processes import (
    MARK,
    alive,
    attempt_of,
    end_group,
    end_orphans,
    end_others,
    family_of,
    is_within,
    marks_of,
    started,
)

NEEDS_ENVIRONMENTS = pytest.mark.skipif(
    not process_table.environment(os.getpid()), reason="the environments of processes cannot be read here"
)
pytestmark = pytest.mark.macos
RUN = f"test-run-{os.getpid()}"
MARKER = f"{RUN}/agent#1.1"
SUPPORT = Path(__file__).parents[2] / "support"


@pytest.fixture(params=["proc", "ps"])
def source(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where processes are looked up: both ways say the same."""
    if request.param == "ps":
        monkeypatch.setattr(process_table, "HAS_PROC", False)
    elif not process_table.HAS_PROC:
        pytest.skip("there is no /proc here")
    return str(request.param)


class Zoo:
    """Processes that a test starts, and that are gone when it ends."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started: list[subprocess.Popen[bytes]] = []

    def start(self, program: str, marker: str = MARKER, ready: int = 1) -> subprocess.Popen[bytes]:
        """Run a Python *program* in a session of its own; wait until *ready* processes have called `here(name)`."""
        head = f"""
            import os, signal, subprocess, sys, time
            def here(name):
                with open(os.path.join({str(self._folder)!r}, "pid-" + name), "w") as file: file.write(str(os.getpid()))
                os.write(1, b".")
            def deaf():
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
        """
        child = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(head) + textwrap.dedent(program)],
            stdout=subprocess.PIPE,
            start_new_session=True,
            env=os.environ | {MARK: marker},
        )
        self._started.append(child)
        assert child.stdout is not None
        for _ in range(ready):
            assert child.stdout.read(1) == b"."
        return child

    def close(self) -> None:
        """End whoever is left, also when the test failed."""
        for pid in [*pids(self._folder), *(child.pid for child in self._started)]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for child in self._started:
            child.wait()
            assert child.stdout is not None
            child.stdout.close()


@pytest.fixture
def zoo(tmp_path: Path) -> Iterator[Zoo]:
    """A place to start processes in."""
    zoo = Zoo(tmp_path)
    yield zoo
    zoo.close()


SLEEPER = "here('1'); time.sleep(600)"
DEAF_GRANDCHILD = """
    if os.fork() == 0:
        deaf()
        here('2')
    else:
        here('1')
    time.sleep(600)
"""
LEFT_THE_GROUP = """
    if os.fork() == 0:
        os.setsid()
        here('2')
    else:
        here('1')
    time.sleep(600)
"""
ORPHAN_OF_ITS_OWN_GROUP = """
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            here('2')
            time.sleep(600)
        os._exit(0)
    os.wait()
    here('1')
    time.sleep(600)
"""


def is_zombie(pid: int) -> bool:
    shown = subprocess.run(["ps", "-p", str(pid), "-o", "stat="], capture_output=True, text=True)
    return shown.stdout.startswith("Z")


def launched(child: subprocess.Popen[bytes]) -> Launched:
    return Launched(pid=child.pid, group=child.pid, started=started(child.pid))


def test_a_process_keeps_its_start_time(source: str, zoo: Zoo) -> None:
    """The start time is the same however often it is asked, and alive goes by it."""
    child = zoo.start(SLEEPER)

    assert started(child.pid) == started(child.pid) != ""
    assert alive(child.pid, started(child.pid))
    assert not alive(child.pid, "another")
    assert not alive(child.pid, "")


def test_a_zombie_is_dead(source: str, zoo: Zoo) -> None:
    """A process that ended and was not waited for yet does not live."""
    child = zoo.start("here('1'); sys.stdin.read()")
    began = started(child.pid)
    os.kill(child.pid, signal.SIGKILL)
    until(lambda: is_zombie(child.pid))

    assert not alive(child.pid, began)


def test_nobody_has_no_start_time(source: str, zoo: Zoo) -> None:
    """Once it was waited for, its pid names nobody."""
    child = zoo.start("here('1')")
    child.wait()

    assert started(child.pid) == ""
    assert not alive(child.pid, "")


def test_a_name_with_brackets_does_not_confuse(zoo: Zoo, tmp_path: Path) -> None:
    """The kernel prints a program's name unquoted, in brackets, before what is read."""
    program = tmp_path / "od) S 1 (d"
    program.symlink_to("/bin/sleep")
    child = subprocess.Popen([program, "60"])
    try:
        assert alive(child.pid, started(child.pid))
        assert started(child.pid).isdecimal() or not process_table.HAS_PROC
    finally:
        child.kill()
        child.wait()


@pytest.mark.parametrize("program", [DEAF_GRANDCHILD, LEFT_THE_GROUP], ids=["deaf", "left the group"])
def test_a_group_ends_with_its_grandchildren(source: str, zoo: Zoo, tmp_path: Path, program: str) -> None:
    """Who ignores SIGTERM is killed; who left the group is found by descent."""
    child = zoo.start(program, ready=2)
    family = {pid: started(pid) for pid in pids(tmp_path)}

    ended = asyncio.run(end_group(child.pid, grace=0.2))
    assert set(ended) == set(family)
    assert not any(alive(pid, began) for pid, began in family.items())


def test_whoever_ends_when_asked_is_not_killed(source: str, zoo: Zoo) -> None:
    """SIGTERM comes first, once, and with time to clear up."""
    child = zoo.start(
        """
        asked = []
        signal.signal(signal.SIGTERM, lambda *_: asked.append(1))
        here('1')
        while not asked: time.sleep(0.01)
        time.sleep(0.2)
        os.write(1, b'%d' % len(asked))
        os._exit(7)
        """
    )

    asyncio.run(end_group(child.pid, grace=60))
    assert child.wait() == 7
    assert child.stdout is not None
    assert child.stdout.read() == b"1"


def test_a_group_of_zombies_has_ended(source: str, zoo: Zoo) -> None:
    """Nobody waits for what only its parent can clear away."""
    child = zoo.start(SLEEPER)
    os.kill(child.pid, signal.SIGKILL)
    until(lambda: is_zombie(child.pid))

    assert asyncio.run(end_group(child.pid)) == []


@NEEDS_ENVIRONMENTS
def test_an_orphan_of_its_own_group_is_found_by_its_mark(zoo: Zoo, tmp_path: Path) -> None:
    """Who left the group and lost its parent still carries the mark, launched record or not."""
    child = zoo.start(ORPHAN_OF_ITS_OWN_GROUP, ready=2)
    parent, orphan = pids(tmp_path)
    assert os.getpgid(orphan) != child.pid

    ended = asyncio.run(end_orphans(MARKER, [], grace=0.2))
    assert set(ended) == {parent, orphan}
    assert not alive(orphan, started(orphan))


@NEEDS_ENVIRONMENTS
def test_a_run_stands_for_all_its_attempts(zoo: Zoo) -> None:
    """A marker that ends in a slash covers every attempt of the run and below, and no namesake's."""
    mine = zoo.start("here('1'); time.sleep(600)", marker=MARKER)
    below = zoo.start("here('2'); time.sleep(600)", marker=f"{RUN}/team#1.1/agent#2.1")
    other = zoo.start("here('3'); time.sleep(600)", marker=f"{RUN}-2/agent#1.1")

    assert set(asyncio.run(end_orphans(f"{RUN}/", []))) == {mine.pid, below.pid}
    assert other.poll() is None


@NEEDS_ENVIRONMENTS
def test_another_attempt_lives_on(zoo: Zoo) -> None:
    """`agent#1.1` is not `agent#1.10`."""
    other = zoo.start(SLEEPER, marker=MARKER + "0")

    assert asyncio.run(end_orphans(MARKER, [])) == []
    assert other.poll() is None


def test_what_a_record_names_is_ended(source: str, zoo: Zoo, tmp_path: Path) -> None:
    """Without a mark to go by, the group of a launched process is ended whole."""
    child = zoo.start(DEAF_GRANDCHILD, marker="none", ready=2)

    ended = asyncio.run(end_orphans("nobody/x#1.1", [launched(child)], grace=0.2))
    assert set(ended) == set(pids(tmp_path))


def test_a_namesake_is_left_alone(source: str, zoo: Zoo) -> None:
    """A pid that was given out again is not the process of the record."""
    child = zoo.start(SLEEPER)
    record = Launched(pid=child.pid, group=child.pid, started="1")

    assert asyncio.run(end_orphans("nobody/x#1.1", [record])) == []
    assert child.poll() is None


CLEAN_UP = """
import asyncio, os, sys
from coterie.agents.backends import process_table, processes
from coterie.agents.backends.base import Launched

parent = os.getppid()
process_table.HAS_PROC = sys.argv[1] == "proc"
record = Launched(pid=parent, group=os.getpgrp(), started=processes.started(parent))
print(asyncio.run(processes.end_orphans(sys.argv[2], [record], grace=0.2)))
"""


def test_a_process_that_may_not_be_signalled_is_not_waited_for(
    source: str, zoo: Zoo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that runs as another user now, such as `sudo`: ending the attempt does not take until it ends by itself."""
    child = zoo.start(SLEEPER)

    def refuse(*_: int) -> None:
        raise PermissionError

    with monkeypatch.context() as patch:
        patch.setattr(os, "kill", refuse)
        patch.setattr(os, "killpg", refuse)
        ended = asyncio.run(asyncio.wait_for(end_group(child.pid, grace=600), 60))

    assert ended == [child.pid]
    assert child.poll() is None


def test_the_killer_spares_itself_and_its_ancestors(source: str, zoo: Zoo, tmp_path: Path) -> None:
    """Who cleans up after the attempt it belongs to ends what carries its mark, and neither itself nor who waits."""
    script = tmp_path / "clean_up.py"
    script.write_text(CLEAN_UP)
    program = f"""
        sibling = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        here('1')
        said = subprocess.run([sys.executable, {str(script)!r}, {source!r}, {MARKER!r}], capture_output=True, text=True)
        print(said.stdout, said.stderr, said.returncode, sibling.pid, sep="|", flush=True)
        sibling.kill()
    """
    child = zoo.start(program)

    assert child.stdout is not None
    said, errors, status, sibling = child.stdout.read().decode().split("|")
    assert (errors, status) == ("", "0")
    finds = source == "proc" or sys.platform == "darwin"
    assert said.strip() == (f"[{sibling.strip()}]" if finds else "[]")
    assert child.wait() == 0


def test_a_forking_family_is_ended_whole(zoo: Zoo) -> None:
    """Children that come while their parents go are found before anybody says it is over."""
    program = """
        deaf()
        for n in range(200):
            if n == 20:  # however slow the machine is, there is a family by now
                here('1')
            if os.fork() == 0:
                time.sleep(0.02)
                if os.fork() == 0:
                    time.sleep(600)
                os._exit(0)
            time.sleep(0.01)
            try:
                os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                pass
    """
    child = zoo.start(program)

    ended = asyncio.run(end_group(child.pid, grace=0.3))
    assert len(ended) > 5
    assert not any(alive(pid, started(pid)) for pid in ended)


def test_the_loop_goes_on_meanwhile(zoo: Zoo) -> None:
    """Ending others takes seconds at worst, and nobody else waits for it."""
    child = zoo.start("deaf(); here('1'); time.sleep(600)")
    beats = 0

    async def beat() -> None:
        nonlocal beats
        while True:
            await asyncio.sleep(0.01)
            beats += 1

    async def main() -> None:
        heart = asyncio.create_task(beat())
        await end_group(child.pid, MARKER, grace=0.5)
        heart.cancel()

    asyncio.run(main())
    assert beats > 2  # a loop that is held up has none; a busy machine leaves few


@NEEDS_ENVIRONMENTS
def test_what_carries_the_mark_of_a_process_belongs_to_the_attempt_it_serves(zoo: Zoo, tmp_path: Path) -> None:
    """A process that serves one attempt after the other has its own mark, which its orphans keep."""
    server = f"{RUN}/@server.1"
    with marked(server):
        child = zoo.start(ORPHAN_OF_ITS_OWN_GROUP, marker=server, ready=2)
    _, orphan = pids(tmp_path)

    assert attempt_of(orphan) == server
    assert attempt_of(orphan, {child.pid: MARKER}) == MARKER
    assert attempt_of(child.pid, {child.pid: MARKER}) == MARKER


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has the limits")
def test_so_does_what_carries_only_the_limit_of_that_process(zoo: Zoo, tmp_path: Path) -> None:
    """Its orphans may clear their environment."""
    server = f"{RUN}/@server.1"
    cleared = ORPHAN_OF_ITS_OWN_GROUP.replace("time.sleep(600)", "os.execve('/bin/sleep', ['sleep', '600'], {})", 1)
    with marked(server):
        child = zoo.start(cleared, marker=server, ready=2)
    _, orphan = pids(tmp_path)
    until(lambda: Path(f"/proc/{orphan}/environ").read_bytes() == b"")

    assert is_within([str(attempt_of(orphan))], [server])
    assert attempt_of(orphan, {child.pid: MARKER}) == MARKER


@NEEDS_ENVIRONMENTS
def test_all_others_are_ended_while_some_go_on(zoo: Zoo, tmp_path: Path) -> None:
    """What a kept process started is ended, an orphan with its mark too; its companions of before go on."""
    child = zoo.start(ORPHAN_OF_ITS_OWN_GROUP, ready=2)
    parent, orphan = pids(tmp_path)

    async def main() -> None:
        family = await family_of(child.pid, MARKER)
        assert set(family) == {parent, orphan}
        assert await end_others(child.pid, [MARKER], family, grace=0.2) == []
        assert await end_others(child.pid, [MARKER], {child.pid: family[child.pid]}, grace=0.2) == [orphan]

    asyncio.run(main())
    assert alive(parent, started(parent))
    assert not alive(orphan, started(orphan))


def test_others_of_its_group_are_killed_while_it_goes_on(zoo: Zoo, tmp_path: Path) -> None:
    """One by one, as they hear no SIGTERM; a process that only has the number of one that goes on is ended."""
    child = zoo.start(
        """
        if os.fork() == 0:
            deaf(); here('2'); time.sleep(600)
        here('1'); time.sleep(600)
        """,
        ready=2,
    )
    parent, other = pids(tmp_path)

    assert asyncio.run(end_others(child.pid, [], {parent: started(parent)}, grace=0.05)) == [other]
    assert alive(parent, started(parent))
    assert asyncio.run(end_others(child.pid, [], {parent: "another time"})) == [parent]


NESTED = """
    sys.path.append({support!r})
    from marking import marked
    with marked({inner!r}):
        subprocess.Popen([sys.executable, "-c", {orphan!r}], env={{}})
    time.sleep(60)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has the limits")
def test_an_attempt_of_a_nested_run_bears_the_mark_around_it_too(zoo: Zoo, tmp_path: Path) -> None:
    """Both in its limits, which survive a cleared environment and a double fork; either ends it."""
    inner = f"{RUN}-inner/agent#1.1"
    orphan = (
        "import os, time\n"
        "if os.fork(): os._exit(0)\n"
        "os.setsid()\n"
        f"open({str(tmp_path / 'part')!r}, 'w').write(str(os.getpid()))\n"
        f"os.rename({str(tmp_path / 'part')!r}, {str(tmp_path / 'pid-2')!r})\n"
        "os.write(1, b'.')\n"
        "time.sleep(60)"
    )
    with marked(MARKER):
        zoo.start(NESTED.format(inner=inner, orphan=orphan, support=str(SUPPORT)))
    [pid] = pids(tmp_path)
    marks = marks_of(pid)

    assert marks is not None
    assert (len(marks), is_within(marks, [MARKER, inner]), is_within(marks, [MARKER])) == (2, True, False)
    assert is_within(marks[:1], [inner])
    assert not is_within([str(attempt_of(pid))], [MARKER])
    assert asyncio.run(end_orphans(MARKER, [], grace=0.2)) != []
    assert marks_of(pid) is None


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has the limits")
def test_a_limit_that_a_user_has_set_is_no_mark(zoo: Zoo, tmp_path: Path) -> None:
    """As that of this process, which no attempt started; nonsense in the variable is a mark."""
    zoo.start(f"import resource; resource.setrlimit(10, (1000, -1)); {SLEEPER}", marker="")
    [pid] = pids(tmp_path)

    assert marks_of(pid) == marks_of() == ()
    assert marks_of(zoo.start(SLEEPER, marker="zz").pid) == ("zz",)


@NEEDS_ENVIRONMENTS
def test_a_process_has_the_marks_of_the_one_that_asks_and_of_those_above_it() -> None:
    """An owner that runs within an attempt looks at a child without an environment, however often."""
    program = (
        "import subprocess\n"
        "from coterie.agents.backends.processes import marks_of\n"
        "child = subprocess.Popen(['/bin/sleep', '60'], env={})\n"
        "print(marks_of(child.pid), marks_of(child.pid))\n"
        "child.kill()\n"
    )
    asked = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | {MARK: "outer/a#1.1"}, capture_output=True, text=True
    )

    assert asked.stdout == f"{('outer/a#1.1',)} {('outer/a#1.1',)}\n", asked.stderr
