"""Messages between a run on a cluster and the attempts that this node performs for it, in both directions.

To the processes of an attempt the node looks like the owner of the run: it holds the lock in the run's folder here and
answers at a doorbell. Messages that an attempt may send go on to the workflow, and its verdict comes back.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
from temporalio.client import Client, WorkflowUpdateFailedError, WorkflowUpdateRPCTimeoutOrCancelledError
from temporalio.service import RPCError, RPCStatusCode

from coterie import files
from coterie.backends.agentside import delivery
from coterie.backends.base import Request
from coterie.backends.processes import marks_of
from coterie.errors import ClusterFailed, UsageError
from coterie.journal.export import Export
from coterie.journal.lock import RunLock
from coterie.journal.rules import root_of
from coterie.runs.messages import RunMessage, Verdict
from coterie.runs.messages.doorbell import Doorbell
from coterie.runs.messages.inbox import collect, in_order, load_message
from coterie.runs.messages.tokens import Tokens
from coterie.runs.messages.verdicts import sender_of


class Relay:
    """Passes on what attempts on this node say to their runs, each with its files in a folder."""

    def __init__(self, client: Client, export: Export) -> None:
        self._client, self._export = client, export
        self._open: dict[str, _Post] = {}

    @asynccontextmanager
    async def of(self, request: Request) -> AsyncIterator[None]:
        """Pass on the messages of the attempt of *request* until the block ends, and then what is left."""
        run, folder, attempt = root_of(request.run), request.root, request.folder
        assert folder is not None
        assert attempt is not None
        post = self._open.get(run) or _Post(self._client, self._export, run, folder)
        self._open[run] = post
        post.users += 1
        looking = asyncio.create_task(post.keep_collecting(attempt))
        try:
            await post.open()
            yield
            await post.collect(attempt)
        finally:
            looking.cancel()
            post.users -= 1
            if not post.users:
                del self._open[run]
                post.close()


class _Post:
    """The doorbell and the inbox of one root run on this node."""

    def __init__(self, client: Client, export: Export, run: str, folder: Path) -> None:
        self._client, self._export, self._run, self._folder = client, export, run, folder
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

    async def keep_collecting(self, attempt: Path) -> None:
        """Bring what an agent in a sandbox leaves in the folder of its attempt, every second."""
        while True:
            await asyncio.sleep(1)
            await self.collect(attempt)

    async def collect(self, attempt: Path) -> None:
        """Pass on all that waits."""
        collect(attempt, self._folder)
        for path in in_order(self._folder / "inbox"):
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
            else await tell(self._client, self._export, self._run, message)
        )
        if verdict.status != delivery.QUEUED:
            path.unlink(missing_ok=True)
        return verdict


async def signed(export: Export, run: str, message: RunMessage) -> RunMessage:
    """*message* to the root run *run* with the proof that its workflow wants: only what can read *export* has it.

    Raises:
        UsageError: If it is not UTF-8 text.
        ClusterFailed: If the export cannot be read.
    """
    tokens = Tokens(await export.secret(run))
    try:
        sign = tokens.node if message.attempt else tokens.operator
        return msgspec.structs.replace(message, token=sign(message.signed))
    except UnicodeEncodeError:
        raise UsageError("the message is not UTF-8 text, and nothing was sent") from None


async def tell(client: Client, export: Export, run: str, message: RunMessage) -> Verdict:
    """The verdict of the root run *run* on *message*, which it records once however often it comes.

    A message that the server cannot be given now is queued: it can be sent again.
    """
    handle = client.get_workflow_handle(run)
    try:
        message = await signed(export, run, message)
    except UsageError as error:
        return Verdict(status=delivery.REFUSED, detail=str(error))
    except ClusterFailed as error:
        return Verdict(status=delivery.QUEUED, detail=f"{error}; it is sent again")
    try:
        verdict: Verdict = await handle.execute_update("message", message, id=message.id, result_type=Verdict)
    except WorkflowUpdateFailedError:
        return Verdict(status=delivery.REFUSED, detail="the run ended before it took the message")
    except WorkflowUpdateRPCTimeoutOrCancelledError as error:
        return Verdict(status=delivery.QUEUED, detail=f"the cluster does not answer ({error}); it is sent again")
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return Verdict(status=delivery.REFUSED, detail="the run is over")
        return Verdict(status=delivery.QUEUED, detail=f"the cluster does not answer ({error}); it is sent again")
    return verdict
