"""The guard of a node: a process that ends the agents of a node that was killed or is frozen.

The server gives the turns of such a node to others after ten seconds; their agents must not work on beside them. The
node writes a line for each attempt that begins (`+MARK`) or ends (`-MARK`), and an empty one each second.
"""

import asyncio
import os
import select
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

SILENCE = 8.0
"""Seconds without a line after which the node counts as frozen."""
EVERY = 1.0


class Guard:
    """The guard as its node sees it; a guard that has died is done without."""

    def __init__(self, lines: asyncio.StreamWriter) -> None:
        self._lines = lines

    @contextmanager
    def over(self, mark: str) -> Iterator[None]:
        """Have the processes that carry *mark* ended if the node dies within the block."""
        self._write(f"+{mark}")
        try:
            yield
        finally:
            self._write(f"-{mark}")

    async def beat(self) -> None:
        """Say each second that the node lives."""
        while True:
            self._write("")
            await asyncio.sleep(EVERY)

    def _write(self, line: str) -> None:
        with suppress(OSError, RuntimeError):
            self._lines.write(f"{line}\n".encode())


@asynccontextmanager
async def guarded() -> AsyncIterator[Guard]:
    """Start a guard for this process, and end it with the block."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "coterie.cluster.guard", stdin=asyncio.subprocess.PIPE, start_new_session=True
    )
    assert process.stdin is not None
    guard = Guard(process.stdin)
    beating = asyncio.get_running_loop().create_task(guard.beat())
    try:
        yield guard
    finally:
        beating.cancel()
        process.stdin.close()
        await process.wait()


def main() -> None:
    """Read lines until the node closes the pipe or dies; end what it has left."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    marks: dict[str, None] = {}
    rest = b""
    while True:
        ready, _, _ = select.select([0], [], [], SILENCE)
        data = os.read(0, 1 << 16) if ready else b""
        *lines, rest = (rest + data).split(b"\n")
        for line in map(bytes.decode, lines):
            if line.startswith("+"):
                marks[line[1:]] = None
            else:
                marks.pop(line[1:], None)
        if not data:
            _end(marks)
            marks.clear()
            if ready:
                return


def _end(marks: dict[str, None]) -> None:
    from coterie.backends.processes import end_orphans

    for mark in marks:
        asyncio.run(end_orphans(mark, ()))


if __name__ == "__main__":
    main()
