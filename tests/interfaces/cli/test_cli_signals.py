import asyncio
import os
import signal
import subprocess
import sys

import pytest

from coterie.interfaces.cli.signals import drive

STUBBORN = """
import asyncio, os, signal
from coterie.interfaces.cli.signals import drive

async def main():
    while True:
        try:
            print("ready", flush=True)
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            print("not yet", flush=True)

drive(main())
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_signal_cancels_and_the_outcome_still_counts(
    number: signal.Signals, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run that is interrupted in good order has an outcome."""

    async def main() -> str:
        os.kill(os.getpid(), number)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "interrupted"
        return "never"

    hangup = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests may run under nohup
    before = signal.getsignal(number)
    try:
        assert drive(main()) == "interrupted"
        assert signal.getsignal(number) == before
    finally:
        signal.signal(signal.SIGHUP, hangup)
    assert "interrupting the run; press Ctrl-C again to exit at once" in capsys.readouterr().err


def test_what_gives_no_outcome_when_cancelled_is_an_interrupt() -> None:
    """The command then ends with 130."""

    async def main() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.Event().wait()

    with pytest.raises(KeyboardInterrupt):
        drive(main())


def test_the_second_signal_ends_the_process_at_once() -> None:
    """Even when what runs does not heed the first."""
    process = subprocess.Popen(
        [sys.executable, "-c", STUBBORN], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "not yet\n"
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)

    assert process.returncode == -signal.SIGINT


def test_under_nohup_the_terminals_end_is_not_heard() -> None:
    """Who asked for the run to go on without its terminal gets that."""

    async def main() -> str:
        os.kill(os.getpid(), signal.SIGHUP)
        await asyncio.sleep(0)
        return "went on"

    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert drive(main()) == "went on"
    finally:
        signal.signal(signal.SIGHUP, before)
