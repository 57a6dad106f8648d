"""The inbox of a run, as its owner sees it: how messages of other processes are found and judged.

Other processes never write a journal. A message is a file `<run>/inbox/<id>.json`, renamed into place; the owner
records it once per id and deletes the file when the record is durable. A living owner gives the verdict at once through
its doorbell (`coterie.runs.messages.doorbell`); without an owner the message waits for the next one. An operator's
message counts only if an operator's process has rung for it, unless it was there before this owner took the run over.
"""

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from pathlib import Path

import msgspec

from coterie import files
from coterie.backends.agentside import delivery
from coterie.backends.agentside.client import OUTBOX, OWN
from coterie.backends.processes import attempt_of, marks_of
from coterie.errors import JournalFailed
from coterie.formats.bounds import decode_json
from coterie.ids import child_run_id
from coterie.kernel.driven_run import DrivenRun
from coterie.kernel.shell import Shell
from coterie.runs.messages import LARGEST, UNREADABLE, WAITS, RunMessage, Verdict
from coterie.runs.messages.doorbell import Doorbell
from coterie.runs.messages.tokens import Tokens
from coterie.runs.messages.verdicts import OF_AGENTS, Sender, guided, keep, restore_notes, sender_of, take
from coterie.shortages import shortage, suppress_os_errors

LOOK_EVERY = 2.0
"""Seconds between two looks of an owner at its inbox, for messages whose sender could not ring."""

CHECK_EVERY = 0.1
"""Seconds between two looks whether the gates on which a verdict depends have been run."""
PATIENCE = 5.0
"""Seconds until a sender has to ring again; less than it waits."""


class Inbox:
    """Takes the messages to a run: at once when the doorbell rings, otherwise at the next look.

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
        """The messages that were there at the last look; None before the first."""
        self._taken: dict[str, asyncio.Task[Verdict]] = {}
        """The messages that were taken, by id: a sender that was slower than a look still gets its verdict."""

    @cached_property
    def _tokens(self) -> Tokens:
        return Tokens.of(self._folder)

    async def open(self) -> None:
        """Open the doorbell, take the messages that wait, and look for more from now on."""
        with suppress(OSError):  # then messages are found by looking
            files.make_folder(self._folder / "inbox")
        await self._bell.open()
        await self._look()
        self._looking = asyncio.create_task(self._keep_looking())

    async def close(self) -> None:
        """Stop looking, and close the doorbell. Idempotent."""
        for task in [*self._taken.values(), *([self._looking] if self._looking else [])]:
            task.cancel()
        self._bell.close()

    async def _keep_looking(self) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY)
            await self._bell.open()
            await self._look()

    async def _look(self) -> None:
        """Take the messages in the inbox, in the order they came.

        The first look takes all. Later looks take only those that were there at the look before, so that the doorbell
        first says who sent a message; an operator's message is left to its doorbell then.
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
        """Bring the messages that agents in a sandbox have left in the folders of their attempts to the inbox."""
        for agent in (self._folder / "agents").glob("*"):  # processes that serve one attempt after the other
            collect(agent, self._folder)
        for live in self._shell.runs.values():
            for name in live.attempts:
                if (turn := live.core.turns.get(name)) is not None:
                    collect(self._shell.attempt_folder(live.run, name, turn.attempt), self._folder)

    def _marks_of(self, pid: int) -> tuple[str, ...] | None:
        """Return the attempts in which the process *pid* runs, the innermost first; None if it has ended."""
        launched: dict[int, str] = {}
        for live in self._shell.runs.values():
            for name in live.attempts:
                if (turn := live.core.turns.get(name)) is not None:
                    marker = child_run_id(live.run, name, turn.attempt)
                    launched |= {
                        pid: marker
                        for one in turn.launched
                        if one.attempt == turn.attempt
                        for pid in (one.pid, one.group)
                    }
        innermost, marks = attempt_of(pid, launched), marks_of(pid) if pid else None
        return None if innermost is None or marks is None else tuple(filter(None, (innermost, *marks)))

    async def _take(self, name: str, marks: tuple[str, ...] | None = (), *, rung: bool = True) -> Verdict:
        """The verdict on the message *name*, which is judged once, however often it comes.

        Args:
            marks: As for `coterie.runs.messages.verdicts.sender_of`.
            rung: An operator's message may be taken.
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
            task = self._taken[path.stem] = asyncio.create_task(self._deliver(message, sender))
        done, _ = await asyncio.wait({task}, timeout=PATIENCE)
        if not done:
            return Verdict(status=delivery.CHECKING)
        if (verdict := task.result()).status != "queued":
            path.unlink(missing_ok=True)
        return verdict

    def _sender_of(self, message: RunMessage, marks: tuple[str, ...] | None = ()) -> Sender:
        root = next(iter(self._shell.runs.values()))
        began = root.core.started.begun_by if root.core.started is not None else ()
        return sender_of(message, root.run, self._tokens, marks, began)

    async def _deliver(self, message: RunMessage, sender: Sender) -> Verdict:
        """Have *message* judged and wait until that is durable; then its file may be removed."""
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
        return verdict

    async def _judged(self, message: RunMessage, sender: Sender) -> tuple[DrivenRun, Verdict]:
        judged: asyncio.Future[tuple[DrivenRun, Verdict]] = asyncio.get_running_loop().create_future()

        def judge() -> None:
            if not judged.done():
                judged.set_result(take(self._shell, message, self._now(), sender))

        self._shell.post(judge)
        return await judged

    def take_waiting(self, live: DrivenRun) -> None:
        """Judge the messages that the attempts of *live* sent before their owner died, and guidance for *live*.

        So an attempt that is retried has the guidance in its prompt. The files stay until this owner reads its inbox
        and finds that they are recorded. A fork has the notes of its records, but no files of them yet.
        """
        if live.core.notes:
            restore_notes(self._shell, live)
        for name, turn in live.core.turns.items():
            if turn.status == "running":
                collect(self._shell.attempt_folder(live.run, name, turn.attempt), self._folder)
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
    for path in in_order(attempt / OWN / OUTBOX):
        target = folder / "inbox" / path.name
        with suppress(OSError):  # taken meanwhile
            if not target.exists():
                path.rename(target)


def _belongs_to_the_dead(live: DrivenRun, message: RunMessage) -> bool:
    """Whether *message* comes from an attempt of *live* that ran under its last owner."""
    below, _, turn = message.turn.rpartition("/")
    return (
        message.kind in OF_AGENTS
        and live.run.partition("/")[2] == below
        and live.core.counts(turn, message.attempt, message.epoch)
    )


def _guides(shell: Shell, live: DrivenRun, message: RunMessage) -> bool:
    """Whether *message* is guidance for *live*, or for one of its turns, which can still use it.

    A turn that is a child run takes none here: that run is taken over next.
    """
    if message.kind != "guide" or live.core.finished is not None or len(found := guided(shell, message)) != 1:
        return False
    run, name = found[0]
    turn = run.core.turns.get(name)
    waits = turn is not None and turn.status == "running" and run.core.kind(turn.ask.agent) == "topology"
    return run is live and not waits


def in_order(inbox: Path) -> list[Path]:
    """The messages in *inbox*, in the order they came."""
    came: dict[Path, int] = {}
    for path in inbox.glob("*.json"):
        with suppress(OSError):  # taken meanwhile
            came[path] = path.lstat().st_mtime_ns
    return sorted(came, key=lambda path: (came[path], path.name))


def load_message(path: Path) -> RunMessage | Verdict:
    """The message in *path*, or a verdict if there is none; an unreadable one is moved aside and will be refused."""
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
