"""A worker: hosts the agents of its process name for the supervisors of another process.

It serves one supervisor at a time. When that is lost, or ends, the worker stops its agents and waits for the next.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from coterie.agents.actors.child import AgentChild
from coterie.agents.actors.classes import class_path
from coterie.agents.actors.dead_letters import hiding_secrets
from coterie.agents.actors.exits import Change, Down
from coterie.agents.actors.hosted import AgentBuilder, SystemPorts, node_of
from coterie.agents.actors.life import AgentHealth
from coterie.agents.actors.message import AskRefusal, Message
from coterie.agents.actors.plugins.plugins import Plugins
from coterie.agents.actors.supervision.spec import SHUTDOWN
from coterie.agents.actors.transports.wire import check
from coterie.agents.actors.workers.guard import GuardProcess
from coterie.agents.actors.workers.lease import Lease
from coterie.agents.actors.workers.requests import (
    ABSENT,
    Attach,
    Despawn,
    Leave,
    Reported,
    Resolve,
    Spawn,
    StartAgent,
    StopAgent,
    WorkerReport,
    call,
    fingerprint,
    raise_refusal,
    refusal_of,
    remote_agents,
    serve,
    share_usage,
    write_item,
)
from coterie.agents.actors.workers.signal import ChangeSignal
from coterie.errors import ActorError, CannotStart, NoSuchAgent
from coterie.history.journal.records import LetterDead, Record
from coterie.team.planning.system import ActorPlan, SupervisorPlan, SystemPlan, TurnActorPlan

if TYPE_CHECKING:
    from coterie.agents.actors.transports.peer_transport import PeerTransport
    from coterie.agents.actors.transports.remote import Peer

KEPT = 10_000
"""How many reports wait for a supervisor; beyond that the oldest are dropped."""
BATCH = 100
"""How many reports are sent at once."""
HEALTH = 1.0
"""Seconds between two reports of the agents' health."""
PATIENCE = 2
"""For how many of these reports a supervisor with another file is tolerated."""
DRAINING = 5.0
"""Seconds for a leaving worker to handle the messages of its agents."""


