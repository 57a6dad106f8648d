"""What a workflow asks of nodes, and what they answer, each with the proof of who says it.

An order names the execution of the workflow and the activity, and brings the run's charter along. A node performs one
only if a key that its operator gave it has signed the charter, and a key in the charter the order; the workflow takes
an answer only with a signature by a key in the charter. A node claims each turn in the export, and so performs it once.
"""

import asyncio
import hashlib
import inspect
import os
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from datetime import timedelta
from typing import Any, get_type_hints

from msgspec import Struct
from temporalio import activity, workflow
from temporalio.common import RawValue, RetryPolicy
from temporalio.exceptions import ApplicationError
from temporalio.worker import Interceptor, WorkflowInboundInterceptor, WorkflowInterceptorClassInput
from temporalio.workflow import ActivityConfig

from coterie.errors import ClusterFailed, NotSigned
from coterie.execution.cluster.keys import KeyRing
from coterie.execution.cluster.seals import Charter, Sealed, peek, read, read_charter, seal, unseal
from coterie.execution.cluster.values import to_json
from coterie.history.journal.export import Export

PATIENT = ActivityConfig(
    start_to_close_timeout=timedelta(seconds=60), retry_policy=RetryPolicy(maximum_interval=timedelta(seconds=10))
)
ASK_AGAIN = 1.0
"""Seconds between an answer without a node's signature and the next order."""
_RING = "coterie_key_ring"


class NodeOrder(Struct, frozen=True, kw_only=True):
    """What a workflow asks of a node: the arguments of an activity, below the charter of its run."""

    charter: Sealed
    args: Any


class Signing(Interceptor):
    """Gives the workflows of a worker the keys of its node, with which they sign: a signature is no decision."""

    def __init__(self, ring: KeyRing) -> None:
        self._ring = ring

    def workflow_interceptor_class(
        self, input: WorkflowInterceptorClassInput
    ) -> type[WorkflowInboundInterceptor] | None:
        """Make the keys known to the workflows."""
        input.unsafe_extern_functions[_RING] = lambda: self._ring
        return None


def ring_of_node() -> KeyRing:
    """The keys of the node on which the calling workflow runs."""
    ring: KeyRing = workflow.extern_functions()[_RING]()
    return ring


class Orders:
    """The orders of one execution of a workflow.

    Args:
        begin: The beginning of the execution, and *sealed* the charter of the run, both as they came.
        charter: The charter.
        ring: The keys of the node on which this execution runs now.

    Attributes:
        begin: The hash of the beginning.
    """

    def __init__(self, begin: Sealed, sealed: Sealed, charter: Charter, ring: KeyRing, execution: str) -> None:
        self._sealed, self._charter, self._ring = sealed, charter, ring
        self.begin, self.execution = hashlib.sha256(to_json(begin.value)).hexdigest(), execution
        self._count = 0

    def written(self, what: str, name: str, *args: Any) -> Sealed:
        """The order to perform *what* once, as the activity *name*."""
        order = NodeOrder(charter=self._sealed, args=args)
        return seal(order, self._ring, "order", what, self.execution, name)

    def seal(self, value: Any, *about: str) -> Sealed:
        """*value*, sealed as *about* that by the node on which the workflow runs."""
        return seal(value, self._ring, *about)

    def read(self, sealed: Sealed, kind: Any, *about: str) -> Any:
        """The value in *sealed*, which a node or an operator sealed.

        Raises:
            NotSigned: If none whose signature counts for the run has.
        """
        return unseal(sealed, self._charter.keys, kind, *about)

    def heard(self, sealed: Sealed, kind: Any, what: str, name: str) -> Any:
        """What the node says of the activity *name*; see `Performance.seal`."""
        return self.read(sealed, kind, what, self.execution, name)

    async def ask(self, what: str, *args: Any, kind: Any = None, **config: Any) -> Any:
        """The answer of a node; after one without a node's signature the order goes to the next node."""
        while True:
            self._count += 1
            name = f"{what}.{self._count}"  # may be a branch, too
            found: RawValue = await workflow.execute_activity(
                what,
                self.written(what, name, *args),
                activity_id=name,
                result_type=RawValue,
                **(config or PATIENT),
            )
            try:
                return self.heard(read(found.payload.data), kind, "result", name)
            except NotSigned as error:
                workflow.logger.warning(f"the answer to {what!r} is not taken, and the order goes out again: {error}")
            await asyncio.sleep(ASK_AGAIN)


