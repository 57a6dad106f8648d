"""What this process waits for, named where it waits and shown by a program if it takes long.

A library prints nothing: code that may take seconds runs inside `waiting("git to make the work tree")`, and a
`WaitNotices` of the program prints that once the user has seen nothing for two seconds.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

SILENCE = 2.0
"""Seconds without output after which a wait is shown."""
_EVERY = 0.25
"""Seconds between two looks at what is waited for."""


class _Wait:
    def __init__(self, name: str) -> None:
        self.name = name
        self.is_shown = False


_waits: list[_Wait] = []
"""What the process waits for now, the innermost last; threads add to it, too."""


@contextmanager
def waiting(name: str) -> Iterator[None]:
    """Name what the block waits for, as in `waiting for NAME`."""
    wait = _Wait(name)
    _waits.append(wait)
    try:
        yield
    finally:
        _waits.remove(wait)


def mark_shown() -> None:
    """Show none of the current waits: from now on the screen says what happens."""
    for wait in _waits:
        wait.is_shown = True


class WaitNotices:
    """Shows the innermost wait after each two seconds without output, and each wait once.

    Time in which the innermost wait has been shown already is not silent.

    Args:
        show: Prints a notice.
        now: The time in seconds.
    """

    def __init__(self, show: Callable[[str], object], now: Callable[[], float] = time.monotonic) -> None:
        self._show, self._now = show, now
        self._quiet_since = now()
        self._over = threading.Event()

    def note_output(self) -> None:
        """Take in that something was printed."""
        self._quiet_since = self._now()

    def check(self) -> None:
        """Show the innermost wait if it is due."""
        wait = next(iter(_waits[-1:]), None)
        if wait is None or wait.is_shown:
            self.note_output()
        elif self._now() - self._quiet_since >= SILENCE:
            wait.is_shown = True
            self._show(f"waiting for {wait.name}")
            self.note_output()

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Check on a separate thread until the block ends, so that work that blocks is shown as well."""
        thread = threading.Thread(target=self._check_regularly, name="waits", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()

    def _check_regularly(self) -> None:
        while not self._over.wait(_EVERY):
            self.check()
