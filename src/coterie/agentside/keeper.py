"""Run one program so that it outlives the run's owner: its output and its exit status go to files.

Started as a program of its own, by its path: `python -IS keeper.py FOLDER MERGED COMMAND …`. It leads the session and
the group of the command. As long as it lives it holds a lock on `keeper.pid`, by which any later owner can tell. It
ignores the signals that ask a process to end, so that the command can end first. Then it renames the exit status into
place, durably.
"""

import os
import signal
import sys
import time

try:
    import fcntl
except ImportError:  # no Unix: no run can be owned there
    fcntl = None  # type: ignore[assignment]

PID = "keeper.pid"
"""Holds the pid of this process, which has it locked."""
OUTPUT = "kept.out"
ERRORS = "kept.err"
STATUS = "kept.status"
"""Three numbers: the exit status (below 0 the signal that ended the command), the error that kept it from being
started or 0, and the seconds that it took."""
NAMES = (PID, OUTPUT, ERRORS, STATUS)

_ASKING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_NEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW


def main(folder: str, merged: str, *command: str) -> None:
    """Keep *command*, whose standard input is that of this process, in *folder*."""
    began = time.monotonic()
    own = os.open(os.path.join(folder, PID), _NEW, 0o600)
    fcntl.flock(own, fcntl.LOCK_EX)
    os.write(own, b"%d\n" % os.getpid())
    ours = [number for number in _ASKING if signal.signal(number, signal.SIG_IGN) != signal.SIG_IGN]
    output = os.open(os.path.join(folder, OUTPUT), _NEW, 0o600)
    errors = output if merged == "1" else os.open(os.path.join(folder, ERRORS), _NEW, 0o600)
    status = error = 0
    try:
        pid = os.posix_spawnp(
            command[0],
            command,
            os.environ,
            file_actions=[(os.POSIX_SPAWN_DUP2, output, 1), (os.POSIX_SPAWN_DUP2, errors, 2)],
            setsigdef=[*ours, signal.SIGPIPE, signal.SIGXFSZ],
        )
    except OSError as failure:
        error = failure.errno or 0
    else:
        os.close(0)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    _write(folder, f"{status} {error} {time.monotonic() - began:.6f}\n".encode())


def _write(folder: str, text: bytes) -> None:
    part = os.path.join(folder, f".{STATUS}.part")
    fd = os.open(part, _NEW, 0o600)
    os.write(fd, text)
    os.fsync(fd)
    os.rename(part, os.path.join(folder, STATUS))
    os.fsync(os.open(folder, os.O_RDONLY))


if __name__ == "__main__":
    main(*sys.argv[1:])