class WorkerSystem:
    """The agents of one process name of a system; the supervisors live in another process.

    All classes are imported at construction. The ports `reply_streams` and `folder` are for gateways, which live with
    the supervisors.

    Raises:
        ClassNotFound, PluginError, CannotStart: As for an `ActorSystem`.
    """

    def __init__(self, plan: SystemPlan, ports: SystemPorts) -> None:
        self.plan, self._ports, self._journal = plan, ports, ports.sink or (lambda record: None)
        self.plugins = ports.plugins or Plugins.from_plan(plan.plugins, ports.clock)
        tracer = self.plugins.tracer
        self._fingerprint = fingerprint(plan.root)
        self._transport = _transport(plan, ports, self._fingerprint)
        sink = hiding_secrets(tracer.before(self._record) if tracer.exporters else self._record)
        self.node = node_of(plan, self.plugins, self._transport, sink, ports.clock)
        self._guard = GuardProcess(plan.process) if ports.transport is None else None
        self._lease = Lease(self._transport, self._lease_ended, self._guard)
        self.node.may_handle = self._lease.holds
        self.node.tree, self.node.remote_agents = self, remote_agents(plan.root, plan.process)
        self._builder = AgentBuilder(self.node, ports)
        self._plans = dict(_hosted(plan.root, plan.process))
        if not self._plans:
            raise CannotStart(f"no agent has process: {plan.process!r}")
        self._children = self._build()
        self._supervisor = ""
        self._starting: dict[str, asyncio.Task[None]] = {}
        self._outbox: deque[Reported] = deque(maxlen=KEPT)
        self._first = 1
        self._health: dict[str, AgentHealth] = {}
        self._is_leaving = False
        self._misfits = 0
        self._releasing: asyncio.Task[None] | None = None
        self._reporting: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._ticking: asyncio.TimerHandle | None = None
        self._gave_up: asyncio.Future[str]
        self._signal = ChangeSignal()

    async def start(self) -> None:
        """Connect, and wait for a supervisor, which starts the agents.

        Raises:
            CannotStart: If the server or broker cannot be reached.
        """
        loop = asyncio.get_running_loop()
        self._gave_up = loop.create_future()
        self.plugins.check()
        serve(self._transport, Attach, self._attach)
        serve(self._transport, StartAgent, self._start_agent)
        serve(self._transport, StopAgent, self._stop_agent)
        share_usage(self._transport, self.node)
        self._transport.resolve, self._transport.planned = self._resolve, self.node.remote_agents
        self.node.reach = self._reach
        self._transport.on_peer(self._on_peer)
        await self.node.start()
        self._tick()

    async def gave_up(self) -> str:
        """Wait until it must end because it does not match the supervisor; return the reason."""
        return await asyncio.shield(self._gave_up)

    async def stop(self) -> None:
        """Leave in order: let the agents handle their messages, stop them, and send all reports."""
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._leave())
        await asyncio.shield(self._closing)

    def ask(
        self, recipient: str, payload: Any = None, message_type: str = "message", *, timeout: float | None = 30.0
    ) -> Awaitable[Message]:
        """Send a message to an agent and return its reply; see `AgentProcess.ask`."""
        return self.node.ask(recipient, payload, message_type, timeout=timeout)

    # What agents do

    async def spawn(
        self, parent: str, what: type | str, name: str, into: str | None = None, config: Mapping[str, Any] | None = None
    ) -> str:
        """Request an agent under a dynamic supervisor, which lives in the process of the supervisors.

        A class is spawned by its dotted path, which must be allowed there.

        Raises:
            SpawnError: If a limit is reached, the type is not allowed, or there is no such supervisor.
            PayloadRefused: If an argument would arrive changed.
        """
        check(dict(config or {}), name)
        path = class_path(what) if isinstance(what, type) else what
        await self._ask_supervisor(Spawn(parent, path, name, into, dict(config or {})))
        return name

    async def despawn(self, name: str) -> None:
        """Stop a spawned agent."""
        await self._ask_supervisor(Despawn(name))

    def halt(self, name: str) -> None:
        """Refuse: eval agents, which halt others, live in the process of the supervisors."""
        raise NoSuchAgent(name)

    async def _reach(self, name: str) -> None:
        while name not in self._transport.names():
            await self._resolve(name, is_patient=True)

    async def _resolve(self, name: str, *, is_patient: bool = False) -> None:
        await self._ask_supervisor(Resolve(name, is_patient))
        with suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                while name not in self._transport.names():
                    await self._signal.wait()  # its node has not announced it yet

    async def _ask_supervisor(self, request: Resolve | Spawn | Despawn) -> None:
        while not self._supervisor:
            await self._signal.wait()
        raise_refusal(await call(self._transport, self._supervisor, request))

    # What the supervisor says

    def _on_peer(self, peer: "Peer", change: str) -> None:
        self._signal.fire()
        if change == "lost" and peer.address == self._supervisor:
            self._release()

    def _compare_files(self) -> None:
        """Give up if the only supervisor has had a different file for a while; refuse such a second one at once."""
        fit = {
            peer.fingerprint == self._fingerprint
            for peer in self._transport.peers.values()
            if peer.role == "supervisor"
        }
        self._misfits = self._misfits + 1 if fit == {False} and not self._supervisor else 0
        if self._misfits > PATIENCE and not self._gave_up.done():
            self._gave_up.set_result(
                f"the supervisors of {self.plan.root.name!r} run another file than this worker {self.plan.process!r}: "
                "start both with the same tree; two systems that share a broker or server need different names of their"
                " roots"
            )

    async def _attach(self, peer: "Peer", request: Attach) -> AskRefusal | None:
        if self._is_leaving or self._gave_up.done():
            return AskRefusal(ABSENT, "", "it leaves")
        if self._releasing is not None or self._supervisor not in ("", peer.address):
            return AskRefusal("busy", "", "it serves another supervisor")
        if self._supervisor:
            self._release()  # a supervisor that had lost this worker
            return AskRefusal("busy", "", "it stops its agents")
        self._supervisor = peer.address
        self._lease.begin(peer.address)
        letters = [item for item in self._outbox if isinstance(item, LetterDead)]  # the rest is for another incarnation
        self._outbox.clear()
        self._health.clear()
        self._outbox.extend(letters)
        self._children = self._build()
        self._signal.fire()
        return None

    async def _start_agent(self, peer: "Peer", request: StartAgent) -> AskRefusal | None:
        name = request.name
        is_served = peer.address == self._supervisor and not self._is_leaving and self._releasing is None
        if not is_served or not self._lease.holds():
            return AskRefusal(ABSENT, name, "its worker serves another supervisor, or leaves")
        child = self._children.get(name)
        if child is None:
            return AskRefusal("unknown", name)
        task = self._starting[name] = self.node.create_task(child.start(request.incarnation))
        try:
            await asyncio.wait({task})
        finally:
            self._starting.pop(name, None)
        refusal = None
        if task.cancelled():
            refusal = AskRefusal(ABSENT, name, "it was stopped")
        elif (error := task.exception()) is not None:
            refusal = refusal_of(error if isinstance(error, Exception) else RuntimeError(repr(error)), name)
        await self._flush()
        return refusal

    async def _stop_agent(self, peer: "Peer", request: StopAgent) -> None:
        if peer.address == self._supervisor and (child := self._children.get(request.name)) is not None:
            await self._end(child, request.reason)
            await self._flush()

    async def _end(self, child: AgentChild, reason: str, within: float | None = None) -> None:
        if (starting := self._starting.get(child.spec.name)) is not None:
            starting.cancel()
            await asyncio.wait({starting})
        await child.stop(reason, within)

    # The end of a service

    def _lease_ended(self) -> None:
        """Stop the agents, because the supervisor has confirmed no heartbeat for too long."""
        self._transport.give_up(self._supervisor)
        self._release()

    def _release(self) -> None:
        """Stop the agents, then stop serving the supervisor, which is gone."""
        self._lease.freeze()
        if self._releasing is None and not self._is_leaving:
            self._releasing = self.node.create_task(self._stop_agents())
            self._releasing.add_done_callback(self._released)

    def _released(self, task: "asyncio.Task[None]") -> None:
        self._releasing, self._supervisor = None, ""
        self._lease.release()

    async def _stop_agents(self) -> None:
        """Stop the agents in reverse order while the lease lasts, then all others at once."""
        children = list(self._children.values())
        while children and (left := self._lease.left()):
            await self._end(children.pop(), SHUTDOWN, left)
        at_once = self._lease.at_once
        await asyncio.gather(*(self._end(child, SHUTDOWN, at_once) for child in reversed(children)))

    async def _leave(self) -> None:
        self._is_leaving = True
        if self._ticking is not None:
            self._ticking.cancel()
        if self._releasing is not None:
            await asyncio.wait({self._releasing})
        if self._supervisor:
            for name in self._children:  # first, so that nothing is sent here after the supervisor knows
                self._transport.withdraw(name, "")
            with suppress(ActorError):  # it is gone, too
                await call(self._transport, self._supervisor, Leave(), timeout=2.0)
                await self._drain()
        await self._stop_agents()
        self._lease.release()
        await self._flush()
        await self.node.stop()
        if self._guard is not None:
            self._guard.close()
        if not self._ports.keep_plugins:
            await self.plugins.close()

    async def _drain(self) -> None:
        """Handle the messages in the mailboxes; no more arrive, since the names are withdrawn."""
        deadline = self.node.loop.time() + DRAINING
        while any(child.mailbox or child.current for child in self._children.values()):
            if self.node.loop.time() > deadline:
                return
            await asyncio.sleep(0.01)

    # Reports

    def _record(self, record: Record) -> None:
        self._journal(record)
        self._report(record)

    def _report(self, item: Any) -> None:
        if len(self._outbox) == KEPT:
            self._first += 1
        self._outbox.append(item)
        if self._supervisor:
            self._begin_report()

    def _begin_report(self) -> "asyncio.Task[None]":
        if self._reporting is None:
            self._reporting = self.node.create_task(self._send_reports())
            self._reporting.add_done_callback(self._reported)
        return self._reporting

    def _reported(self, task: "asyncio.Task[None]") -> None:
        self._reporting = None

    async def _send_reports(self) -> None:
        while self._outbox and (supervisor := self._supervisor):
            items = [self._outbox[at] for at in range(min(BATCH, len(self._outbox)))]
            first = self._first
            try:
                await call(
                    self._transport, supervisor, WorkerReport(first, [write_item(item) for item in items]), timeout=30.0
                )
            except ActorError:
                return  # lost, or silent for long and soon lost
            while self._outbox and self._first < first + len(items):
                self._outbox.popleft()
                self._first += 1

    async def _flush(self) -> None:
        """Wait until the supervisor has every report."""
        while self._outbox and self._supervisor:
            before = len(self._outbox)
            await asyncio.wait({self._begin_report()})
            if len(self._outbox) >= before:
                return

    def _tick(self) -> None:
        """Report changes of the agents' health."""
        self._ticking = self.node.loop.call_later(HEALTH, self._tick)
        self._compare_files()
        if self._supervisor:
            for name, child in self._children.items():
                health = child.health()
                if child.started and self._health.get(name) != health:
                    self._health[name] = health
                    self._report(health)

    # From the plan

    def _build(self) -> dict[str, AgentChild]:
        children = {}
        for name, (plan, path) in self._plans.items():
            child = children[name] = self._builder.build(plan, path)
            child.report = self._ended
        return children

    def _ended(self, change: Change) -> None:
        assert isinstance(change, Down)
        self._report(change)


def _hosted(
    supervisor: SupervisorPlan, process: str, path: str = ""
) -> Iterator[tuple[str, tuple[ActorPlan | TurnActorPlan, str]]]:
    """The agents with this process name, with the names of the supervisors above each."""
    below = f"{path}/{supervisor.name}" if path else supervisor.name
    for child in supervisor.children:
        if isinstance(child, SupervisorPlan):
            yield from _hosted(child, process, below)
        elif isinstance(child, ActorPlan | TurnActorPlan) and child.process == process:
            yield child.name, (child, below)


def _transport(plan: SystemPlan, ports: SystemPorts, fingerprint: str) -> "PeerTransport":
    """The transport in *ports*, or else the plan's, which for a worker is one between processes."""
    from coterie.agents.actors.transports.choose import transport_for  # loads the library of the transport

    given = ports.transport or transport_for(
        plan.transport, system=plan.root.name, process=plan.process, fingerprint=fingerprint
    )
    return given  # type: ignore[return-value]
