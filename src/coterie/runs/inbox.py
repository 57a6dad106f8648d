"""The inbox of a run: how other processes say something to it.

Other processes never write a journal. A message is a file `<run>/inbox/<id>.json`, renamed into place; the owner
records it once per id and deletes the file when the record is durable. If the owner lives, its doorbell, a Unix socket
named in `<run>/control.json`, gives the verdict at once; if not, the message waits for the next owner.
"""

import asyncio
import hashlib
import json
import os
import socket
import stat
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from coterie.engines.commands import Emit, Reply
from coterie.errors import JournalFailed, UsageError
from coterie.ids import new_message_id
from coterie.journal.jsonl import JsonlStore
from coterie.journal.lock import is_held
from coterie.journal.records import AttemptFailed, EventInvalid, MessageRefused, OperatorSaid
from coterie.runs.folder import control
from coterie.runs.listing import history
from coterie.runs.live import Live
from coterie.runs.shell import Shell

ANSWER_WITHIN = 10.0
"""Seconds for which a sender waits for the verdict of a living owner."""
WAITS = "the message waits in its inbox for `coterie resume`"
LOOK_EVERY = 2.0
"""Seconds between two looks of an owner at its inbox, for messages whose doorbell could not be rung."""
SOCKET_PATH_MOST = 100
"""Bytes; longer socket paths do not bind."""


