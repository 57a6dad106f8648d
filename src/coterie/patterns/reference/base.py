"""Topologies as classes: a subclass says in `_run` who is asked what, and the run is journalled, killed and resumed.

One object can be executed as often as one likes, at once, too: what belongs to one execution is kept with that.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from uuid import UUID

from pydantic import BaseModel, ValidationError
from sqlmodel import SQLModel

from coterie.clock import Clock
from coterie.engines.program import Outcome
from coterie.errors import PatternRefused
from coterie.patterns.reference.calling import Tool
from coterie.patterns.reference.invocation import AgentInvocationResult, ExecutionContext
from coterie.patterns.reference.mixins.base import BaseMixin
from coterie.patterns.reference.models import ask_model
from coterie.patterns.reference.program_run import ProgramRun, load_mixins, playing
from coterie.patterns.rows.configs import AgentConfig, accept
from coterie.patterns.rows.enums import MessageType, TopologyType
from coterie.patterns.rows.kinds import refused
from coterie.patterns.rows.models import AgentInstance, AgentType, Execution, Message, Result, Topology
from coterie.planning.plan import Limits

if TYPE_CHECKING:
    from coterie.backends.human import AskHuman

STATE_DIR = ".coterie"

_ANSWERS = ("topology_type", "config_class", "tools", "_call_llm")
"""What a subclass may say of itself, and it still does nothing outside but where it answers."""


class BaseTopology(ABC):
    """A collaboration of agents, written as code.

        @topology
        class Duo(BaseTopology):
            topology_type = TopologyType.PIPELINE
            config_class = PipelineConfig

            async def _run(self, context):
                draft = await self.invoke_agent("writer", [{"role": "user", "content": "…"}], context)
                ...
                return {"text": draft.text}

    `_run` must ask the same given the same input and the same answers, whenever it is run: a run that was killed is
    carried on by running it again, with what was answered before answered from the journal. It may use asyncio as it
    likes.

    Args:
        topology: What its user defines.
        agents: Who fills which slot, in order.
        db_session: Where the definitions are kept. Rows of executions are written behind the run, on connections of
            their own to the same database. None: there are no rows.

    Attributes:
        tools: What agents with the capability `tool_use` may use: functions, by name.
        pure: Say that the code of the class does nothing outside but by its calls, messages and results: that it writes
            no file and asks no service. `_call_llm` and `tools`, which answer calls, may. A program hears of an answer
            when no crash can take it back, for what it does outside must not follow from an answer that another one
            replaces; a pure one hears of it at once, so its next call is durable with the answer: one sync a call, not
            two. Ours are pure. What a subclass adds makes it impure again, until it says otherwise.

    Raises:
        PatternRefused: If the configuration does not fit, something else than an agent fills a slot, or the class does
            not say its `topology_type` and `config_class`.
    """

    topology_type: ClassVar[TopologyType]
    config_class: ClassVar[type[SQLModel]]
    tools: Mapping[str, Tool] = {}
    pure: ClassVar[bool] = False

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        own = vars(cls)
        if "pure" not in own and any(name not in _ANSWERS and not name.startswith("__") for name in own):
            cls.pure = False
        if "topology_type" in own and "config_class" in own:
            check_class(cls)
            accept(own["topology_type"], own["config_class"])

    def __init__(self, topology: Topology, agents: Mapping[str, AgentType], db_session: Any = None) -> None:
        if not isinstance(topology, Topology):
            raise PatternRefused(f"a Topology says what is made, not {type(topology).__name__}")
        if not isinstance(agents, Mapping):
            raise PatternRefused(f"agents are given by their slots, as a dictionary, not as {type(agents).__name__}")
        for slot, agent in agents.items():
            if not isinstance(slot, str) or not slot.strip() or not slot.isprintable():
                raise PatternRefused(f"a slot has a text of one line for a name, not {slot!r}")
            if not isinstance(agent, AgentType):
                raise PatternRefused(f"slot {slot!r} is filled by an AgentType, not by {type(agent).__name__}")
        check_class(type(self))
        self.topology = topology
        self.agents = dict(agents)
        self.db_session = db_session
        self._overrides: dict[str, dict[str, Any]] = {}
        self._last: ProgramRun | None = None
        self._config = self._parse_config()

    def _parse_config(self) -> SQLModel:
        try:
            return self.config_class(**self.topology.config)
        except ValidationError as error:
            raise refused(f"the configuration of {self.topology.name!r}", error) from error

    # -- life ---------------------------------------------------------------------------------------------------------

    async def setup(self) -> None:
        """Make an instance for each slot, with its mixins. An override calls this one."""
        await self._program_run().begin()

    async def _load_mixins(self, agent_type: AgentType, instance: AgentInstance) -> list[BaseMixin]:
        """The mixins of an agent, each behind those that it needs."""
        return await load_mixins(agent_type, instance)

    async def teardown(self) -> None:
        """Clean up when the execution is over, however it ended. An override calls this one."""
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
        """Run it for *input_data*, and return how that went.

        The run is a run like any other: its journal lies under *state_dir*, `coterie inspect` shows it, and when it was
        killed `resume` carries it on.

        Args:
            correlation_id: What the caller calls it.
            durable: Keep a journal on disk; otherwise it lasts as long as the process.
            limits: What the run may spend, teams that it asks included.
            human: Asks a human at a terminal; without it the inbox of the run answers.

        Returns:
            The execution, loaded and attached to no session: completed, or paused when a limit stopped it.

        Raises:
            PatternRefused: If slots, settings or input are wrong; nobody was asked.
            Exception: What `_run` raised. The execution is then kept as failed, or as cancelled.
        """
        from coterie.patterns.reference.executing import Options, execute

        options = Options(state_dir=Path(state_dir), durable=durable, limits=limits, human=human, clock=clock)
        return await execute(self, input_data, correlation_id, options)

    async def resume(
        self,
        execution_id: UUID | str,
        *,
        state_dir: str | Path = STATE_DIR,
        limits: Limits | None = None,
        human: "AskHuman | None" = None,
        clock: Clock | None = None,
    ) -> Execution:
        """Carry an execution on that was killed, interrupted or stopped; see `execute`.

        Nobody is asked again what they have answered.

        Args:
            execution_id: Of the execution, or of its run.

        Raises:
            NoSuchRun, RunIsOwned, RunIsFinished: If it cannot be carried on.
            ReplayMismatch: If the program now asks something else than it did. The run stays as it is.
        """
        from coterie.patterns.reference.executing import Options, resume

        options = Options(state_dir=Path(state_dir), limits=limits, human=human, clock=clock)
        return await resume(self, execution_id, options)

    @abstractmethod
    async def _run(self, context: ExecutionContext) -> dict[str, Any]:
        """What the collaboration does; the dictionary it returns is the output of the execution."""

    # -- agents -------------------------------------------------------------------------------------------------------

    async def invoke_agent(
        self, slot_name: str, messages: Sequence[Mapping[str, Any]], context: ExecutionContext
    ) -> AgentInvocationResult:
        """Ask who fills *slot_name*, hooks of its mixins included.

        It is tried as often as the agent's `max_retries` says, each time for `timeout_seconds` at most. That it failed
        in the end is told in the result's `error`.

        Raises:
            PatternRefused: If there is no such slot.
            ReplayMismatch: If this call was another one before the run was resumed.
        """
        return await self._program_run().invoke(slot_name, messages)

    async def invoke_team(self, name: str, given: dict[str, Any], context: ExecutionContext) -> Outcome:
        """Ask the team *name* of `teams`, as a run of its own below this one; what came of it, a failure too.

        So it is resumed with this run. Its `execute`, called from `_run`, would be a run apart, begun anew by a resume.

        Raises:
            PatternRefused: If there is no such team.
        """
        if self.team(name) is None:
            raise PatternRefused(f"there is no team {name!r}; there are {', '.join(self.teams()) or 'none'}")
        return await self._program_run().ask_team(name, given)

    def team(self, name: str) -> "BaseTopology | None":
        """The team that answers to *name*; None when that is an agent."""
        return self.teams().get(name)

    def teams(self) -> "Mapping[str, BaseTopology]":
        """The teams that it may ask with `invoke_team`, by name; the same whenever it is asked."""
        return {}

    async def _call_llm(self, request: dict[str, Any]) -> dict[str, Any]:
        """Ask the model for *request* (`model`, `messages`, `max_tokens`, `temperature`, perhaps `tools`).

        A response is a dictionary of JSON values with `content`, and perhaps `usage`, `tool_calls` and `_confidence`.
        This one asks the provider of the model (the extra `models`); an override may ask anybody. `current_call()` says
        which call it is for. Whatever it raises fails the attempt; `CallFailed` says how.
        """
        return await ask_model(request)

    # -- messages and results -----------------------------------------------------------------------------------------

    async def send_message(
        self,
        sender_slot: str,
        recipient_slot: str | None,
        message_type: MessageType,
        content: dict[str, Any],
        context: ExecutionContext,
    ) -> Message:
        """Write down that one agent told another, or everybody, something."""
        program_run = self._program_run()
        return await program_run.traces.send(sender_slot, recipient_slot, message_type, content, context.round_number)

    async def broadcast_message(
        self,
        sender_slot: str,
        message_type: MessageType,
        content: dict[str, Any],
        context: ExecutionContext,
        exclude: list[str] | None = None,
    ) -> list[Message]:
        """Write down that one agent told all others but *exclude* something: one message each."""
        told = [slot for slot in self._instances if slot != sender_slot and slot not in (exclude or [])]
        return [await self.send_message(sender_slot, slot, message_type, content, context) for slot in told]

    async def record_result(self, invocation: AgentInvocationResult, context: ExecutionContext) -> Result:
        """Keep an agent's result; what `invoke_agent` gave is kept already, and only told here."""
        return await self._program_run().traces.record(invocation)

    # -- what it is ---------------------------------------------------------------------------------------------------

    def as_member(self, slot: str, agent: AgentType) -> AgentType:
        """*agent* with what is set differently for *slot* of this topology."""
        own = self._overrides.get(slot)
        return agent if not own else AgentType(**{**agent.model_dump(), "config": {**agent.config, **own}})

    def retries(self, config: AgentConfig) -> int:
        """How often a call of the agent that *config* sets is tried again."""
        return config.max_retries

    def attempts(self) -> int | None:
        """How often a call is tried in all, however it fails; None: as its agent and the kind of failure say."""
        return None

    def as_result(self, output: dict[str, Any]) -> dict[str, Any]:
        """*output* as the run keeps it: its text, and everything."""
        from coterie.patterns.reference.plain import text_of

        return {"text": text_of(output), "outputs": {TopologyType(self.topology_type).value: output}}

    def output_of(self, result: Any) -> dict[str, Any]:
        """The output that `as_result` put into *result*."""
        output: dict[str, Any] = result["outputs"][TopologyType(self.topology_type).value]
        return output

    @property
    def _instances(self) -> dict[str, AgentInstance]:
        """The instances of the execution that this code runs in; elsewhere, those of the last one."""
        program_run = self._here()
        return program_run.instances if program_run is not None else {}

    @property
    def _mixins(self) -> dict[str, list[BaseMixin]]:
        """The mixins of the execution that this code runs in; elsewhere, those of the last one."""
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


def check_class(topology_class: type[BaseTopology]) -> None:
    """See that *topology_class* says what it runs.

    Raises:
        PatternRefused: If it does not.
    """
    if not isinstance(topology_class, type) or not issubclass(topology_class, BaseTopology):
        raise PatternRefused(f"what runs topologies is a subclass of BaseTopology, not {topology_class!r}")
    name, said = topology_class.__name__, getattr(topology_class, "topology_type", None)
    if said not in [known.value for known in TopologyType]:
        raise PatternRefused(f"{name}.topology_type is one of {', '.join(TopologyType)}, not {said!r}")
    config = getattr(topology_class, "config_class", None)
    if not isinstance(config, type) or not issubclass(config, BaseModel):
        raise PatternRefused(f"{name}.config_class is a class of settings, PipelineConfig for example, not {config!r}")