class Performance:
    """An order that a node performs, with which it proves what it says of it."""

    def __init__(self, ring: KeyRing, charter: Charter, execution: str, name: str) -> None:
        self._ring, self._charter, self._about = ring, charter, (execution, name)

    def seal(self, value: Any, what: str, *about: str) -> Sealed:
        """*value*, sealed as *what* the node says of this order."""
        return seal(value, self._ring, what, *self._about, *about)

    def read(self, sealed: Sealed, kind: Any, what: str, *about: str) -> Any:
        """What the workflow answers about this order.

        Raises:
            NotSigned: If it was not the workflow.
        """
        return unseal(sealed, self._charter.keys, kind, what, *self._about, *about)


_PERFORMED: ContextVar[Performance] = ContextVar("order")


def performed() -> Performance:
    """The order that the calling activity performs."""
    return _PERFORMED.get()


class Desk:
    """Takes the orders of a node.

    Args:
        tell: Called with a notice for each reason for which orders are refused.
    """

    def __init__(self, ring: KeyRing, export: Export, tell: Callable[[str], object]) -> None:
        self._ring, self._export, self._tell = ring, export, tell
        self._told: set[str] = set()

    def performing(self, work: Callable[..., Awaitable[Any]], *, once: bool = False) -> Callable[..., Any]:
        """The activity with the name of the method *work*, which performs that for an order.

        Args:
            once: The same order is not performed again, whichever node gets it.
        """
        what: str = getattr(work, "__name__")  # noqa: B009
        hints = get_type_hints(work)
        kinds: Any = tuple.__class_getitem__(tuple(hints[name] for name in inspect.signature(work).parameters))

        @activity.defn(name=what)
        async def perform(sealed: RawValue) -> Sealed:
            info = activity.info()
            run, execution = info.workflow_id or "", info.workflow_run_id or ""
            try:
                order, charter = self._read(read(sealed.payload.data), run, what, execution, info.activity_id)
                args = read(to_json(order.args), kinds)
                if once and not await self._is_first(f"{execution} {info.activity_id} {info.attempt}"):
                    raise NotSigned(("order",), is_known=True)
            except (NotSigned, ClusterFailed) as error:
                self._say(f"an order for the run {run!r} is refused: {error}")
                raise ApplicationError(str(error), type="refused") from None
            order_performed = Performance(self._ring, charter, execution, info.activity_id)
            _PERFORMED.set(order_performed)
            return order_performed.seal(await work(*args), "result")

        return perform

    def _read(self, sealed: Sealed, run: str, *about: str) -> tuple[NodeOrder, Charter]:
        said: NodeOrder = peek(sealed, NodeOrder)
        charter = read_charter(said.charter, run, self._ring.trusted)
        order: NodeOrder = unseal(sealed, charter.keys, NodeOrder, "order", *about)
        if not any(key.public in charter.keys for key in self._ring.keys):
            own = self._ring.keys[0].public
            hint = f"`coterie cluster key trust {own}` where runs are submitted, and then submit it again"
            raise ClusterFailed(
                f"the run {run!r}", f"it takes no results that are signed with this node's key {own}", hint
            )
        return order, charter

    async def _is_first(self, name: str) -> bool:
        mine = os.urandom(16)
        return await self._export.claim(name, mine) == mine

    def _say(self, notice: str) -> None:
        if notice not in self._told:
            self._told.add(notice)
            self._tell(notice)
