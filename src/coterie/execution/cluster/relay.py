"""Messages between a run on a cluster and the attempts that this node performs for it, in both directions.

To the processes of an attempt the node looks like the owner of the run: it holds the lock in the run's folder here and
answers at a doorbell. Messages that an attempt may send go on to the workflow, and its verdict comes back.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
from temporalio.client import (
    Client,
    WorkflowHandle,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.common import RawValue
from temporalio.service import RPCError, RPCStatusCode

from coterie.agents.backends.agentside import delivery
from coterie.agents.backends.base import Request
from coterie.agents.backends.processes import marks_of
from coterie.base import files
from coterie.base.user_code import is_cancelled
from coterie.errors import NotSigned, UsageError
from coterie.execution.cluster.address import reason
from coterie.execution.cluster.keys import KeyRing
from coterie.execution.cluster.seals import Sealed, read, seal, unseal
from coterie.execution.runs.messages import RunMessage, Verdict
from coterie.execution.runs.messages.doorbell import Doorbell
from coterie.execution.runs.messages.inbox import collect, in_order, load_message
from coterie.execution.runs.messages.tokens import Tokens
from coterie.execution.runs.messages.verdicts import sender_of
from coterie.history.journal.lock import RunLock
from coterie.history.journal.rules import root_of

ENDED = "the run ended before it took the message"
COLLECT_EVERY = 1.0
"""Seconds between two looks at what agents in sandboxes have left, and at what the server could not be given."""


class Relay:
    """Passes on what attempts on this node say to their runs, each with its files in a folder."""

    def __init__(self, client: Client, ring: KeyRing) -> None:
        self._client, self._ring = client, ring
        self._open: dict[str, _Post] = {}

    @asynccontextmanager
    async def of(self, request: Request) -> AsyncIterator["Outbox"]:
        """Pass on the messages of the attempt of *request* until the block ends."""
        run, folder, attempt = root_of(request.run), request.root, request.folder
        assert folder is not None
        assert attempt is not None
        post = self._open.get(run) or _Post(self._client, self._ring, run, folder)
        self._open[run] = post
        post.users += 1
        outbox = Outbox(post, attempt)
        try:
            await post.open()
            yield outbox
        finally:
            outbox.close()
            post.users -= 1
            if not post.users:
                del self._open[run]
                post.close()


class Outbox:
    """The messages of one attempt: while it runs, those of an agent in a sandbox are passed on every second."""

    def __init__(self, post: "_Post", attempt: Path) -> None:
        self._post, self._attempt = post, attempt
        self._collecting = asyncio.create_task(self._keep_collecting())

    async def deliver(self) -> None:
        """Wait until each message has a verdict, however long the server is away.

        What an agent emitted counts before its answer. A run that stops gives verdicts only once its attempts have
        ended, so cancel this where the attempt is cancelled.
        """
        self.close()
        while self.waits():
            await self._post.pass_on(self._attempt)
            if self.waits():
                await asyncio.sleep(COLLECT_EVERY)

    def waits(self) -> bool:
        """Whether a message has no verdict yet."""
        return bool(self._post.waiting(self._attempt))

    def close(self) -> None:
        """Stop passing on messages."""
        self._collecting.cancel()

    async def _keep_collecting(self) -> None:
        while True:
            await asyncio.sleep(COLLECT_EVERY)
            await self._post.pass_on(self._attempt)


class _Post:
    """The doorbell and the inbox of one root run on this node."""

    def __init__(self, client: Client, ring: KeyRing, run: str, folder: Path) -> None:
        self._client, self._ring, self._run, self._folder = client, ring, run, folder
        self._bell = Doorbell(folder, self._judge)
        self._lock: RunLock | None = None
        self._opening = asyncio.Lock()
        self._tokens = Tokens.of(folder)
        self.users = 0

    async def open(self) -> None:
        """Open the doorbell, unless it is open; several attempts may begin at once."""
        async with self._opening:
            files.make_folder(self._folder / "inbox")
            if self._lock is None:
                self._lock = RunLock(self._run, self._folder / "lock")
            await self._bell.open()

    def close(self) -> None:
        self._bell.close()
        if self._lock is not None:
            self._lock.release()

    def waiting(self, attempt: Path) -> list[Path]:
        """All messages without a verdict, with those that a sandboxed agent has left in the folder of *attempt*."""
        collect(attempt, self._folder)
        return in_order(self._folder / "inbox")

    async def pass_on(self, attempt: Path) -> None:
        """Send them to the run."""
        for path in self.waiting(attempt):
            await self._judge(path.stem, 0)

    async def _judge(self, name: str, pid: int) -> Verdict:
        path = self._folder / "inbox" / f"{Path(name).name}.json"
        message = load_message(path)
        if isinstance(message, Verdict):
            return message
        sender = sender_of(message, self._run, self._tokens, marks_of(pid) if pid else ())
        problem = sender.problem
        if not problem and sender.source != "agent":
            problem = "an operator speaks to the run on the cluster (--cluster), not to a node"
        verdict = (
            Verdict(status=delivery.REFUSED, detail=problem)
            if problem
            else await tell(self._client, self._ring, self._run, message)
        )
        if verdict.status != delivery.QUEUED:
            path.unlink(missing_ok=True)
        return verdict


def signed(ring: KeyRing, run: str, message: RunMessage) -> Sealed:
    """*message* to the root run *run*, sealed with the keys of this machine.

    Raises:
        UsageError: If it is not UTF-8 text.
    """
    try:
        message.signed.decode()
    except UnicodeEncodeError:
        raise UsageError("the message is not UTF-8 text, and nothing was sent") from None
    return seal(msgspec.structs.replace(message, token=""), ring, "message", run)


async def update(
    handle: WorkflowHandle[Any, Any], run: str, proved: Sealed, message: RunMessage, ring: KeyRing
) -> Verdict:
    """The verdict of *run* on *message*, sent as *proved*.

    The server repeats its answer to an update with the same id, also one that someone else gave: then another id asks.

    Raises:
        NotSigned: If no node has given it.
    """
    for name in message.id, f"{message.id} {secrets.token_hex(4)}":
        found = await handle.execute_update("message", proved, id=name, result_type=RawValue)
        with suppress(NotSigned):
            about = "verdict", run, message.id
            verdict: Verdict = unseal(read(found.payload.data), ring.trusted, Verdict, *about)
            return verdict
    raise NotSigned(("verdict",))


async def tell(client: Client, ring: KeyRing, run: str, message: RunMessage) -> Verdict:
    """The verdict of the root run *run* on *message*, which it records once however often it comes.

    A message that the server cannot be given now is queued: it can be sent again.
    """
    handle = client.get_workflow_handle(run)
    try:
        proved = signed(ring, run, message)
    except UsageError as error:
        return Verdict(status=delivery.REFUSED, detail=str(error))
    try:
        verdict = await update(handle, run, proved, message, ring)
    except NotSigned as error:
        return Verdict(status=delivery.QUEUED, detail=f"{error}; it is sent again")
    except WorkflowUpdateFailedError:
        return Verdict(status=delivery.REFUSED, detail=ENDED)
    except (WorkflowUpdateRPCTimeoutOrCancelledError, RPCError) as error:
        if is_cancelled():  # the client says so in its own words
            raise asyncio.CancelledError from error
        if isinstance(error, RPCError) and error.status is RPCStatusCode.NOT_FOUND:
            return Verdict(status=delivery.REFUSED, detail="the run is over")
        return Verdict(status=delivery.QUEUED, detail=f"{reason(error)}; it is sent again")
    return verdict
