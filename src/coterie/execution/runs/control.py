"""Change runs where they are driven: send messages, resume, fork. `coterie.execution.runs.repository` reads them."""

import time
from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from coterie.base.waits import waiting
from coterie.execution.runs.repository import Runs

if TYPE_CHECKING:  # programs that only read runs start without these imports
    from coterie.agents.workspace.notes import EntryFiles, NoteSettings
    from coterie.execution.runs.fork import Forked
    from coterie.execution.runs.messages import RunMessage, Verdict
    from coterie.execution.runs.outcome import Outcome
    from coterie.history.journal.records import RunReopened
    from coterie.team.planning.plan import Plan


LOOK_EVERY = 0.2
"""Seconds between two looks whether the owner of a run has let go of it."""


class RemoteRuns(Runs):
    """Runs that another machine drives, and how to change them there; see the functions of this module."""

    @abstractmethod
    def send(self, run: str, message: "RunMessage") -> "Verdict":
        """Send the root run *run* a message."""

    @abstractmethod
    def notes(self, run: str, settings: "NoteSettings | None", kind: str) -> "EntryFiles":
        """The entries of the `memory`, or of the `task`s, of *run*."""

    @abstractmethod
    async def resume(
        self, run: str, *, reload: "Plan | None" = None, retry: str | None = None, **how: Any
    ) -> "Outcome":
        """Resume *run* there."""

    @abstractmethod
    def fork(self, run: str, *, files: bool = True, **how: Any) -> "Forked":
        """Make a fork of *run* there."""

    @abstractmethod
    def here(self, run: str, tell: Callable[[str], object]) -> Runs:
        """Runs of this machine with a copy of *run*; *tell* is called with the location of its work."""


def send(runs: Runs, run: str, message: "RunMessage") -> "Verdict":
    """Send the root run *run* of *runs* a message and, if it has a living owner, wait for the verdict.

    The event loop of the caller must not wait for itself: a run that it drives gets the message once the caller lets
    it go on, and the message counts as queued. Two messages are refused at once: an operator's message from within an
    attempt, and an answer to a run without an owner while one of its attempts is still alive.

    Raises:
        UsageError: If the message is not UTF-8 text.
        OSError: If it cannot be put into the inbox.
    """
    if isinstance(runs, RemoteRuns):
        return runs.send(run, message)
    from coterie.execution.runs.messages import dispatch, inbox

    work = partial(dispatch.send, runs, run, runs.folder(run), message)
    if inbox.is_open_here(runs.folder(run)):
        from coterie.agents.backends.models.threads import start
        from coterie.execution.runs.messages import Verdict

        start(work, "message")
        return Verdict(status="queued", detail="the event loop of the caller drives the run, and reads it next")
    return work()


def answer(runs: Runs, run: str, turn: str, text: str, outputs: "dict[str, Any] | None" = None) -> "Verdict":
    """Answer the question of *turn* in the root run *run*; without an owner, only a valid answer is kept."""
    from coterie.execution.runs import messages

    message = messages.answer(turn, text, outputs)
    verdict = send(runs, run, message)
    if verdict.status == "queued":
        from coterie.execution.runs.messages import provisional  # imports every engine

        if why := provisional.unusable(runs, run, message):
            return messages.Verdict(status="refused", detail=why)
    return verdict


def guide(runs: Runs, run: str, text: str, turn: str = "", *, interrupt: bool = False) -> "Verdict":
    """Give guidance to *turn*, the loop or the only running turn of *run*; *interrupt* restarts its attempt."""
    from coterie.execution.runs.messages import guidance, interruption

    verdict = send(runs, run, guidance(text, turn))
    if interrupt and verdict.status == "accepted":
        send(runs, run, interruption(turn))  # if no turn is running, the next one gets it anyway
    return verdict


def stop(runs: Runs, run: str) -> "Verdict":
    """Stop the root run *run*, like Ctrl-C in its process; refused if no process drives it."""
    from coterie.execution.runs import messages

    if (state := runs.status(run)) != "running":
        return messages.Verdict(status="refused", detail=f"nothing drives it ({state})")
    return send(runs, run, messages.stop())


def withdraw(runs: Runs, run: str) -> "Verdict":
    """Take back what operators have sent to the root run *run* and no owner has read; refused if nothing waits."""
    if isinstance(runs, RemoteRuns):
        from coterie.execution.runs import messages

        return runs.send(run, messages.withdrawal())
    from coterie.execution.runs.messages import dispatch

    return dispatch.withdraw(runs, run, runs.folder(run))


def await_stop(runs: Runs, run: str) -> None:
    """Wait until the owner of the root run *run* has let go of it, if an operator has stopped it."""
    from coterie.history.journal.records import OperatorSaid, RunOwned

    stopping = False
    for record in runs.read(run) if runs.is_owned(run) else ():
        if isinstance(record, RunOwned | OperatorSaid):
            stopping = isinstance(record, OperatorSaid) and (stopping or record.what == "stop")
    with waiting(f"run {run} to stop"):
        while stopping and runs.is_owned(run):
            time.sleep(LOOK_EVERY)


def notes(runs: Runs, run: str, settings: "NoteSettings | None", kind: str) -> "EntryFiles":
    """The entries of the `memory`, or of the `task`s, of *run*; see `coterie.execution.runs.note_files`."""
    if isinstance(runs, RemoteRuns):
        return runs.notes(run, settings, kind)
    from coterie.execution.runs.note_files import NoteFiles

    return NoteFiles(runs).files(run, settings, kind)


async def resume(runs: Runs, run: str, **how: Any) -> "Outcome":
    """Resume the root run *run* where it is driven; *how*: see `coterie.execution.runs.launch.resume`.

    With *retry*, a turn or an empty text, a failed run is reopened; `retriable` tells what that would do.
    """
    if isinstance(runs, RemoteRuns):
        return await runs.resume(run, **how)
    from coterie.execution.runs import launch

    return await launch.resume(run, state_dir=runs.root, **how)


def retriable(runs: Runs, run: str, turn: str = "") -> "RunReopened":
    """The record with which `resume(…, retry=turn)` would reopen *run*, for user interfaces; nothing is written.

    Raises:
        RetryRefused: If it would be refused, with the reason and an alternative.
        RunIsOwned: If a process drives the run.
    """
    from coterie.execution.runs import retry

    return retry.retriable(runs, list(runs.tree(run)), turn)


def fork(runs: Runs, run: str, **how: Any) -> "Forked":
    """Fork the root run *run* of *runs*; *how*: see `coterie.execution.runs.fork.fork`."""
    if isinstance(runs, RemoteRuns):
        return runs.fork(run, **how)
    from coterie.execution.runs.fork import fork

    return fork(run, state_dir=runs.root, **how)
