"""The owner's side of the inbox: find and judge the messages of other processes.

Other processes never write a journal. A message is a file `<run>/inbox/<id>.json`, renamed into place; the owner
records it once per id and deletes the file when the record is durable. A living owner returns the verdict at once
through its doorbell (`coterie.execution.runs.messages.doorbell`); without an owner the message waits for the next one.
An operator's message counts only if an operator's process has rung the doorbell for it, unless it arrived before this
owner took the run over.
"""

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from pathlib import Path

import msgspec

from coterie.agents.backends.agentside import delivery
from coterie.agents.backends.agentside.client import OUTBOX, OWN
from coterie.agents.backends.processes import attempt_of, marks_of
from coterie.base import files
from coterie.base.shortages import shortage, suppress_os_errors
from coterie.errors import JournalFailed
from coterie.execution.kernel.driven_run import DrivenRun
from coterie.execution.kernel.shell import Shell
from coterie.execution.runs.messages import LARGEST, UNREADABLE, WAITS, RunMessage, Verdict
from coterie.execution.runs.messages.doorbell import Doorbell
from coterie.execution.runs.messages.tokens import Tokens
from coterie.execution.runs.messages.verdicts import OF_AGENTS, Sender, guided, keep, restore_notes, sender_of, take
from coterie.team.formats.bounds import decode_json

LOOK_EVERY = 2.0
"""Seconds between two checks of the inbox, for messages whose sender could not ring."""

COLLECTED = 10_000
"""How many entries of an outbox one check inspects."""
CHECK_EVERY = 0.1
"""Seconds between two checks whether the gates for a verdict have run."""
PATIENCE = 5.0
"""Seconds until a sender has to ring again; less than its time-out."""


_OPEN: dict[str, asyncio.AbstractEventLoop] = {}
"""The event loops in which inboxes are open, by the folders of their runs."""


def is_open_here(folder: Path) -> bool:
    """Whether the run in *folder* is driven by the event loop that the caller blocks."""
    try:
        return _OPEN.get(files.real_path(folder)) is asyncio.get_running_loop()
    except RuntimeError:  # the caller blocks none
        return False


class Inbox:
    """Takes the messages to a run: at once when the doorbell rings, otherwise at the next check.

    Without a doorbell (no folder for sockets, or its socket was removed) messages take a little longer.

    Args:
        folder: The root run's folder.
        shell: Drives the run.
        now: The source of time.
    """

    def __init__(self, folder: Path, shell: Shell, now: Callable[[], float]) -> None:
        self._folder, self._shell, self._now = folder, shell, now
        self._bell = Doorbell(folder, lambda name, pid: self._take(name, self._marks_of(pid)))
        self._looking: asyncio.Task[None] | None = None
        self._seen: set[str] | None = None
        """The messages in the inbox at the last check; None before the first."""
        self._taken: dict[str, asyncio.Task[Verdict]] = {}
        """The verdicts on taken messages, by id, for senders that ring only after a check."""

    @cached_property
    def _tokens(self) -> Tokens:
        return Tokens.of(self._folder)

    async def open(self) -> None:
        """Open the doorbell, take the waiting messages, and check for more from now on."""
        with suppress(OSError):  # then checks find the messages
            files.make_folder(self._folder / "inbox")
        _OPEN[files.real_path(self._folder)] = asyncio.get_running_loop()
        await self._bell.open()
        await self._look()
        self._looking = asyncio.create_task(self._keep_looking())

    async def close(self) -> None:
        """Stop the checks and close the doorbell. Idempotent."""
        _OPEN.pop(files.real_path(self._folder), None)
        for task in [*self._taken.values(), *([self._looking] if self._looking else [])]:
            task.cancel()
        self._bell.close()

    async def _keep_looking(self) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY)
            await self._bell.open()
            await self._look()

    async def _look(self) -> None:
        """Take the messages in the inbox, in the order of their arrival.

        The first check takes all. Later checks take only messages that were there at the check before, so that the
        doorbell can first identify the sender; they leave operators' messages to the doorbell.
        """
        try:
            self._collect()
            found, seen = in_order(self._folder / "inbox"), self._seen
            self._seen = {path.stem for path in found}
            for path in found:
                if seen is None or path.stem in seen:
                    with suppress_os_errors(), suppress(JournalFailed):  # the shell ends an owner whose journal fails
                        await self._take(path.stem, rung=seen is None)
        except OSError as error:
            self._shell.lack(shortage(error))

    def _collect(self) -> None:
        """Move messages that sandboxed agents left in the folders of their attempts to the inbox."""
        for agent in (self._folder / "agents").glob("*"):  # processes that serve one attempt after the other
            collect(agent, self._folder)
        for live in self._shell.runs.values():
            for attempt in live.attempts.values():
                collect(attempt.place.folder, self._folder)

    def _marks_of(self, pid: int) -> tuple[str, ...] | None:
        """Return the attempts in which the process *pid* runs, the innermost first; None if it has ended."""
        launched: dict[int, str] = {}
        for live in self._shell.runs.values():
            for attempt in live.attempts.values():
                marker = attempt.ref.marker
                launched |= {pid: marker for one in attempt.launched for pid in (one.pid, one.group)}
        innermost, marks = attempt_of(pid, launched), marks_of(pid) if pid else None
        return None if innermost is None or marks is None else tuple(filter(None, (innermost, *marks)))

    async def _take(self, name: str, marks: tuple[str, ...] | None = (), *, rung: bool = True) -> Verdict:
        """Return the verdict on the message *name*, which is judged once, however often it comes.

        Args:
            marks: As for `coterie.execution.runs.messages.verdicts.sender_of`.
            rung: Whether an operator's message may be taken.
        """
        path = self._folder / "inbox" / f"{Path(name).name}.json"
        task = self._taken.get(path.stem)
        if task is None:
            if not path.exists():
                self._collect()
            message = load_message(path)
            if isinstance(message, Verdict):
                return message
            sender = self._sender_of(message, marks)
            if not (message.attempt or sender.problem or rung):
                return Verdict(status="queued", detail=WAITS)
            task = self._taken[path.stem] = asyncio.create_task(self._deliver(message, sender, path))
        done, _ = await asyncio.wait({task}, timeout=PATIENCE)
        if not done:
            return Verdict(status=delivery.CHECKING)
        return task.result()

    def _sender_of(self, message: RunMessage, marks: tuple[str, ...] | None = ()) -> Sender:
        root = next(iter(self._shell.runs.values()))
        began = root.core.started.begun_by if root.core.started is not None else ()
        return sender_of(message, root.run, self._tokens, marks, began)

    async def _deliver(self, message: RunMessage, sender: Sender, path: Path) -> Verdict:
        """Judge *message*, and remove its file *path* once the verdict is durable."""
        with files.claimed(path) as is_there:
            if not is_there and message.kind != UNREADABLE:
                return Verdict(status="refused", detail="its sender has taken it back")
            while True:
                live, verdict = await self._judged(message, sender)
                if verdict.status != delivery.CHECKING:
                    break
                await asyncio.sleep(CHECK_EVERY)
            await live.writer.durable(live.core.seq)
            try:
                keep(self._shell, live, message)
            except OSError as error:
                if lacks := shortage(error):
                    self._shell.lack(lacks)  # the record is durable: the next owner writes the file
                raise
            if verdict.status != "queued":
                files.remove(path)
            return verdict

    async def _judged(self, message: RunMessage, sender: Sender) -> tuple[DrivenRun, Verdict]:
        judged: asyncio.Future[tuple[DrivenRun, Verdict]] = asyncio.get_running_loop().create_future()

        def judge() -> None:
            if not judged.done():
                judged.set_result(take(self._shell, message, self._now(), sender))

        self._shell.post(judge)
        return await judged

    def take_waiting(self, live: DrivenRun) -> None:
        """Judge the messages that attempts of *live* sent before their owner died, and guidance for *live*.

        So the prompt of a retried attempt has the guidance. The files stay until this owner reads its inbox and finds
        that they are recorded. A fork has records of notes, but no files of them yet.
        """
        if live.core.notes:
            restore_notes(self._shell, live)
        for name, turn in live.core.turns.items():
            if turn.status == "running":
                collect(self._shell.attempt_folder(live.core.ref(name)), self._folder)
        for path in in_order(self._folder / "inbox"):
            try:
                message = decode_json(files.read(path, LARGEST), RunMessage)
            except (OSError, ValueError, RecursionError) as error:
                if shortage(error):
                    raise
                continue  # refused when this owner reads its inbox
            sender = self._sender_of(message)
            if not sender.problem and (_belongs_to_the_dead(live, message) or _guides(self._shell, live, message)):
                take(self._shell, message, live.core.at, sender, late=True)


