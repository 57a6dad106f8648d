"""Start a process, marked and in a separate process group, and pass its output on as it comes.

`coterie.backends.processes` ends it, and `coterie.backends.command` interprets its status.
"""

import asyncio
import os
import types
from collections.abc import Callable, Coroutine, Generator, Sequence
from pathlib import Path
from typing import IO, Any, cast

from coterie.backends.base import Launched, OnEvent
from coterie.backends.processes import marked, started

OnOutput = Callable[[int, bytes], None]
"""Called with 1 or 2 (standard output or error) and the bytes that the process wrote there."""


class Child(asyncio.SubprocessProtocol):
    """A process that was started.

    Attributes:
        exited: Done once the process itself has ended.
        finished: Done once it has ended and its outputs are closed, so that all it wrote was read.
    """

    def __init__(self, on_event: OnEvent, on_output: OnOutput) -> None:
        loop = asyncio.get_running_loop()
        self._on_event, self._on_output = on_event, on_output
        self._transport: asyncio.SubprocessTransport | None = None
        self.exited: asyncio.Future[None] = loop.create_future()
        self.finished: asyncio.Future[None] = loop.create_future()

    @property
    def pid(self) -> int:
        """Its pid, which is also the id of its group and session."""
        assert self._transport is not None
        return self._transport.get_pid()

    @property
    def status(self) -> int:
        """Its exit status once it has exited; negative: the signal that ended it."""
        assert self._transport is not None
        return self._transport.get_returncode() or 0

    def write(self, data: bytes) -> None:
        """Pass *data* to its standard input, if that is a pipe that it still reads; it never blocks."""
        assert self._transport is not None
        pipe = self._transport.get_pipe_transport(0)
        if pipe is not None and not pipe.is_closing():
            cast(asyncio.WriteTransport, pipe).write(data)

    def close_input(self) -> None:
        """Close its standard input, if that is a pipe, once what was written has been passed on."""
        assert self._transport is not None
        pipe = self._transport.get_pipe_transport(0)
        if pipe is not None:
            cast(asyncio.WriteTransport, pipe).close()

    def close(self) -> None:
        """Stop reading its outputs."""
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio when the process runs."""
        self._transport = cast(asyncio.SubprocessTransport, transport)
        self._on_event(Launched(pid=self.pid, group=self.pid, started=started(self.pid)))

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Called by asyncio with output of the process."""
        self._on_output(fd, data)

    def process_exited(self) -> None:
        """Called by asyncio when the process has ended; there may be more to read."""
        if not self.exited.done():
            self.exited.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by asyncio when the process has ended and its pipes are closed."""
        if not self.finished.done():
            self.finished.set_result(None)


async def spawn(
    argv: Sequence[str],
    *,
    stdin: IO[bytes] | None,
    env: dict[str, str],
    cwd: Path,
    marker: str,
    on_event: OnEvent,
    on_output: OnOutput,
    merged: bool = False,
) -> Child:
    """Start *argv*, without a shell, as the leader of a new session and process group.

    Args:
        stdin: A file, read from its current offset. A file never blocks, and the process need not read it.
            None: a pipe, for `Child.write`.
        marker: The mark of its processes; this process has it only while it starts them.
        on_event: Called with `Launched` before any of its output is passed on.
        merged: Send standard error where standard output goes.

    Raises:
        OSError: If it cannot be started.
        ValueError: If an argument or a variable holds a NUL.
    """
    starting = asyncio.get_running_loop().subprocess_exec(
        lambda: Child(on_event, on_output),
        *argv,
        stdin=asyncio.subprocess.PIPE if stdin is None else stdin,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT if merged else asyncio.subprocess.PIPE,
        env=env,
        cwd=os.fspath(cwd),
        start_new_session=True,
    )
    _, child = await _begun(starting, marker)
    return cast(Child, child)


@types.coroutine
def _begun(starting: Coroutine[Any, Any, Any], marker: str) -> Generator[Any, Any, Any]:
    """Run *starting*, up to its first wait with *marker* on this process: by then the other one is started."""
    try:
        with marked(marker):
            step = starting.send(None)
        while True:
            try:
                sent = yield step
            except BaseException as error:
                step = starting.throw(error)
            else:
                step = starting.send(sent)
    except StopIteration as done:
        return done.value
