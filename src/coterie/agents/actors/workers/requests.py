"""The requests between the process of the supervisors and its workers, as plain data.

An answer is None or an `AskRefusal`. A request is always decoded as the type of its kind.
"""

import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import msgspec
from msgspec import Struct

from coterie.agents.actors.answers import error_of
from coterie.agents.actors.exits import Down, writable
from coterie.agents.actors.life import AgentHealth
from coterie.agents.actors.message import AskRefusal, Message
from coterie.agents.actors.node import ActorNode
from coterie.errors import ActorError, AgentCrashed, AgentStopped, NoSuchAgent, SpawnError, WorkerLost, error_line
from coterie.history.journal.records import (
    ActorCrashed,
    ActorStarted,
    ActorStopped,
    CorrectionDropped,
    CorrectionSent,
    EvalReported,
    LetterDead,
    Record,
    ReplyEnded,
    ReplyPiece,
    Usage,
)
from coterie.team.planning.system import DynamicPlan, SupervisorPlan

if TYPE_CHECKING:
    from coterie.agents.actors.transports.peer_transport import PeerTransport
    from coterie.agents.actors.transports.remote import Peer

ABSENT = "absent"
"""The kind of a refusal: the worker cannot host the agent now, which is not a failure."""


class WorkerRequest(Struct, frozen=True):
    """A request between the process of the supervisors and a worker."""

    kind: ClassVar[str]


class Attach(WorkerRequest, frozen=True):
    """To a worker: host agents for this supervisor. Refused while it hosts agents for another one."""

    kind = "worker.attach"


class StartAgent(WorkerRequest, frozen=True):
    """To a worker: start an incarnation of an agent; answered when it runs."""

    kind = "worker.start"
    name: str
    incarnation: int


class StopAgent(WorkerRequest, frozen=True):
    """To a worker: end an agent, for a reason of `Supervised.stop`; answered when it has ended."""

    kind = "worker.stop"
    name: str
    reason: str


class WorkerReport(WorkerRequest, frozen=True):
    """From a worker: events of its agents, in order, as JSON, numbered from *first* over the worker's whole life."""

    kind = "worker.report"
    first: int
    items: list[bytes]


class Leave(WorkerRequest, frozen=True):
    """From a worker: it is stopping its agents and ends, so they move to another one."""

    kind = "worker.leave"


class Spawn(WorkerRequest, frozen=True):
    """From a worker: spawn an agent for *parent*, by the name of its type."""

    kind = "tree.spawn"
    parent: str
    type: str
    name: str
    into: str | None
    config: dict[str, Any]


class Despawn(WorkerRequest, frozen=True):
    """From a worker: stop a spawned agent."""

    kind = "tree.despawn"
    name: str


class Resolve(WorkerRequest, frozen=True):
    """From a worker: find an agent. Answered when a node has it, or with the reason why none has.

    Attributes:
        is_patient: Also wait if its worker was lost.
    """

    kind = "tree.resolve"
    name: str
    is_patient: bool = False


class TurnUsage(WorkerRequest, frozen=True):
    """To the process of a turn's run: the agent's usage of models for it."""

    kind = "turn.usage"
    turn: str
    usage: Usage


class Introduce(WorkerRequest, frozen=True):
    """From another supervisor of the same system: decide which of the two continues.

    Attributes:
        began: When the sender began, in Unix seconds.
        is_established: Whether it has started its agents.
    """

    kind = "supervisor.introduce"
    began: float
    is_established: bool


Reported = (
    ActorStarted
    | ActorStopped
    | ActorCrashed
    | LetterDead
    | EvalReported
    | ReplyPiece
    | ReplyEnded
    | CorrectionSent
    | CorrectionDropped
    | Down
    | AgentHealth
)
"""The items that a worker reports."""

_REPORTED: dict[str, type[Struct]] = {
    (kind.__struct_config__.tag if issubclass(kind, Record) else kind.__name__): kind for kind in Reported.__args__
}


def remote_agents(root: SupervisorPlan, process: str) -> frozenset[str]:
    """The agents below *root* that live in a process other than *process*."""
    return frozenset(
        node.name
        for node in root.nodes()
        if not isinstance(node, SupervisorPlan | DynamicPlan) and getattr(node, "process", "") != process
    )


