"""A coterie that is killed: `python killed.py append:7 run team.at` dies right after its 7th append.

`sync:N` dies right after its N-th sync instead. Nothing is cleaned up, as with a power cut: SIGKILL, to itself.
"""

import os
import signal
import sys
from collections.abc import Sequence
from typing import Any


def die() -> None:
    """End this process at once."""
    os.kill(os.getpid(), signal.SIGKILL)


def arm(where: str, n: int) -> None:
    """Have the process die after its *n*-th append or sync."""
    from coterie.journal.writer import JsonlWriter

    left = [n]

    def count() -> None:
        left[0] -= 1
        if left[0] == 0:
            die()

    if where == "append":
        append = JsonlWriter.append

        def counted(self: JsonlWriter, records: Sequence[Any]) -> int:
            last = append(self, records)
            count()
            return last

        JsonlWriter.append = counted  # type: ignore[method-assign]
    else:
        fdatasync = os.fdatasync

        def synced(fd: int) -> None:
            fdatasync(fd)
            count()

        os.fdatasync = synced


if __name__ == "__main__":
    where, _, n = sys.argv.pop(1).partition(":")
    arm(where, int(n))
    from coterie.__main__ import main

    sys.exit(main())