class Message(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What another process says to a run.

    Attributes:
        id: Given by the sender; the run records it once however often it comes.
        kind: `answer`, `emit`, `interrupt`, `retry` or `cancel`.
        turn: Which turn it is for; in a child run `<turn>.<attempt>/<turn>`; empty where one can be guessed.
        attempt: With *epoch*, who says it: what an attempt that is over says does not count. 0 means nobody's.
    """

    id: str
    kind: str
    turn: str = ""
    attempt: int = 0
    epoch: int = 0
    text: str = ""
    outputs: dict[str, Any] | None = None
    event: str = ""
    payload: str = ""


class Verdict(Struct, frozen=True, kw_only=True):
    """What became of a message: `accepted`, `refused`, or `queued` for the next owner."""

    status: str
    detail: str = ""


# -- the sender -------------------------------------------------------------------------------------------------------


def respond(folder: Path, turn: str | None, text: str, outputs: dict[str, Any] | None = None) -> Verdict:
    """Answer the question that a human turn of the run in *folder* asks; without *turn*, the only one open."""
    return send(folder, Message(id=new_message_id(), kind="answer", turn=turn or "", text=text, outputs=outputs))


def interrupt(folder: Path, turn: str | None = None) -> Verdict:
    """Cut off the attempt of *turn*, or of all turns; they are asked again, and no failure is counted."""
    return send(folder, Message(id=new_message_id(), kind="interrupt", turn=turn or ""))


def send(folder: Path, message: Message) -> Verdict:
    """Put *message* into the inbox of the run in *folder* and, if its owner lives, wait for the verdict.

    Raises:
        UsageError: If it holds bytes that are no UTF-8 text.
        OSError: If it cannot be put there.
    """
    try:
        data = msgspec.json.encode(message)
    except UnicodeEncodeError:
        raise UsageError("the message is not UTF-8 text, and nothing was sent") from None
    inbox = folder / "inbox"
    inbox.mkdir(exist_ok=True)
    path = inbox / f"{message.id}.json"
    part = inbox / f".{message.id}.part"
    with part.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    part.rename(path)
    deadline = time.monotonic() + ANSWER_WITHIN
    while is_held(folder / "lock") and path.exists():
        if (verdict := _ring(folder, message.id, deadline)) is not None:
            return verdict
        if time.monotonic() >= deadline:
            return Verdict(
                status="queued", detail="the run's owner does not answer now; it looks into its inbox itself"
            )
        time.sleep(0.05)
    if path.exists():
        return Verdict(status="queued", detail=f"nobody runs it now; {WAITS}")
    return _recorded(folder, message.id)  # its owner took it without the bell


def _recorded(folder: Path, name: str) -> Verdict:
    """What the journal says of the message *name*."""
    for _, record in history(JsonlStore(folder.parent.parent), folder.name):
        if getattr(record, "message", "") == name:
            if isinstance(record, MessageRefused):
                return Verdict(status="refused", detail=record.reason)
            return Verdict(status="accepted")
    return Verdict(status="refused", detail="the run was over before it was read")


def _ring(folder: Path, name: str, deadline: float) -> Verdict | None:
    """The owner's verdict, or None when its doorbell cannot be reached."""
    path = control(folder).get("socket", "")
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as bell:
            bell.settimeout(max(0.1, deadline - time.monotonic()))
            bell.connect(path)
            bell.sendall(name.encode() + b"\n")
            with bell.makefile("rb") as reply:
                return msgspec.json.decode(reply.readline(), type=Verdict)
    except (OSError, msgspec.DecodeError):
        return None


# -- the owner --------------------------------------------------------------------------------------------------------


class Inbox:
    """The owner's side: takes what lies there, at once when the doorbell rings and otherwise at the next look.

    Without a doorbell (no folder for sockets, or its socket was cleared away) messages take a little longer.

    Args:
        folder: The root run's folder.
        shell: Drives the run.
        now: The source of time.
    """

    def __init__(self, folder: Path, shell: Shell, now: Callable[[], float]) -> None:
        self._folder, self._shell, self._now = folder, shell, now
        self._server: asyncio.Server | None = None
        self._socket = socket_path(folder)
        self._looking: asyncio.Task[None] | None = None
        self._taken: dict[str, asyncio.Task[Verdict]] = {}
        """The messages that were taken, by id: a sender who was slower than a look is still told."""

    async def open(self) -> None:
        """Hang out the doorbell, take what waits and look for more from now on."""
        with suppress(OSError):  # then messages are found by looking
            (self._folder / "inbox").mkdir(exist_ok=True)
            self._socket.unlink(missing_ok=True)
            self._server = await asyncio.start_unix_server(self._answer, path=str(self._socket))
            part = self._folder / ".control.part"
            part.write_text(json.dumps({"socket": str(self._socket), "pid": os.getpid()}))
            part.rename(self._folder / "control.json")
        await self._look()
        self._looking = asyncio.create_task(self._keep_looking())

    async def close(self) -> None:
        """Take down what was hung out here, and nothing of another owner's. Idempotent."""
        for task in [*self._taken.values(), *([self._looking] if self._looking else [])]:
            task.cancel()
        if self._server is not None:
            self._server.close()
            self._server = None
            with suppress(OSError):
                self._socket.unlink(missing_ok=True)
                (self._folder / "control.json").unlink(missing_ok=True)

    async def _keep_looking(self) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY)
            await self._look()

    async def _look(self) -> None:
        """Take what lies in the inbox, in the order it came."""
        came: dict[str, int] = {}
        for path in (self._folder / "inbox").glob("*.json"):
            with suppress(OSError):  # taken meanwhile
                came[path.stem] = path.stat().st_mtime_ns
        for name in sorted(came, key=lambda name: (came[name], name)):
            with suppress(OSError, JournalFailed):  # an owner whose journal fails is ended by its shell
                await self._take(name)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            verdict = await self._take((await reader.readline()).decode().strip())
            writer.write(msgspec.json.encode(verdict) + b"\n")
            await writer.drain()
        except (OSError, ValueError, JournalFailed, asyncio.CancelledError):
            pass  # nobody waits any more, it was no name, or this owner is over: the sender sees that itself
        finally:
            writer.close()

    async def _take(self, name: str) -> Verdict:
        """The verdict on the message *name*, which is judged once however often it comes."""
        path = self._folder / "inbox" / f"{Path(name).name}.json"
        task = self._taken.get(path.stem)
        if task is None:
            task = self._taken[path.stem] = asyncio.create_task(self._deliver(path))
        verdict = await asyncio.shield(task)
        if verdict.status != "queued":
            path.unlink(missing_ok=True)
        return verdict

    async def _deliver(self, path: Path) -> Verdict:
        """Have the message in *path* judged and wait until that is durable; then its file may go."""
        message = _load(path)
        if isinstance(message, Verdict):
            return message
        loop = asyncio.get_running_loop()
        judged: asyncio.Future[tuple[Live, Verdict]] = loop.create_future()

        def judge() -> None:
            if not judged.done():
                judged.set_result(take(self._shell, message, self._now()))

        self._shell.post(judge)
        live, verdict = await judged
        await live.writer.durable(live.core.seq)
        return verdict


