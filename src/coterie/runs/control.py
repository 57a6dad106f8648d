"""Change runs where they are driven: send messages, resume, fork. Reading them is `coterie.runs.repository`."""

from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from coterie.runs.repository import Runs

if TYPE_CHECKING:  # readers of runs start without what these need
    from coterie.journal.records import RunReopened
    from coterie.planning.plan import Plan
    from coterie.runs.fork import Forked
    from coterie.runs.messages import RunMessage, Verdict
    from coterie.runs.outcome import Outcome
    from coterie.workspace.notes import EntryFiles, NoteSettings


class RemoteRuns(Runs):
    """Runs that another machine drives, and how they are changed there; see the functions of this module."""

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
        """Carry *run* on there."""

    @abstractmethod
    def fork(self, run: str, *, files: bool = True, **how: Any) -> "Forked":
        """Make a fork of *run* there."""

    @abstractmethod
    def here(self, run: str, tell: Callable[[str], object]) -> Runs:
        """Runs of this machine with a copy of *run*; *tell* learns where its work is."""


def send(runs: Runs, run: str, message: "RunMessage") -> "Verdict":
    """Send the root run *run* of *runs* a message and, if its owner lives, wait for the verdict.

    Refused at once: an operator's message from within an attempt, and an answer to a run without an owner while an
    attempt of it is still alive.

    Raises:
        UsageError: If the message is not UTF-8 text.
        OSError: If it cannot be put into the inbox.
    """
    if isinstance(runs, RemoteRuns):
        return runs.send(run, message)
    from coterie.runs.messages import dispatch

    return dispatch.send(runs, run, runs.folder(run), message)


def answer(runs: Runs, run: str, turn: str, text: str, outputs: "dict[str, Any] | None" = None) -> "Verdict":
    """Answer the question of *turn* in the root run *run*; without an owner, only an answer that fits is kept."""
    from coterie.runs import messages

    message = messages.answer(turn, text, outputs)
    verdict = send(runs, run, message)
    if verdict.status == "queued":
        from coterie.runs.messages import provisional  # imports every engine

        if why := provisional.unusable(runs, run, message):
            return messages.Verdict(status="refused", detail=why)
    return verdict


def guide(runs: Runs, run: str, text: str, turn: str = "", *, interrupt: bool = False) -> "Verdict":
    """Give guidance to *turn*, to the loop or to the only running turn of *run*, and *interrupt* its attempt for it."""
    from coterie.runs.messages import guidance, interruption

    verdict = send(runs, run, guidance(text, turn))
    if interrupt and verdict.status == "accepted":
        send(runs, run, interruption(turn))  # if no turn is running, the next one has it anyway
    return verdict


def stop(runs: Runs, run: str) -> "Verdict":
    """Stop the root run *run* as Ctrl-C does where it runs; refused if no process drives it."""
    from coterie.runs import messages

    if (state := runs.status(run)) != "running":
        return messages.Verdict(status="refused", detail=f"nothing drives it ({state})")
    return send(runs, run, messages.stop())


def notes(runs: Runs, run: str, settings: "NoteSettings | None", kind: str) -> "EntryFiles":
    """The entries of the `memory`, or of the `task`s, of *run*; see `coterie.runs.note_files`."""
    if isinstance(runs, RemoteRuns):
        return runs.notes(run, settings, kind)
    from coterie.runs.note_files import NoteFiles

    return NoteFiles(runs).files(run, settings, kind)


async def resume(runs: Runs, run: str, **how: Any) -> "Outcome":
    """Carry the root run *run* on where it is driven; *how*: see `coterie.runs.launch.resume`.

    With *retry*, a turn or an empty text, a failed run is reopened; `retriable` says what that would do.
    """
    if isinstance(runs, RemoteRuns):
        return await runs.resume(run, **how)
    from coterie.runs import launch

    return await launch.resume(run, state_dir=runs.root, **how)


def retriable(runs: Runs, run: str, turn: str = "") -> "RunReopened":
    """The record by which `resume(…, retry=turn)` would reopen *run*; nothing is written. For pages that offer it.

    Raises:
        RetryRefused: If it would be refused; it says why, and what can be done instead.
        RunIsOwned: If a process drives the run.
    """
    from coterie.runs import retry

    return retry.retriable(runs, list(runs.tree(run)), turn)


def fork(runs: Runs, run: str, **how: Any) -> "Forked":
    """Make a fork of the root run *run* among *runs*; *how*: see `coterie.runs.fork.fork`."""
    if isinstance(runs, RemoteRuns):
        return runs.fork(run, **how)
    from coterie.runs.fork import fork

    return fork(run, state_dir=runs.root, **how)