def collect(attempt: Path | None, folder: Path) -> None:
    """Move the messages in the folder of *attempt* to the inbox of the run in *folder*."""
    if attempt is None:
        return
    with (
        suppress(OSError),  # there are none
        files.folder_below(attempt, (OWN, OUTBOX)) as outbox,
        files.folder_below(folder, ("inbox",)) as inbox,
    ):
        known = {*os.listdir(inbox)}
        for name, _ in files.files_in(outbox, COLLECTED):
            if name.endswith(".json") and name not in known:
                with suppress(OSError):  # taken meanwhile
                    os.rename(name, name, src_dir_fd=outbox, dst_dir_fd=inbox)


def _belongs_to_the_dead(live: DrivenRun, message: RunMessage) -> bool:
    """Whether *message* comes from an attempt of *live* that ran under its previous owner."""
    below, _, turn = message.turn.rpartition("/")
    return (
        message.kind in OF_AGENTS
        and live.run.partition("/")[2] == below
        and live.core.counts(turn, message.attempt, message.epoch)
    )


def _guides(shell: Shell, live: DrivenRun, message: RunMessage) -> bool:
    """Whether *message* is guidance that *live* or one of its turns can still use.

    A turn that is a child run takes none here: that run is taken over next.
    """
    if message.kind != "guide" or live.core.finished is not None or len(found := guided(shell, message)) != 1:
        return False
    run, name = found[0]
    turn = run.core.turns.get(name)
    waits = turn is not None and turn.status == "running" and run.core.kind(turn.ask.agent) == "topology"
    return run is live and not waits


def in_order(inbox: Path) -> list[Path]:
    """The messages in *inbox*, in the order of their arrival."""
    came: dict[Path, int] = {}
    for path in inbox.glob("*.json"):
        with suppress(OSError):  # taken meanwhile
            came[path] = path.lstat().st_mtime_ns
    return sorted(came, key=lambda path: (came[path], path.name))


def load_message(path: Path) -> RunMessage | Verdict:
    """Read the message in *path*; return a verdict if there is none. An unreadable one is moved aside and refused."""
    try:
        return decode_json(files.read(path, LARGEST), RunMessage)
    except FileNotFoundError:
        return Verdict(status="refused", detail="there is no such message")
    except (OSError, ValueError, RecursionError, msgspec.DecodeError) as error:
        if shortage(error):
            raise
        why = (isinstance(error, OSError) and error.strerror) or str(error)
        with suppress(OSError):
            path.rename(path.with_suffix(".unreadable"))
        name = os.fsencode(path.stem).decode("utf-8", "replace")
        return RunMessage(id=name, kind=UNREADABLE, text=f"the message cannot be read: {why}")
