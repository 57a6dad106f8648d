"""A detached command: its start, its output so far, and its exit status.

Its supervisor process, `coterie.agents.backends.agentside.detached`, is between the run's owner and the program, and
survives the owner.
"""

import errno
import fcntl
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from coterie.agents.backends.agentside import detached
from coterie.agents.backends.base import Launched, Request
from coterie.agents.backends.child import OnOutput
from coterie.agents.backends.processes import started
from coterie.base import files

LOOK_EVERY = 0.05
"""Seconds between two reads of a detached command's output."""
_ENDING = frozenset({signal.SIGTERM, signal.SIGKILL, signal.SIGINT, signal.SIGHUP})
"""Signals that ask a program to end."""
_AT_ONCE = 1 << 20
"""How many bytes of output are read at once."""


class Status(Struct, frozen=True):
    """How a program ended: its exit status (negative: the signal that ended it), or the error of its start.

    Attributes:
        asked: The first signal that asked its supervisor process to end before the program had ended; 0: none.
        lost: The error that lost some of its output; 0: none.
    """

    exit: int
    error: int
    seconds: float
    asked: int = 0
    lost: int = 0

    def was_cut_off(self, without_owner: bool) -> bool:
        """Whether it did not end by itself, as in a shutdown, which asks all processes to end.

        Args:
            without_owner: Whether the run had no owner. Then a signal that ends a program also counts; shells and
                sandboxes report it as status 128 + n. With an owner this is a failure of the program, as for an
                attached one.
        """
        killed = -self.exit in _ENDING or self.exit - 128 in _ENDING
        return bool(self.lost or (self.asked and self.exit) or (without_owner and killed))


def commands_of(request: Request) -> tuple[tuple[str, ...], ...]:
    """The commands of *request*, in order."""
    agent = request.agent
    return agent.steps or ((agent.argv,) if agent.argv else ())


def is_detached(request: Request) -> bool:
    """Whether the program of *request* should outlive the owner: it is one command, and its run is kept on disk."""
    wants = request.agent.on_interrupt == "adopt" and request.folder is not None
    return wants and len(commands_of(request)) == 1


class DetachedCommand:
    """The program of the attempt with the files in *folder*."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.absolute()
        self._offsets = {detached.OUTPUT: 0, detached.ERRORS: 0}

    def command(self, argv: Sequence[str], merged: bool) -> list[str]:
        """The command that supervises *argv*; *merged*: standard error is redirected to standard output."""
        return [sys.executable, "-IS", detached.__file__, str(self._folder), str(int(merged)), *argv]

    def lives(self) -> bool:
        """Whether its supervisor process runs."""
        launched = self.launched()
        return launched is not None and launched.started != ""

    def launched(self) -> Launched | None:
        """Its supervisor process; without a start time once that has ended, since the pid may have been reused."""
        try:
            fd = files.open_fd(self._folder / detached.PID)
        except FileNotFoundError:
            return None
        with open(fd, "rb") as file:
            ended = True
            try:
                fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno not in (errno.EAGAIN, errno.EACCES):
                    raise
                ended = False
            text = file.read(20)
        if not text.strip():
            return None
        return Launched(pid=int(text), group=int(text), started="" if ended else started(int(text)))

    def status(self) -> Status | None:
        """How the program ended, once it has."""
        try:
            exit, error, seconds, *rest = files.read(self._folder / detached.STATUS, 200).split()
            return Status(int(exit), int(error), float(seconds), *map(int, rest[:2]))
        except (FileNotFoundError, ValueError):
            return None

    def read(self, on_output: OnOutput, skipped: Callable[[int, int], object]) -> None:
        """Pass new output of the program to *on_output*, with the number of the output.

        Args:
            skipped: Called with the number of an output and how many bytes of it were removed unread.
        """
        for number, name in enumerate(self._offsets, 1):
            for start, path in self._segments(name):
                if start > self._offsets[name]:
                    skipped(number, start - self._offsets[name])
                    self._offsets[name] = start
                with suppress(FileNotFoundError), open(files.open_fd(path), "rb") as file:
                    file.seek(self._offsets[name] - start)
                    while data := file.read(_AT_ONCE):
                        self._offsets[name] += len(data)
                        on_output(number, data)

    def _segments(self, name: str) -> list[tuple[int, Path]]:
        """The remaining files of an output, each with the number of bytes before it."""
        later = [(path.suffix[1:], path) for path in self._folder.glob(f"{name}.*")]
        return sorted([(0, self._folder / name), *((int(start), path) for start, path in later if start.isdecimal())])


def could_not_start(status: Status) -> OSError | None:
    """Why the program could not be started, if it could not."""
    return OSError(status.error, os.strerror(status.error)) if status.error else None
