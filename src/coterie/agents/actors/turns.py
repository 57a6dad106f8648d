"""The backend of agents in Python: a turn calls a function, or asks an actor.

The actor belongs to the system around the team (`ask`), or is the only child of a supervisor of this backend (`type`),
started on first use. Only the run repeats turns: a crash fails the attempt and the supervisor restarts the actor, so
that the next attempt finds a new one.
"""

import asyncio
import os
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from coterie.agents.actors.classes import importable, load_class, load_function
from coterie.agents.actors.functions import AgentFunction, FunctionTurn, text_of
from coterie.agents.actors.hosted import SystemPorts
from coterie.agents.actors.message import INTERRUPT, STEER, TURN, TURN_FAILED, Asker, Message
from coterie.agents.actors.node import ActorNode
from coterie.agents.actors.plain import plain
from coterie.agents.actors.plugins.kept_answers import KeptAnswers
from coterie.agents.actors.plugins.plugins import Plugins
from coterie.agents.actors.system import ActorSystem
from coterie.agents.backends.attempt_timeout import ABANDONED
from coterie.agents.backends.base import (
    FAILURES,
    Abilities,
    Answer,
    Emitted,
    Failure,
    OnEvent,
    Request,
    Result,
    Session,
    Used,
)
from coterie.agents.backends.secrets import Secrets
from coterie.base.clock import SystemClock
from coterie.base.diagnostics import Diagnostic, did_you_mean, error
from coterie.base.user_code import LAST_CHANCE
from coterie.errors import ActorError, AgentCrashed, ClassNotFound, WorkerLost
from coterie.history.journal.records import NO_USAGE, Usage
from coterie.team.planning.plan import Plan
from coterie.team.planning.system import ActorPlan, DynamicPlan, SupervisorPlan, SystemPlan


def missing(plan: Plan, path: str = "", around: SystemPlan | None = None) -> Iterator[Diagnostic]:
    """Errors for agents in Python of *plan*: a class cannot be imported, or the system *around* lacks an agent.

    This imports the classes, so it is called directly before a run.
    """
    around = plan.coordination if isinstance(plan.coordination, SystemPlan) else around
    for name, agent in plan.agents.items():
        if agent.child is not None:
            yield from missing(agent.child, f"{path}{name}/", around)
        elif asked := agent.options.get("ask"):
            yield from _missing_in(around, path + name, asked)
        elif agent.backend == "actor":
            importable(plan.folder)
            try:
                _loaded(agent.options["type"])
            except ClassNotFound as found:
                yield error("no-class", f"{path}{name}: {found}")


def _loaded(path: str) -> object:
    """Import the class or function at *path*.

    Raises:
        ClassNotFound: It cannot be imported.
    """
    return load_function(path) if ":" in path else load_class(path)


def _missing_in(system: SystemPlan | None, agent: str, asked: str) -> Iterator[Diagnostic]:
    if system is None:
        message = f"{agent} asks {asked!r}, an agent of a system, and this run is not part of one"
        yield error("no-system", message, hint="make the team a child of a topology.yaml: flow: {name, source}")
        return
    nodes = {node.name: node for node in system.root.nodes()}
    if asked not in nodes and not any(isinstance(node, DynamicPlan) for node in nodes.values()):
        message = f"{agent} asks {asked!r}, and the system has no such agent"
        yield error("no-system", message, hint=did_you_mean(asked, nodes))


