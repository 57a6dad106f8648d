"""Start a marked process in a separate process group, and pass its output on as it comes.

The owner's spawner, `coterie.agents.backends.agentside.spawner`, starts it. `coterie.agents.backends.processes` ends
it, and `coterie.agents.backends.command` interprets its status.
"""

import asyncio
import errno
import marshal
import os
import signal
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, Any

from coterie.agents.backends import process_table, spawner_client
from coterie.agents.backends.base import Confined, Launched, OnEvent
from coterie.agents.backends.processes import GRACE, end_group, marks_for, started

OnOutput = Callable[[int, bytes], None]
"""Called with 1 or 2 (standard output or error) and the bytes that the process wrote."""

_AT_ONCE = 1 << 16
"""Bytes that a pipe holds; memory for more would be mapped anew at each read."""


class Child:
    """A started process.

    Attributes:
        pid: Its pid, also the id of its group and session.
        since: A moment before it was started.
        exited: Done once the process itself has ended.
        finished: Done once it has ended and its outputs are closed, so that everything it wrote has been read.
        status: Its exit status once it has exited; negative: the signal that ended it.
        is_over: Whether it is certain that everything that it started has ended.
    """

    def __init__(self, on_event: OnEvent, on_output: OnOutput, marker: str) -> None:
        self._loop, self.since = asyncio.get_running_loop(), process_table.moment()
        self._on_event, self._on_output, self._marker = on_event, on_output, marker
        self._open: dict[int, int] = {}
        self._report = b""
        self._input: asyncio.WriteTransport | None = None
        self.pid = self.status = 0
        self.is_over = False
        self._begun: asyncio.Future[int] = self._loop.create_future()
        self.exited: asyncio.Future[None] = self._loop.create_future()
        self.finished: asyncio.Future[None] = self._loop.create_future()

    def write(self, data: bytes) -> None:
        """Write *data* to its standard input, if that is a pipe that it still reads, without blocking."""
        if self._input is not None and not self._input.is_closing():
            self._input.write(data)

    def close_input(self) -> None:
        """Close its standard input, if that is a pipe, once all written data has been passed on."""
        if self._input is not None:
            self._input.close()

    def close(self) -> None:
        """Stop reading its outputs."""
        for fd, number in list(self._open.items()):
            if number or self.exited.done() or not self.pid:
                self._shut(fd)
        self.close_input()

    async def drain(self, seconds: float, *until: asyncio.Future[Any]) -> None:
        """Wait until it is finished, for at most *seconds*, or until one of *until* is done."""
        if not self.finished.done():
            await asyncio.wait({self.finished, *until}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)

    async def end(self, grace: float = GRACE) -> None:
        """End it with everything that it started, in any process group."""
        if not self.is_over:
            await end_group(self.pid, self._marker, grace=grace, since=self.since)

    async def begin(self, outputs: dict[int, int], report: int, stdin: int | None) -> None:
        """Wait until it has been started, and read its *outputs*, descriptors with their numbers.

        Raises:
            OSError: If it could not be started.
        """
        self._open = outputs | {report: 0}
        self._loop.add_reader(report, self._read, report)
        try:
            error = await asyncio.shield(self._begun)
        except asyncio.CancelledError:
            await asyncio.wait({self._begun})
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            raise
        if error:
            raise OSError(error, os.strerror(error))
        self._on_event(Launched(pid=self.pid, group=self.pid, started=started(self.pid)))
        for fd in outputs:
            self._loop.add_reader(fd, self._read, fd)
        if stdin is not None:
            pipe = os.fdopen(stdin, "wb", 0)
            transport, _ = await self._loop.connect_write_pipe(asyncio.Protocol, pipe)
            self._input = transport

    def _read(self, fd: int) -> None:
        try:
            data = os.read(fd, _AT_ONCE)
        except BlockingIOError:
            return
        if number := self._open[fd]:
            if data:
                self._on_output(number, data)
        else:
            self._report += data
            *lines, self._report = self._report.split(b"\n")
            for line in lines:
                self._reported(*map(int, line.split()))
        if not data:
            self._shut(fd)
            if not number and not self.exited.done():  # the spawner was killed
                self._reported(-signal.SIGKILL, 0)
        if self.exited.done() and not any(self._open.values()) and not self.finished.done():
            self.finished.set_result(None)

    def _reported(self, *values: int) -> None:
        """Note the beginning or the end, as the spawner reports it."""
        if not self._begun.done():
            self.pid, error = values if values[0] >= 0 else (0, errno.ECHILD)
            self._begun.set_result(error)
        else:
            self.status, self.is_over = values[0], bool(values[1])
            self.exited.set_result(None)

    def _shut(self, fd: int) -> None:
        del self._open[fd]
        self._loop.remove_reader(fd)
        os.close(fd)


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

    If it is `Confined`, it ends with this process.

    Args:
        stdin: A file, read from its current offset, which never blocks and need not be read. None: a pipe, for
            `Child.write`.
        marker: The mark of its processes.
        on_event: Called with `Launched` before any of its output is passed on.
        merged: Redirect standard error to standard output.

    Raises:
        OSError: If it cannot be started.
        ValueError: If an argument or a variable holds a NUL.
    """
    if "\0" in "".join((*argv, os.fspath(cwd), *env, *env.values())):
        raise ValueError("embedded null byte")
    child = Child(on_event, on_output, marker)
    request = marshal.dumps((list(argv), env, os.fspath(cwd), marks_for(marker), isinstance(argv, Confined)))
    with ExitStack() as ours, ExitStack() as theirs:

        def pipe(mine: int) -> tuple[int, int]:
            ends = os.pipe()
            ours.callback(os.close, ends[mine])
            theirs.callback(os.close, ends[1 - mine])
            os.set_blocking(ends[mine], False)
            return ends[mine], ends[1 - mine]

        write, read = pipe(1) if stdin is None else (None, stdin.fileno())
        outputs = [pipe(0) for _ in range(1 if merged else 2)]
        report, to_report = pipe(0)
        spawner_client.send(request, [read, outputs[0][1], outputs[-1][1], to_report])
        theirs.close()
        ours.pop_all()
        try:
            await child.begin({fd: number for number, (fd, _) in enumerate(outputs, 1)}, report, write)
        except BaseException:
            child.close()
            if write is not None:
                os.close(write)
            raise
    return child
