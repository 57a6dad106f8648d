"""A coterie that is killed: `python killed.py append:7 run team.at` dies right after its 7th append.

`sync:N` dies right after its N-th sync instead, `begin:N` when its N-th commit was begun and not waited for: every
other sector of that is lost; `clear:N` dies before the N-th removal of temporary files of attempts, `file:N` before the
N-th time that it makes, opens, renames or removes a file in the folder of a run. Nothing is cleaned up, as with a power
cut: SIGKILL, to itself.
"""

import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

SECTOR = 512
ROOM = b"\t"
FILE_EVENTS = {"open", "os.rename", "os.remove", "os.link", "os.symlink", "os.mkdir", "os.rmdir"}
PATHS = str | bytes | os.PathLike


def die() -> None:
    """End this process at once."""
    os.kill(os.getpid(), signal.SIGKILL)


def arm_at(place: str) -> None:
    """Have the process die at *place*, as `append:7`."""
    where, _, n = place.partition(":")
    arm(where, int(n))


def arm(where: str, n: int) -> None:
    """Have the process die after its *n*-th append or sync, or at its *n*-th commit or removal."""
    from coterie.history.journal import writer
    from coterie.history.journal.commits import CommitFile
    from coterie.history.journal.writer import JsonlWriter

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
    elif where == "clear":
        from coterie.execution.runs.attempt_folders import AttemptFolders

        clear = AttemptFolders.clear_attempts

        def dying(self: AttemptFolders, run: str, attempts: Any) -> None:
            count()
            clear(self, run, attempts)

        AttemptFolders.clear_attempts = dying  # type: ignore[method-assign]
    elif where == "file":

        def touched(event: str, given: tuple[Any, ...]) -> None:
            if event in FILE_EVENTS and any("runs/" in os.fsdecode(one) for one in given if isinstance(one, PATHS)):
                count()

        sys.addaudithook(touched)
    elif where == "begin":

        def torn(self: CommitFile) -> None:
            if left[0] == 1:
                for at in range(self._begin - self._begin % SECTOR + SECTOR, self._end, 2 * SECTOR):
                    os.pwrite(self._fd, ROOM * min(SECTOR, self._end - at), at)
            count()

        CommitFile.start = torn  # type: ignore[method-assign]
        writer.QUICK = 1e9  # on a slow disk nothing is begun
    else:
        name = "fdatasync" if hasattr(os, "fdatasync") else "fsync"  # as on macOS
        sync = getattr(os, name)

        def synced(fd: int) -> None:
            sync(fd)
            count()

        setattr(os, name, synced)


if __name__ == "__main__":
    arm_at(sys.argv.pop(1))
    from coterie.__main__ import main

    sys.exit(main())
