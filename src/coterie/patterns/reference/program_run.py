"""One run of a topology object: its instances, its mixins and its calls, from setup to teardown.

All state here belongs to one run, so one object can run several times at once. The program reaches the journal through
the `ProgramHost` of the run.
"""

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from datetime import UTC, datetime
from inspect import isawaitable
from typing import Any

from coterie.engines.program import Outcome, Program
from coterie.errors import PatternRefused, ReplayMismatch
from coterie.ids import turn_id
from coterie.journal import records as r
from coterie.patterns.identity import execution_id, instance_id
from coterie.patterns.reference.calls import Call, answer, described
from coterie.patterns.reference.collaboration import Collaboration
from coterie.patterns.reference.invocation import AgentInvocationResult, ExecutionContext, result_of
from coterie.patterns.reference.mixins.base import BaseMixin
from coterie.patterns.reference.plain import digest, image, plain_object
from coterie.patterns.reference.replies import Replies
from coterie.patterns.reference.traces import ProgramHost, Traces
from coterie.patterns.reference.trusted import row
from coterie.patterns.rows.configs import AgentConfig
from coterie.patterns.rows.kinds import utc_now
from coterie.patterns.rows.models import AgentInstance

HUMAN = "human"
"""The agent that is called when a human must allow something."""

_PLAYING: ContextVar["ProgramRun | None"] = ContextVar("coterie_program_run", default=None)


