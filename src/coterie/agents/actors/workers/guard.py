"""The guard of a worker: a process that kills the worker if it is frozen or busy when its lease ends.

Its agents have then started elsewhere and must not continue. This module contains both sides; run as a program, it
imports only the standard library. The worker writes the end of its lease at each renewal, as boot time, and 0 when no
agent runs.
"""

import os
import select
import signal
import struct
import sys
import time
from contextlib import suppress

LINE = struct.Struct("!dd")
"""The end of the lease, and the seconds that the worker then has to stop its agents by itself."""


class GuardProcess:
    """The worker's side of the guard; a guard that has died or hangs is replaced at the next renewal.

    Args:
        process: The process name of the worker, for the line that the guard prints before it kills the worker.
    """

    def __init__(self, process: str) -> None:
        self._process = process
        self._pipe = -1

    def arm(self, until: float, grace: float) -> None:
        """Kill this process *grace* seconds after the boot time *until*, unless another call comes before."""
        if self._pipe < 0:
            self._start()
        if not self._write(until, grace):
            self.close()
            self._start()
            self._write(until, grace)

    def disarm(self) -> None:
        """Do not kill this process, since no agent runs."""
        if self._pipe >= 0:
            self._write(0.0, 0.0)

    def close(self) -> None:
        """End the guard."""
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1

    def _start(self) -> None:
        import subprocess

        reading, self._pipe = os.pipe()
        os.set_blocking(self._pipe, False)
        with suppress(OSError):  # without a guard the worker still checks its lease itself
            subprocess.Popen(
                [sys.executable, "-I", "-S", __file__, str(os.getpid()), self._process],
                stdin=reading,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )
        os.close(reading)

    def _write(self, until: float, grace: float) -> bool:
        try:
            return os.write(self._pipe, LINE.pack(until, grace)) == LINE.size
        except OSError:
            return False


def main(worker: int, process: str) -> None:
    """Read from the pipe until the worker closes it or has died; kill it when its lease has ended."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it ends after its worker, which must first stop its agents
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # as `coterie.base.clock.boot_time`
    until, grace, data = 0.0, 0.1, b""
    while os.getppid() == worker:
        ready, _, _ = select.select([0], [], [], max(grace / 4, 0.01))
        if ready:
            read = os.read(0, 1 << 16)
            if not read:
                return
            data += read
            whole = len(data) - len(data) % LINE.size
            if whole:
                until, grace = LINE.unpack(data[whole - LINE.size : whole])
                data = data[whole:]
            continue
        is_over = until and time.clock_gettime(clock) > until
        if is_over and not select.select([0], [], [], grace)[0] and os.getppid() == worker:
            # the grace counts running time, so that a worker on a suspended machine gets its chance
            os.kill(worker, signal.SIGKILL)
            _say(process)
            return


def _say(process: str) -> None:
    with suppress(OSError):
        os.write(
            2,
            f"coterie: the worker {process!r} was killed, because it did not run when its lease ended and its agents "
            "start elsewhere: a handler that computes for long belongs into asyncio.to_thread; start the worker "
            f"again with `coterie run -p {process}`\n".encode(),
        )


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