class ActorBackend:
    """Answers turns with actors of this process."""

    abilities = Abilities(steer=True)
    uses_context = True

    def __init__(self) -> None:
        self._systems: dict[str, tuple[ActorNode, asyncio.Future[None]]] = {}
        self._functions: dict[str, AgentFunction] = {}
        self._own: dict[tuple[str, str], asyncio.Task[ActorSystem]] = {}

    def join(self, run: str, node: ActorNode, ready: asyncio.Future[None]) -> None:
        """Let agents of teams inside *run*, the run of a system, ask the actors of *node* once it is *ready*."""
        self._systems[run] = node, ready

    def leave(self, run: str) -> None:
        """Remove the actors of *run*, which have ended."""
        self._systems.pop(run, None)

    async def start(self, request: Request, on_event: OnEvent) -> Session:
        """Ask the actor; the session has the reply.

        Raises:
            CoterieError: If the actor cannot be started, or there is no system around the team.
        """
        if name := request.agent.options.get("ask"):
            node, ready, around = self._around(request.run, name)
            await asyncio.shield(ready)  # in a resumed run, a turn may start before the actors
            return ActorTurn(node, str(name), request, on_event, waiting=around)
        if request.agent.is_function:
            return FunctionTurn(self._function(request), request, on_event)
        starting = self._started(request)
        system = starting.result() if starting.done() else await asyncio.shield(starting)
        return ActorTurn(system.node, request.agent.name, request, on_event)

    async def close(self) -> None:
        """Stop the actors that this backend started. Idempotent."""
        own, self._own = list(self._own.values()), {}
        for starting in own:
            await asyncio.wait([starting])
            if not starting.cancelled() and starting.exception() is None:
                await starting.result().stop()

    def _around(self, run: str, name: str) -> tuple[ActorNode, asyncio.Future[None], str]:
        """The nearest system around *run*, a future for its start, and its agent that waits for *run*."""
        attempt = ""
        while run:
            if run in self._systems:
                return *self._systems[run], attempt.rpartition("#")[0]
            run, _, attempt = run.rpartition("/")
        raise ActorError(name, f"`ask: {name}` needs a system around the team, and this run is not part of one")

    def _function(self, request: Request) -> AgentFunction:
        path = request.agent.options["type"]
        if (known := self._functions.get(path)) is None:
            importable(str(request.here or ""))
            known = self._functions[path] = AgentFunction.at(path)
        return known

    def _started(self, request: Request) -> asyncio.Task[ActorSystem]:
        """The supervisor of the agent of *request*; a failed start is retried."""
        key = request.ref.run, request.agent.name
        known = self._own.get(key)
        if known is None or (known.done() and (known.cancelled() or known.exception() is not None)):
            known = self._own[key] = asyncio.get_running_loop().create_task(_supervised(request))
        return known


async def _supervised(request: Request) -> ActorSystem:
    from coterie.agents.actors.plugins.providers import AnthropicProvider, OpenAIProvider

    name, options = request.agent.name, request.agent.options
    child = ActorPlan(name=name, type=options["type"], config=options.get("config", {}))
    root = SupervisorPlan(name=f"{name}-supervisor", children=(child,), backoff_base=0.0)
    importable(str(request.here or ""))
    plugins = Plugins(defaults=[AnthropicProvider(), OpenAIProvider()])  # no file declares any
    system = ActorSystem(SystemPlan(root=root), SystemPorts(clock=SystemClock(), plugins=plugins))
    await system.start()
    return system