class ProgramRun(Traces):
    """One run of *topology*.

    Args:
        engine: The run's engine, with the actions of earlier owners.
        seq: Of the record with which this owner began.

    Attributes:
        around: The host of the run.
        ready: Set once the agents exist; from then on calls can be answered.
        context: The argument of `_run`.
        is_pure: Whether neither the program nor a mixin has effects outside. Then it may receive an answer that can
            still be lost: everything that follows from it is lost too.
    """

    def __init__(
        self,
        topology: Collaboration,
        around: ProgramHost,
        run: str,
        engine: Program,
        given: dict[str, Any],
        seq: int,
    ) -> None:
        self.topology, self.run = topology, run
        self.loop = asyncio.get_running_loop()
        self.around, self.engine = around, engine
        self.instances: dict[str, AgentInstance] = {}
        self.mixins: dict[str, list[BaseMixin]] = {}
        self._human = None if HUMAN in topology.agents or topology.team(HUMAN) is not None else HUMAN
        """The agent name of calls to a human; None where an agent or a team of the user has that name."""
        human = {turn for turn, call in engine.calls.items() if call.agent == self._human}
        self.replies = Replies(one for one in engine.history if one.seq < seq and one.turn not in human)
        self.is_pure = False
        self._news = deque(one for one in engine.history if one.seq > seq and isinstance(one, Outcome))
        """Outcomes of calls that were not passed on yet, in order."""
        self._said: dict[str, asyncio.Future[Outcome]] = {}
        """The answers of humans by turn, once they are durable: a tool that one allows acts outside."""
        for turn in human & engine.outcomes.keys():
            self._human_says(turn).set_result(engine.outcomes[turn])
        self.ready = asyncio.Event()
        self.context = ExecutionContext(
            execution_id=execution_id(run), topology_id=topology._defined.id or 0, input_data=given
        )
        super().__init__(engine)
        self._mismatch: ReplayMismatch | None = None
        self._configs: dict[str, AgentConfig] = {}

    # -- from the beginning to the end --------------------------------------------------------------------------------

    async def play(self) -> dict[str, Any]:
        """Run the program and return its result.

        Raises:
            Exception: The failure of the program, or its replacement by a mixin.
            ReplayMismatch: If the program does something else than the journal says.
        """
        _PLAYING.set(self)
        try:
            output = await self._performed()
        except BaseException as error:
            await self._clear_up(error)
            raise
        await self._clear_up()
        return output

    async def _performed(self) -> dict[str, Any]:
        """The result of the program after its mixins; a failure goes through them too."""
        try:
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

    async def _clear_up(self, failed: BaseException | None = None) -> None:
        """Tear down. A failure here counts only if nothing had *failed* before."""
        self.replies.close()
        try:
            await self.topology.teardown()
        except Exception as error:
            if failed is None:
                raise
            failed.add_note(f"tearing it down then raised {type(error).__name__}: {error}")

    async def _run(self) -> dict[str, Any]:
        """The result of the program, once it has repeated every recorded call.

        Raises:
            ReplayMismatch: If it has not, whatever the program did with that error.
        """
        try:
            running = self.topology._run(self.context)
            if not isawaitable(running):
                raise PatternRefused(f"{type(self.topology).__name__}._run must be written with `async def`")
            output = await running
        finally:
            if self._mismatch is not None:
                raise self._mismatch
        for turn, call in self.engine.calls.items():
            if turn not in self.replies.asked and call.agent != self._human:
                raise self.other(call, "the program ended without this call")
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
                await mixin.on_destroy()
            except Exception as error:  # the others have something to clear up, too
                errors.append(error)
        if errors:
            raise errors[0]

    def _all_mixins(self) -> list[BaseMixin]:
        return [mixin for mixins in list(self.mixins.values()) for mixin in mixins]

    def other(self, record: r.Record, wanted: str) -> ReplayMismatch:
        """The error for a program that does not repeat *record*."""
        found = f"{record.turn} asked" if isinstance(record, r.CallAsked) else "another message"
        hint = (
            "the program changed, or does not make the same calls every time: run the original program, or start anew"
        )
        self._mismatch = ReplayMismatch(self.run, record.seq, found, wanted, hint)
        return self._mismatch

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
        turn, hash = turn_id(slot, self._count(slot)), digest(request)
        if not self._is_known(turn, hash):
            state = None
            if self.mixins[slot]:
                request, state = await self._invoked(slot, request)
            outcome = await self._outcome(
                turn, r.CallAsked(turn=turn, agent=slot, hash=hash, request=request, state=state)
            )
        else:
            outcome = await self._outcome(turn)
        instance = self.instances[slot]
        instance.__dict__["last_active"] = datetime.fromtimestamp(outcome.at, UTC)
        took = int((outcome.at - self.engine.calls[turn].at) * 1000)
        return result_of(outcome, instance.id, took)

    async def _invoked(self, slot: str, request: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any] | None]:
        """*request* after the mixins of *slot*; and the state of their agent, if it changed."""
        mixins, instance = self.mixins[slot], self.instances[slot]
        before = image(instance.state)
        if self.topology.tools and any(mixin.name == "tool_use" for mixin in mixins):
            request["tools"] = described(self.topology.tools)
        for mixin in mixins:
            request = plain_object(await mixin.on_invoke(request), f"what on_invoke of {mixin.name!r} gave")
        state = plain_object(instance.state, "the state")
        return request, state if image(state) != before else None

    async def ask_team(self, name: str, given: dict[str, Any]) -> Outcome:
        """The outcome of the team *name*, which runs as a child run."""
        given = plain_object(given, f"the input of {name}")
        turn, hash = turn_id(name, self._count(name)), digest(given)
        known = self._is_known(turn, hash)
        return await self._outcome(turn, None if known else r.CallAsked(turn=turn, agent=name, hash=hash, given=given))

    def _is_known(self, turn: str, hash: str) -> bool:
        """Whether this call was made before; if so, it must be the same."""
        call = self.engine.calls.get(turn)
        if call is not None and call.hash != hash:
            raise self.other(call, "another request")
        return call is not None

    async def _outcome(self, turn: str, asked: r.CallAsked | None = None) -> Outcome:
        """The outcome of the call *turn*; with *asked* the call is made now."""
        outcome = self.replies.of(turn)
        try:
            if asked is not None:
                self.around.ask(self.run, asked, outcome.cancel)
            return await outcome
        except asyncio.CancelledError:
            self.around.drop(self.run, turn)
            raise

    def config(self, slot: str) -> AgentConfig:
        """The configuration of the agent at *slot*.

        Raises:
            PatternRefused: If the slot is unknown.
        """
        config = self._configs.get(slot)
        if config is None:
            raise PatternRefused(f"unknown slot {slot!r}; known are {', '.join(self._configs) or 'none'}")
        return config

    # -- answers ------------------------------------------------------------------------------------------------------

    def appended(self, outcome: Outcome) -> None:
        """Take an outcome that is appended but may still be lost in a crash."""
        self._news.append(outcome)
        if self.is_pure:
            self._tell(outcome.seq)

    def durable(self, outcome: Outcome) -> None:
        """Take an outcome that is durable."""
        is_human = self.engine.calls[outcome.turn].agent == self._human
        if is_human and not (said := self._human_says(outcome.turn)).done():
            said.set_result(outcome)
        self._tell(outcome.seq)

    def _tell(self, upto: int) -> None:
        while self._news and self._news[0].seq <= upto:
            outcome = self._news.popleft()
            if self.engine.calls[outcome.turn].agent != self._human:
                self.replies.came(outcome)

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
            models=self.around.models,
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
            changed = r.StateChanged(agent=slot, turn=call.turn, state=plain_object(state, "the state"))
            await self.around.write(self.run, lambda: changed)
        return response

    async def _ask_human(self, turn: str, question: str, n: int) -> str:
        hash = digest(turn, question, n)
        known = next((one.turn for one in self.engine.calls.values() if one.hash == hash), None)
        if known is None:
            request = {"messages": [{"role": "user", "content": question}]}
            record = await self.around.write(
                self.run,
                lambda: r.CallAsked(
                    turn=turn_id(HUMAN, 1 + sum(one.agent == HUMAN for one in self.engine.calls.values())),
                    agent=HUMAN,
                    hash=hash,
                    request=request,
                ),
            )
            known = record.turn
        match await asyncio.shield(self._human_says(known)):
            case r.TurnFinished(text=text):
                return text
            case r.TurnFailed(reason=reason) | r.TurnCancelled(reason=reason):
                return f"no: {reason}"

    def _human_says(self, turn: str) -> "asyncio.Future[Outcome]":
        return self._said.setdefault(turn, self.loop.create_future())


def playing() -> ProgramRun | None:
    """The run whose program is executing here."""
    return _PLAYING.get()
