"""The guard of a node: a process that ends the agents of a node that was killed or is frozen.

The server gives the turns of such a node to others nine seconds later or more; their agents must not work on beside
them. The node writes a line for each attempt that begins (`+MARK`) or ends (`-MARK`), and an empty one each second. The
guard writes the mark of each attempt before it ends its processes, so a node that wakes up in time does not take their
end for a failure. It answers each line: one that has died is replaced within a second, and one that is frozen itself
within a few.
"""

import asyncio
import os
import select
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

SILENCE = 8.0
"""Seconds of silence after which a node counts as frozen."""
EVERY = 1.0
UNANSWERED = 5
"""Lines, each a second after the other, after which a guard that answers none counts as frozen."""
STARTING = 60
"""Lines for which a guard that has just been started may be silent."""
ENDS_WITHIN = 10.0
"""Seconds for which the end of the guard is waited for: it may be frozen."""
GRACE = 1.0
"""Seconds between SIGTERM and SIGKILL: nine seconds after the node froze its turns may run elsewhere."""


class Guard:
    """The guard as its node sees it.

    Args:
        tell: Called with a notice when the guard has died, or cannot be started.
        silence: Seconds without a line after which the node counts as frozen.
    """

    def __init__(self, tell: Callable[[str], object], silence: float = SILENCE) -> None:
        self._tell, self._silence = tell, silence
        self._marks: dict[str, None] = {}
        self._ended: set[str] = set()
        self._process: subprocess.Popen[bytes] | None = None
        self._closed, self._unanswered = False, 0
        self._start()

    @property
    def pid(self) -> int:
        """The process that guards now; 0 if none could be started."""
        return self._process.pid if self._process is not None else 0

    @contextmanager
    def over(self, mark: str) -> Iterator[None]:
        """Have the processes that carry *mark* ended if the node dies within the block."""
        self._ended.discard(mark)
        self._marks[mark] = None
        self._write(f"+{mark}")
        try:
            yield
        finally:
            self._marks.pop(mark, None)
            self._write(f"-{mark}")

    def has_ended(self, mark: str) -> bool:
        """Whether the guard ended the processes that carry *mark*, because this node was frozen."""
        self._read()
        return mark in self._ended

    async def beat(self) -> None:
        """Say each second that the node lives, and replace a guard that has died or does not answer."""
        while True:
            self._read()
            self._unanswered += 1
            self._write("")
            await asyncio.sleep(EVERY)

    def close(self) -> None:
        """Let the guard end; it ends what is left."""
        self._closed = True
        if self._process is not None:
            self._close_pipes(self._process)

    def _start(self) -> None:
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "coterie.execution.cluster.guard", str(self._silence)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
            )
        except OSError as error:
            self._process = None
            self._tell(f"no guard could be started, and is tried again: {error}; agents of a killed node would go on")
            return
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
        self._unanswered = -STARTING
        for mark in self._marks:
            self._send(f"+{mark}")

    def _write(self, line: str) -> None:
        if self._closed:
            return
        process = self._process
        if process is not None and process.poll() is None and self._unanswered <= UNANSWERED and self._send(line):
            return
        if process is not None:
            self._read()
            fate = "does not answer" if process.poll() is None else "has died"
            process.kill()
            self._close_pipes(process)
            self._tell(f"the guard of this node {fate}; another one is started")
        self._start()

    def _close_pipes(self, process: "subprocess.Popen[bytes]") -> None:
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            process.wait(ENDS_WITHIN)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _send(self, line: str) -> bool:
        assert self._process is not None
        assert self._process.stdin is not None
        with suppress(OSError):
            return self._process.stdin.write(f"{line}\n".encode()) is not None
        return False

    def _read(self) -> None:
        """Take the marks and the answers that the guard has written; a line is written whole."""
        if self._process is not None and self._process.stdout is not None:
            while data := self._process.stdout.read(1 << 16):
                self._unanswered = 0
                self._ended.update(data.decode().split("\n"))


@asynccontextmanager
async def guarded(tell: Callable[[str], object], silence: float = SILENCE) -> AsyncIterator[Guard]:
    """Start a guard for this process, and end it with the block; see `Guard`."""
    guard = Guard(tell, silence)
    beating = asyncio.get_running_loop().create_task(guard.beat())
    try:
        yield guard
    finally:
        beating.cancel()
        await asyncio.to_thread(guard.close)


def main(silence: float) -> None:
    """Read lines until the node closes the pipe or dies; end what it has left."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    marks: dict[str, None] = {}
    rest = b""
    while True:
        ready, _, _ = select.select([0], [], [], silence)
        data = os.read(0, 1 << 16) if ready else b""
        *lines, rest = (rest + data).split(b"\n")
        for line in map(bytes.decode, lines):
            if line.startswith("+"):
                marks[line[1:]] = None
            else:
                marks.pop(line[1:], None)
        if data:
            _say("")
        else:
            _end(marks)
            marks.clear()
            if ready:
                return


def _say(line: str) -> None:
    with suppress(OSError):  # the node is dead
        os.write(1, f"{line}\n".encode())


def _end(marks: dict[str, None]) -> None:
    from coterie.agents.backends.processes import any_alive, end_orphans

    async def end_all() -> None:
        await asyncio.gather(*(end_orphans(mark, (), grace=GRACE) for mark in marks))

    for mark in marks:
        if sys.platform != "linux" or any_alive(mark, ()):  # a model's attempt has no process, and its answer counts
            _say(mark)
    asyncio.run(end_all())


if __name__ == "__main__":
    main(float(sys.argv[1]))