class ActorTurn:
    """A turn that an actor works on."""

    def __init__(self, node: ActorNode, name: str, request: Request, on_event: OnEvent, *, waiting: str = "") -> None:
        self._node, self._name, self._request, self._on_event = node, name, request, on_event
        self._waiting = waiting
        self._turn = request.ref.marker
        self._interrupted = self._works = self.abandoned = False
        self._reaching: asyncio.Task[None] | None = None
        self._used = NO_USAGE
        self._kept: KeptAnswers | None = None

    async def result(self) -> Result:
        """Ask, and wait for the reply; the result includes the actor's usage of models.

        Cancelling this call ends the actor's work on the turn.
        """
        if self._interrupted:
            return Failure(kind="interrupted", reason="interrupted before the agent began")
        models = self._node.plugins.models
        models.meters[self._turn], models.kept[self._turn], self._works = self._count, self._answers, True
        try:
            result = await self._reply()
        finally:
            self._works = False
            del models.meters[self._turn], models.kept[self._turn]
            if self._kept is not None:
                self._kept.close()
        return result if self._used is NO_USAGE else replace(result, usage=self._used)

    async def interrupt(self) -> None:
        """End the actor's work on the turn; the actor stays alive."""
        self._interrupted = True
        if self._reaching is not None:
            self._reaching.cancel()
        else:
            await self._control(INTERRUPT)

    async def steer(self, text: str) -> bool:
        """Call the actor's `on_guidance` with *text*; False if it no longer works on the turn."""
        return self._works and await self._control(STEER, text=text)

    async def _control(self, kind: str, **payload: str) -> bool:
        try:
            reply = await self._node.ask(self._name, {"turn": self._turn, **payload}, kind, timeout=5.0)
        except ActorError:
            return False
        return bool(reply.payload.get("phase") == "working")

    def _count(self, usage: Usage) -> None:
        self._used += usage
        self._on_event(Used(usage=self._used))

    def _answers(self) -> KeptAnswers:
        if self._kept is None:
            self._kept = KeptAnswers.of(self._request, Secrets(os.environ, self._request.agent.env), self._on_event)
        return self._kept

    async def _reply(self) -> Result:
        agent, context = self._request.agent, self._request.context
        if self._node.plugins.tracer.exporters:
            self._node.plugins.tracer.work_for(self._turn)
        payload = {
            "turn": self._turn,
            "key": self._request.key,
            "prompt": self._prompt(),
            "task": context.get("task", ""),
            "input": context.get("input", {}),
            "inputs": context.get("inputs", []),
            "reads": context.get("reads", []),
        }
        try:
            if agent.timeout is None:
                reply = await self._asked(payload)
            else:
                async with asyncio.timeout(agent.timeout):
                    reply = await self._asked(payload)
        except TimeoutError:
            reason = f"no answer within {agent.timeout:g} s"
            return Failure(kind="timeout", reason=f"{reason}; {ABANDONED}" if self.abandoned else reason)
        except AgentCrashed as crash:
            return Failure(kind="crashed", reason=f"{self._name} crashed: {crash.error}", log=crash.trace)
        except WorkerLost as lost:
            return Failure(kind="lost", reason=str(lost))
        except ActorError as refused:
            return Failure(kind="failed", reason=str(refused))
        if reply is None:
            return Failure(kind="interrupted", reason="interrupted before the agent was there")
        return self._read(reply)

    def _prompt(self) -> str:
        """The prompt, without a note on an interruption where answers of models are kept: it would change requests."""
        tail = self._request.tail
        if not self._request.answered or not tail.interruption:
            return self._request.prompt
        rest = replace(tail, interruption="").text
        return "\n\n".join(filter(None, (self._request.question, rest)))

    async def _asked(self, payload: dict[str, Any]) -> Message | None:
        """The reply; None if the turn was interrupted before the agent's worker was available."""
        if self._name in self._node.remote_agents and not await self._reach():
            return None
        asker = Asker(waiting=self._waiting, origin=self._request.key)
        asked = self._node.ask(self._name, payload, TURN, timeout=None, asker=asker)
        asking = asyncio.get_running_loop().create_task(asked)
        try:
            return await asyncio.shield(asking)
        except asyncio.CancelledError:
            self.abandoned = True
            await self.interrupt()
            await asyncio.wait({asking}, timeout=2 * LAST_CHANCE)
            if asking.done():
                self.abandoned = asking.exception() is None and _is_abandoned(asking.result())
            raise
        finally:
            asking.cancel()

    async def _reach(self) -> bool:
        """Wait for the agent's worker, which an earlier attempt may have lost; False if interrupted meanwhile."""
        if self._node.reach is None:
            return True
        self._reaching = asyncio.get_running_loop().create_task(self._node.reach(self._name))  # type: ignore[arg-type]
        try:
            await asyncio.wait([self._reaching])
            if self._reaching.cancelled():
                return False
            self._reaching.result()
            return True
        finally:
            self._reaching.cancel()
            self._reaching = None

    def _read(self, reply: Message) -> Result:
        said = reply.payload
        if reply.type == TURN_FAILED:
            self.abandoned = _is_abandoned(reply)
            kind = "interrupted" if self._interrupted else str(said.get("kind", ""))
            return Failure(kind=kind if kind in FAILURES else "failed", reason=str(said.get("reason", "")))
        if not isinstance(said, Mapping):
            return Answer(text="" if said is None else str(said))
        if event := said.get("event"):
            self._on_event(Emitted(event=str(event), payload=str(said.get("payload", ""))))
        outputs = said.get("outputs", {key: value for key, value in said.items() if key not in _WORDS})
        if not isinstance(outputs, Mapping):
            return Failure(kind="invalid_output", reason=f"its outputs are no mapping: {type(outputs).__name__}")
        try:
            outputs = plain(outputs, "its reply")
        except ValueError as error:
            return Failure(kind="invalid_output", reason=str(error))
        text = said.get("text")
        return Answer(text=text_of(outputs) if text is None else str(text), outputs=outputs or None)


def _is_abandoned(reply: Message) -> bool:
    return reply.type == TURN_FAILED and reply.payload.get("reason") == ABANDONED


_WORDS = frozenset({"event", "outputs", "payload", "text", "type"})
"""Keys of a reply that are not outputs."""
