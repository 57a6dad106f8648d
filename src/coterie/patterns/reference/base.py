"""Topologies as classes: a subclass implements the collaboration in `_run`, and the run is journalled and resumable.

One object can be executed any number of times, also concurrently: state belongs to an execution.
"""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

from coterie.base.clock import Clock
from coterie.errors import PatternRefused
from coterie.history.engines.program import Outcome
from coterie.patterns.reference import execution
from coterie.patterns.reference.collaboration import Collaboration
from coterie.patterns.reference.invocation import AgentInvocationResult, ExecutionContext
from coterie.patterns.reference.mixins.base import BaseMixin
from coterie.patterns.reference.mixins.registry import load_mixins
from coterie.patterns.reference.program_run import ProgramRun, playing
from coterie.patterns.rows.enums import MessageType
from coterie.patterns.rows.models import AgentInstance, AgentType, Execution, Message, Result
from coterie.team.planning.plan import Limits

if TYPE_CHECKING:
    from coterie.agents.backends.human import AskHuman

STATE_DIR = ".coterie"


class BaseTopology(Collaboration):
    """A collaboration of agents, written as code.

        @topology
        class Duo(BaseTopology):
            topology_type = TopologyType.PIPELINE
            config_class = PipelineConfig

            async def _run(self, context):
                draft = await self.invoke_agent("writer", [{"role": "user", "content": "…"}], context)
                ...
                return {"text": draft.text}

    `_run` must make the same calls whenever it runs with the same input and the same answers: a killed run is resumed
    by running it again, with earlier answers taken from the journal. It may use asyncio freely.

    Args:
        topology: The user's definition.
        agents: The agents by slot, in order.
        db_session: Where definitions are stored. Rows of executions are written while the run goes on, on separate
            connections to the same database. None: no rows.

    Attributes:
        tools: The functions that agents with the capability `tool_use` may use, by name.
        pure: Declares that the code of the class has no effects outside except through its calls, messages and results:
            it writes no file and calls no service. `_call_llm` and `tools`, which answer calls, may. A program receives
            an answer once no crash can revoke it, because an effect outside must not follow from an answer that is
            later replaced. A pure program receives it at once, so its next call is synced together with the answer: one
            sync a call, not two. The built-in classes are pure. A subclass that adds code is not pure unless it says
            so.

    Raises:
        PatternRefused: If the configuration does not fit, a slot is not filled by an agent, or the class does not
            define `topology_type` and `config_class`.
    """

    _last: ProgramRun | None = None

    # -- life ---------------------------------------------------------------------------------------------------------

    async def setup(self) -> None:
        """Create an instance for each slot, with its mixins. An override must call this method."""
        self._last = program_run = self._program_run()
        await program_run.begin()

    async def _load_mixins(self, agent_type: AgentType, instance: AgentInstance) -> list[BaseMixin]:
        """The mixins of an agent, each after those it depends on."""
        return await load_mixins(agent_type, instance)

    async def teardown(self) -> None:
        """Clean up after the execution, whatever its outcome. An override must call this method."""
        await self._program_run().end()

    async def execute(
        self,
        input_data: dict[str, Any],
        correlation_id: str | None = None,
        *,
        state_dir: str | Path = STATE_DIR,
        durable: bool = True,
        limits: Limits | None = None,
        human: "AskHuman | None" = None,
        clock: Clock | None = None,
    ) -> Execution:
        """Run the topology for *input_data*, and return the execution.

        It is an ordinary run: its journal is under *state_dir*, `coterie inspect` shows it, and after a kill `resume`
        continues it.

        Args:
            correlation_id: The caller's own id.
            durable: Keep a journal on disk; otherwise only in memory.
            limits: Limits of the run, teams included.
            human: Asks a human at a terminal; without it the inbox of the run answers.

        Returns:
            The execution, loaded and detached from any session: completed, or paused when a limit stopped it.

        Raises:
            PatternRefused: If slots, settings or input are wrong; no agent was called.
            Exception: The exception of `_run`. The execution is then stored as failed, or as cancelled.
        """
        options = execution.Options(state_dir=Path(state_dir), durable=durable, limits=limits, human=human, clock=clock)
        return await execution.execute(self, input_data, correlation_id, options)

    async def resume(
        self,
        execution_id: UUID | str,
        *,
        state_dir: str | Path = STATE_DIR,
        limits: Limits | None = None,
        human: "AskHuman | None" = None,
        clock: Clock | None = None,
    ) -> Execution:
        """Continue an execution that was killed, interrupted or stopped; see `execute`.

        No call with a recorded answer is repeated.

        Args:
            execution_id: Of the execution, or of its run.

        Raises:
            NoSuchRun, RunIsOwned, RunIsFinished: If it cannot be continued.
            ReplayMismatch: If the program makes other calls than before. The run is left unchanged.
        """
        options = execution.Options(state_dir=Path(state_dir), limits=limits, human=human, clock=clock)
        return await execution.resume(self, execution_id, options)

    # -- agents -------------------------------------------------------------------------------------------------------

    async def invoke_agent(
        self, slot_name: str, messages: Sequence[Mapping[str, Any]], context: ExecutionContext
    ) -> AgentInvocationResult:
        """Call the agent at *slot_name*, with the hooks of its mixins.

        After a failure it is tried again as often as the agent's `max_retries` says, after a transient one up to three
        times besides; each attempt takes at most `timeout_seconds`. A final failure is in the result's `error`.

        Raises:
            PatternRefused: If the slot is unknown.
            ReplayMismatch: If this call differs from the one before the run was resumed.
        """
        return await self._program_run().invoke(slot_name, messages)

    async def invoke_team(self, name: str, given: dict[str, Any], context: ExecutionContext) -> Outcome:
        """Run the team *name* of `teams` as a child run, and return its outcome, also a failure.

        So it is resumed with this run. Its `execute`, called from `_run`, would be a separate run that a resume starts
        again.

        Raises:
            PatternRefused: If the team is unknown.
        """
        if self.team(name) is None:
            raise PatternRefused(f"unknown team {name!r}; known are {', '.join(self.teams()) or 'none'}")
        return await self._program_run().ask_team(name, given)

    # -- messages and results -----------------------------------------------------------------------------------------

    async def send_message(
        self,
        sender_slot: str,
        recipient_slot: str | None,
        message_type: MessageType,
        content: dict[str, Any],
        context: ExecutionContext,
    ) -> Message:
        """Record a message from one agent to another, or to all."""
        program_run = self._program_run()
        return await program_run.send(sender_slot, recipient_slot, message_type, content, context.round_number)

    async def broadcast_message(
        self,
        sender_slot: str,
        message_type: MessageType,
        content: dict[str, Any],
        context: ExecutionContext,
        exclude: list[str] | None = None,
    ) -> list[Message]:
        """Record a message from one agent to all others except *exclude*: one message each."""
        told = [slot for slot in self._instances if slot != sender_slot and slot not in (exclude or [])]
        return [await self.send_message(sender_slot, slot, message_type, content, context) for slot in told]

    async def record_result(self, invocation: AgentInvocationResult, context: ExecutionContext) -> Result:
        """Record an agent's result; a result of `invoke_agent` is recorded already and only returned as a row."""
        return await self._program_run().record(invocation)

    @property
    def _instances(self) -> dict[str, AgentInstance]:
        """The instances of the execution that this code runs in; outside, those of the last one."""
        program_run = self._here()
        return program_run.instances if program_run is not None else {}

    @property
    def _mixins(self) -> dict[str, list[BaseMixin]]:
        """The mixins of the execution that this code runs in; outside, those of the last one."""
        program_run = self._here()
        return program_run.mixins if program_run is not None else {}

    def _here(self) -> ProgramRun | None:
        program_run = playing()
        return program_run if program_run is not None and program_run.topology is self else self._last

    def _program_run(self) -> ProgramRun:
        program_run = playing()
        if program_run is None or program_run.topology is not self:
            raise PatternRefused(f"{type(self).__name__} does not run here: call this from `_run`, within execute()")
        if program_run.loop is not asyncio.get_running_loop():
            raise PatternRefused(
                f"{type(self).__name__} runs in another event loop: from a thread, hand the call over with "
                "asyncio.run_coroutine_threadsafe"
            )
        return program_run