def take(shell: Shell, message: Message, now: float) -> tuple[Live, Verdict]:
    """Judge *message* and write what it deserves, in one piece; the verdict counts once that is durable."""
    live, turn = _addressee(shell, message)
    if any(message.id in one.core.messages for one in shell.runs.values()):
        return live, Verdict(status="accepted", detail="it had arrived before")
    if live.core.finished is not None:
        return live, Verdict(status="refused", detail="the run is over")
    if live.core.stopped:
        return live, Verdict(status="queued", detail=f"its owner is letting go of the run; {WAITS}")
    match message.kind:
        case "answer":
            problem = _answer(shell, live, turn, message)
        case "emit":
            problem = _emit(shell, live, turn, message)
        case "interrupt":
            said = OperatorSaid(message=message.id, what="interrupt", turn=turn)
            problem = "" if shell.cut(live, said) else f"nothing runs that could be interrupted{turn and ' as ' + turn}"
        case _:
            problem = f"nobody knows what {message.kind!r} means"
    if problem:
        live.core.write(now, MessageRefused(message=message.id, reason=problem, turn=turn))
        return live, Verdict(status="refused", detail=problem)
    return live, Verdict(status="accepted")


def _addressee(shell: Shell, message: Message) -> tuple[Live, str]:
    """The run that *message* is for, and the turn there; the root when nothing better is known."""
    root = next(iter(shell.runs.values()))
    below, _, turn = message.turn.rpartition("/")
    if below:
        return shell.runs.get(f"{root.run}/{below}", root), turn
    if not turn and message.kind == "answer":
        asking = [(live, one.ask.turn) for live in shell.runs.values() for one in live.humans()]
        if len(asking) == 1:
            return asking[0]
    return root, turn


def _answer(shell: Shell, live: Live, turn: str, message: Message) -> str:
    """Give a human's answer to the turn that asked; return why it cannot be used, if so."""
    asking = {one.ask.turn: one for one in live.humans()}
    if turn not in asking:
        known = ", ".join(asking) or "none"
        return (
            f"turn {turn!r} does not wait for an answer; those that do: {known}"
            if turn
            else (f"say which turn the answer is for: {known}")
        )
    if turn in live.held:
        return shell.decide(live, turn, message.text, message.id)
    attempt = asking[turn].attempt
    reply = Reply(turn=turn, attempt=attempt, text=message.text, outputs=message.outputs, message=message.id)
    judged = live.core.engine.judge(reply)
    if isinstance(judged, AttemptFailed):
        reply = _as_the_one_output(live, asking[turn].ask.agent, reply)
        if isinstance(live.core.engine.judge(reply), AttemptFailed):
            return judged.reason
    shell.hear(live, reply, "operator")
    return ""


def _as_the_one_output(live: Live, agent: str, reply: Reply) -> Reply:
    """A person who is asked for one value and just says it has given it."""
    plan = live.core.agents.get(agent)
    if plan is None or len(plan.outputs) != 1 or reply.outputs:
        return reply
    return msgspec.structs.replace(reply, outputs={plan.outputs[0].name: reply.text.strip()})


def _emit(shell: Shell, live: Live, turn: str, message: Message) -> str:
    if (message.epoch and message.epoch != live.core.epoch) or not live.core.hears(turn, message.attempt):
        return f"attempt {turn}.{message.attempt} is over (stale)"
    emit = Emit(turn=turn, attempt=message.attempt, event=message.event, payload=message.payload, message=message.id)
    record = shell.hear(live, emit)
    if isinstance(record, EventInvalid):
        return record.reason or f"{message.event!r} is not allowed now; allowed: {', '.join(record.allowed) or 'none'}"
    return ""


def _load(path: Path) -> Message | Verdict:
    """The message in *path*, or why there is none; an unreadable one is put aside."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Message)
    except FileNotFoundError:
        return Verdict(status="refused", detail="there is no such message")
    except (OSError, ValueError, RecursionError, msgspec.DecodeError) as error:
        path.rename(path.with_suffix(".unreadable"))
        return Verdict(status="refused", detail=f"the message cannot be read: {error}")


def socket_path(folder: Path) -> Path:
    """A path for the doorbell of the run in *folder*, in the per-user runtime directory, short enough to bind."""
    name = hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:16] + ".sock"
    for base in (os.environ.get("XDG_RUNTIME_DIR", ""), tempfile.gettempdir(), "/tmp"):
        if not base or not Path(base).is_dir():
            continue
        home = Path(base) / f"coterie-{os.getuid()}"
        if len(os.fsencode(home / name)) > SOCKET_PATH_MOST:
            continue
        try:
            home.mkdir(mode=0o700, exist_ok=True)
        except OSError:
            continue
        found = home.lstat()  # /tmp is everybody's: no link that somebody left there, and no folder others write to
        if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022:
            return home / name
    return folder / "bell.sock"
