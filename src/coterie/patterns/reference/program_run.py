"""One run of a topology object: its instances, its mixins and its calls, from setup to teardown.

All state here belongs to one run, so one object can run several times at once.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import partial
from inspect import isawaitable
from operator import attrgetter
from typing import Any

from coterie.agents.backends.base import Backend
from coterie.base.ids import turn_id
from coterie.base.user_code import EndableCall, contained
from coterie.errors import PatternRefused, ReplayMismatch
from coterie.execution.runs.sidecars import ShellServices
from coterie.history.engines.program import Outcome, Program
from coterie.history.journal import records as r
from coterie.patterns.identity import execution_id, instance_id
from coterie.patterns.reference.calls import Call, answer, described
from coterie.patterns.reference.collaboration import Collaboration
from coterie.patterns.reference.invocation import AgentInvocationResult, ExecutionContext, result_of
from coterie.patterns.reference.mixins.base import BaseMixin
from coterie.patterns.reference.plain import digest, image, plain_object
from coterie.patterns.reference.replies import Replies
from coterie.patterns.reference.traces import WAY, Traces
from coterie.patterns.reference.trusted import row
from coterie.patterns.rows.kinds import utc_now
from coterie.patterns.rows.models import AgentInstance

HUMAN = "human"
"""The agent that is called when a human must allow something."""

_PLAYING: ContextVar["ProgramRun | None"] = ContextVar("coterie_program_run", default=None)


class ProgramRun(Traces):
    """One run of *topology*.

    Args:
        services: Those of the owner of the run.
        engine: The run's engine, with the actions of earlier owners.
        models: Returns the backend that calls the providers of models.
        above: The context of the run that this one is a turn of.

    Attributes:
        version: That of the engine that began the run.
        ready: Set once the agents exist; from then on calls can be answered.
        is_pure: Whether neither the program nor a mixin has effects outside. Then it may receive an answer that can
            still be lost: everything that follows from it is lost too.
    """

    def __init__(
        self,
        topology: Collaboration,
        services: ShellServices,
        engine: Program,
        models: Callable[[], Backend | None],
        above: ExecutionContext | None = None,
    ) -> None:
        started = services.core.started
        assert started is not None
        context = ExecutionContext(
            execution_id=execution_id(services.run),
            topology_id=topology._defined.id or 0,
            input_data=plain_object(started.input, "the input"),
            parent_context=above,
        )
        super().__init__(services, engine, context)
        self.topology, self.version = topology, started.engine_version
        self._models = models
        self._human = None if HUMAN in topology.agents or topology.team(HUMAN) is not None else HUMAN
        """The agent name of calls to a human; None where an agent or a team of the user has that name."""
        human = {turn for turn, call in engine.calls.items() if call.agent == self._human}
        self._counts[HUMAN] = len(human)
        records = sorted((*engine.calls.values(), *engine.outcomes.values()), key=attrgetter("seq"))
        self.replies = Replies((one for one in records if one.turn not in human), services.core.owned)
        self.is_pure = False
        for turn in human & engine.outcomes.keys():
            self.replies.deliver(engine.outcomes[turn])
        self.ready = asyncio.Event()

    # -- from the beginning to the end --------------------------------------------------------------------------------

    async def play(self) -> dict[str, Any]:
        """Run the program and return its result.

        Raises:
            Exception: The failure of the program, or its replacement by a mixin.
            ReplayMismatch: If the program does something else than the journal says.
        """
        _PLAYING.set(self)
        failed: BaseException | None = None
        try:
            return await self._performed()
        except BaseException as error:
            failed = error
            raise
        finally:
            self.replies.close()
            try:
                with contained():
                    await self.topology.teardown()
            except Exception as error:  # it counts only if nothing had failed before
                if failed is None:
                    raise
                failed.add_note(f"tearing it down then raised {type(error).__name__}: {error}")

    async def _performed(self) -> dict[str, Any]:
        """The result of the program after its mixins; a failure goes through them too."""
        try:
            with contained():
                await self.topology.setup()
                started = self.context.model_dump()
                for mixin in self._all_mixins():
                    await mixin.on_start(started)
                self.ready.set()
                output = plain_object(await self._run(), f"what {type(self.topology).__name__}._run gave")
                for mixin in self._all_mixins():
                    output = await mixin.on_complete(output)
                    output = plain_object(output, f"what on_complete of {mixin.name!r} gave")
                return output
        except ReplayMismatch:
            raise
        except Exception as error:
            for mixin in self._all_mixins():
                changed = await mixin.on_error(error)
                error = changed if isinstance(changed, Exception) else error
            raise error

    async def _run(self) -> dict[str, Any]:
        """The result of the program, once it has repeated every recorded call.

        Raises:
            ReplayMismatch: If it has not, whatever the program did with that error.
        """
        try:
            running = self.topology._run(self.context)
            if not isawaitable(running):
                raise PatternRefused(f"{type(self.topology).__name__}._run must be written with `async def`")
            output = await EndableCall(running)
        finally:
            if self._mismatch is not None:
                raise self._mismatch
        for turn, call in self.engine.calls.items():
            if turn not in self.replies.asked and call.agent != self._human:
                raise self._other(call, "the program ended without this call")
        return output

    async def begin(self) -> None:
        """Create the instances and their mixins, for `BaseTopology.setup`."""
        for slot, defined in self.topology.agents.items():
            agent = self.topology.as_member(slot, defined)
            instance = row(
                AgentInstance,
                id=instance_id(self.run, slot),
                agent_type_id=agent.id or 0,
                execution_id=self.context.execution_id,
                state=plain_object(self.engine.states.get(slot, {}), "the state"),
                metadata_={"slot": slot},
                created_at=utc_now(),
                last_active=None,
            )
            self.instances[slot] = instance
            self._configs[slot] = agent.get_typed_config()
            self.mixins[slot] = await self.topology._load_mixins(agent, instance)
        self.is_pure = type(self.topology).pure and all(mixin.pure for mixin in self._all_mixins())

    async def end(self) -> None:
        """Destroy the mixins, for `BaseTopology.teardown`."""
        errors = []
        for mixin in self._all_mixins():
            try:
                with contained():
                    await mixin.on_destroy()
            except Exception as error:  # the others have something to clear up, too
                errors.append(error)
        if errors:
            raise errors[0]

    def _all_mixins(self) -> list[BaseMixin]:
        return [mixin for mixins in list(self.mixins.values()) for mixin in mixins]

    # -- calls --------------------------------------------------------------------------------------------------------

    async def invoke(self, slot: str, messages: Sequence[Mapping[str, Any]]) -> AgentInvocationResult:
        """Call the agent at *slot*; a failure is in the result."""
        config = self.config(slot)
        try:
            said = [dict(message) for message in messages]
        except (TypeError, ValueError):
            raise PatternRefused(f"the messages to {slot!r} must be a list of dictionaries, not {messages!r}") from None
        request: dict[str, Any] = {
            "model": config.model,
            "messages": said,
            "max_tokens": config.max_tokens,
            "temperature": config.temperature,
        }
        format = f"Answer in this format: {config.output_format}" if config.output_format else ""
        if system := "\n\n".join(part for part in (config.system_prompt, format) if part):
            request["messages"].insert(0, {"role": "system", "content": system})
        request = plain_object(request, f"the request to {slot}")
        outcome = await self._ask(slot, request)
        instance = self.instances[slot]
        instance.__dict__["last_active"] = datetime.fromtimestamp(outcome.at, UTC)
        took = int((outcome.at - self.engine.calls[outcome.turn].at) * 1000)
        return result_of(outcome, instance.id, took)

    async def _invoked(self, slot: str, request: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any] | None]:
        """*request* after the mixins of *slot*; and the state of their agent, if it changed."""
        mixins, instance = self.mixins[slot], self.instances[slot]
        if not mixins:
            return request, None
        before = image(instance.state)
        if self.topology.tools and any(mixin.name == "tool_use" for mixin in mixins):
            request["tools"] = described(self.topology.tools)
        for mixin in mixins:
            request = plain_object(await mixin.on_invoke(request), f"what on_invoke of {mixin.name!r} gave")
        state = plain_object(instance.state, "the state")
        return request, state if image(state) != before else None

    async def ask_team(self, name: str, given: dict[str, Any]) -> Outcome:
        """The outcome of the team *name*, which runs as a child run."""
        return await self._ask(name, plain_object(given, f"the input of {name}"))

    async def _ask(self, name: str, asked: dict[str, Any]) -> Outcome:
        """The outcome of the next call of *name*, an agent or a team; one that was made before must be the same."""
        turn, hash = turn_id(name, self._count(name)), digest(asked)
        known, call = self.engine.calls.get(turn), None
        if known is not None and known.hash != hash:
            raise self._other(known, "another request")
        if known is None and name in self.instances:
            asked, state = await self._invoked(name, asked)
            call = r.CallAsked(turn=turn, agent=name, hash=hash, request=asked, state=state)
        elif known is None:
            call = r.CallAsked(turn=turn, agent=name, hash=hash, given=asked)
        outcome = self.replies.of(turn)
        try:
            if call is not None:
                self._services.post(partial(self._services.write, call, "agent"), outcome.cancel)
            return await outcome
        except asyncio.CancelledError:
            self._services.post(partial(self._drop, turn))
            raise

    def _drop(self, turn: str) -> None:
        if turn in self.engine.calls and turn not in self.engine.outcomes:
            self._services.write(r.CallDropped(turn=turn), source="agent")

    # -- answers ------------------------------------------------------------------------------------------------------

    def appended(self, outcome: Outcome) -> None:
        """Take an outcome that is appended but may still be lost in a crash."""
        if self.engine.calls[outcome.turn].agent != self._human:
            self.replies.came(outcome)
        if self.is_pure:
            self.replies.tell(outcome.seq)
            self._services.defer_sync(WAY)

    def durable(self, outcome: Outcome) -> None:
        """Take an outcome that is durable."""
        if self.engine.calls[outcome.turn].agent == self._human:
            self.replies.deliver(outcome)  # a tool that a human allows acts outside, so not before
        self.replies.tell(outcome.seq)

    async def call(self, turn: str, attempt: int, interrupted: int) -> Call:
        """The call *turn* with all that answering it needs, once the agents exist."""
        await self.ready.wait()
        asked = self.engine.calls[turn]
        return Call(
            run=self.run,
            slot=asked.agent,
            turn=turn,
            attempt=attempt,
            interrupted=interrupted,
            sent=asked.request,
            model=self.topology._call_llm,
            human=self._ask_human,
            models=self._models,
            timeout=self.config(asked.agent).timeout_seconds,
        )

    async def respond(self, call: Call) -> dict[str, Any]:
        """The final response to *call*; changes to its agent's state are discarded if it fails."""
        _PLAYING.set(self)
        slot = call.slot
        instance, mixins = self.instances[slot], self.mixins[slot]
        before = image(instance.state)
        tools = self.topology.tools if any(mixin.name == "tool_use" for mixin in mixins) else {}
        try:
            response = await answer(call, mixins, tools, self.config(slot).max_tool_calls)
        except BaseException:
            instance.state = plain_object(self.engine.states.get(slot, {}), "the state")
            raise
        state = instance.state
        if image(state) != before:
            await self._write(r.StateChanged(agent=slot, turn=call.turn, state=plain_object(state, "the state")))
        return response

    async def _ask_human(self, turn: str, question: str, n: int) -> str:
        hash = digest(turn, question, n)
        asked = next((one.turn for one in self.engine.calls.values() if one.hash == hash), "")
        if not asked:
            asked, request = turn_id(HUMAN, self._count(HUMAN)), {"messages": [{"role": "user", "content": question}]}
            await self._write(r.CallAsked(turn=asked, agent=HUMAN, hash=hash, request=request))
        match await self.replies.of(asked):
            case r.TurnFinished(text=text):
                return text
            case r.TurnFailed(reason=reason) | r.TurnCancelled(reason=reason):
                return f"no: {reason}"


def playing() -> ProgramRun | None:
    """The run whose program is executing here."""
    return _PLAYING.get()