Q = TypeVar("Q", bound=WorkerRequest)


def fingerprint(root: SupervisorPlan) -> str:
    """A hash of a tree, equal in all processes of one system."""
    return sha256(json.dumps(_differing(root), sort_keys=True).encode()).hexdigest()[:32]


def _differing(value: Any) -> Any:
    """Convert *value* to plain data without fields at their default, since a later release may have more fields."""
    match value:
        case Struct():
            fields = {field.name: getattr(value, field.name) for field in msgspec.structs.fields(value)}
            changed = {field.name for field in msgspec.structs.fields(value) if fields[field.name] != field.default}
            return [type(value).__name__, {name: _differing(fields[name]) for name in sorted(changed)}]
        case dict():
            return {str(key): _differing(each) for key, each in value.items()}
        case list() | tuple():
            return [_differing(each) for each in value]
        case str() | int() | float() | None:
            return value
        case _:
            return type(value).__qualname__


async def call(
    transport: "PeerTransport",
    address: str,
    request: WorkerRequest,
    timeout: float | None = None,  # noqa: ASYNC109
) -> AskRefusal | None:
    """Send *request* to the node at *address* and return its answer.

    Raises:
        ActorError: If the node is gone, or did not answer in time.
    """
    answer = await transport.request(
        address, request.kind, msgspec.to_builtins(request, builtin_types=(bytes, datetime)), timeout
    )
    return None if answer is None else msgspec.convert(answer, AskRefusal)


def serve(
    transport: "PeerTransport", kind: type[Q], handle: Callable[["Peer", Q], Awaitable[AskRefusal | None]]
) -> None:
    """Answer the requests of one type with *handle*; its exceptions also become answers."""

    async def answer(peer: "Peer", payload: Any) -> Any:
        try:
            refusal = await handle(peer, msgspec.convert(payload, kind))
        except Exception as error:  # also from a user's constructor or `on_start`
            refusal = refusal_of(error, str(getattr(error, "agent", "")))
        return None if refusal is None else msgspec.to_builtins(refusal)

    transport.serve(kind.kind, answer)


def share_usage(transport: "PeerTransport", node: ActorNode) -> None:
    """Send agents' usage of models for a turn to the process that requested the turn."""
    models = node.plugins.models

    async def forward(message: Message, used: Usage) -> None:
        if message.reply_to not in (None, node.address):
            with suppress(ActorError):  # that process is gone, and the attempt with it
                await call(transport, message.reply_to, TurnUsage(str(message.payload["turn"]), used), timeout=5.0)

    async def count(peer: "Peer", request: TurnUsage) -> None:
        if (meter := models.meters.get(request.turn)) is not None:
            meter(request.usage)

    models.forward = forward
    serve(transport, TurnUsage, count)


def refusal_of(error: Exception, agent: str) -> AskRefusal:
    """The refusal for *error*, from which `raise_refusal` makes it again; other errors become `AgentCrashed`."""
    match error:
        case AgentCrashed():
            return AskRefusal("crashed", agent, writable(error.error), writable(error.trace))
        case AgentStopped():
            return AskRefusal("stopped", agent, writable(error.reason))
        case WorkerLost():
            return AskRefusal("lost", agent, error.process)
        case NoSuchAgent():
            return AskRefusal("unknown", agent)
        case SpawnError():
            return AskRefusal("spawn", agent, writable(str(error)))
        case _:
            return AskRefusal("crashed", agent, writable(error_line(error)))


def raise_refusal(refusal: AskRefusal | None) -> None:
    """Raise the error for *refusal*, if it is not None."""
    if refusal is not None:
        raise SpawnError(refusal.agent, refusal.reason) if refusal.kind == "spawn" else error_of(refusal)


def write_item(item: Reported) -> bytes:
    """Encode an entry of a `WorkerReport`, including halves of surrogate pairs, which MessagePack cannot encode."""
    plain = msgspec.to_builtins(item)
    name = plain["topic"] if isinstance(item, Record) else type(item).__name__
    return json.dumps([name, plain]).encode()


def read_item(data: bytes) -> Reported:
    """Decode an item that `write_item` wrote.

    Raises:
        ValueError: If *data* is not one.
    """
    name, plain = json.loads(data)
    return msgspec.convert(plain, _REPORTED[name])  # type: ignore[return-value]
