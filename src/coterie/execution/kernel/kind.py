"""The behaviour of a run that depends on its kind of coordination: one object per kind, which
`coterie.execution.kernel` calls.

Core, shell, fold, inbox and prompts hold a `Kind` and do not know which one. The defaults suit a run whose engine needs
nothing but its agents; a kind overrides what differs.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, ClassVar, Protocol

from coterie.agents.backends.secrets import Secrets
from coterie.base.clock import Clock
from coterie.base.diagnostics import error
from coterie.errors import TopologyError
from coterie.execution.kernel import prompts
from coterie.execution.kernel.commands import Part, Turn
from coterie.execution.kernel.core import Core
from coterie.execution.kernel.fold import Fold
from coterie.execution.kernel.project import Project
from coterie.execution.kernel.turns import AttemptEvents, Turns
from coterie.history.engines.commands import Engine
from coterie.history.journal.records import Record, RunFinished, TurnFinished
from coterie.team.planning.plan import AgentPlan, Plan


class Sidecar(Protocol):
    """A component that lives beside one run and acts in it, such as the actors of a system."""

    def observe(self, run: str, record: Record) -> None:
        """Handle a durable record of its run or of a child run."""

    def stop(self) -> bool:
        """Shut down in order, which completes the run. False: the run must be interrupted instead."""

    async def close(self) -> None:
        """Shut down at once, and wait until that is done. Idempotent."""


class RunServices(Protocol):
    """The services that the owner of *run* provides to its sidecar.

    Attributes:
        turns: Starts the attempts of the run.
        core: The run; only posted events may write to it.
        events: The events of its running attempts.
    """

    run: str
    turns: Turns
    clock: Clock
    core: Core
    events: AttemptEvents

    @property
    def secrets(self) -> Secrets:
        """The secrets that are redacted in everything that enters the run."""

    @property
    def held(self) -> Mapping[str, str]:
        """Secret values that the plan refers to; see `coterie.execution.kernel.plan_secrets`."""

    def read(self) -> Iterator[Record]:
        """The records in the store of the run."""

    def post(self, event: Callable[[], object], refuse: Callable[[], object] | None = None) -> None:
        """Queue *event*; if the run has ended by then or is about to, *refuse* is called instead."""

    def write(self, record: Record, source: str = "harness") -> Record:
        """Append *record* to the run. Call this only while an event is handled."""

    def finish(self, finished: RunFinished, reason: str, source: str = "harness") -> None:
        """Cancel every open turn of the run for *reason*, then end the run with *finished*."""

    def expect(self) -> None:
        """Keep the run alive even if nothing in it runs, until `arrived` is called."""

    def arrived(self) -> None:
        """Undo one `expect`: the run may end again when nothing in it runs."""


class Kind:
    """The behaviour of one run that depends on its kind of coordination.

    This base class is the kind of a team without coordination: nothing decides which agent runs, so it has no engine.

    Args:
        plan: The plan that the run begins with.

    Attributes:
        prover: The function that proves its plans, as `module:function`, imported only when a plan is proved; empty:
            nothing can be proved.
        decides_elsewhere: Who decides in its runs if not their engine, for people.
        stops_in_order: Whether an interrupt is the normal end of its runs.
        project: What differs in runs that go on for long; see `coterie.execution.kernel.project`.
        turns_kept: How many finished turns stay in memory, the latest ones; None: all of them.
        has_randomness: Whether its engine draws random numbers, from a seed in the first record.
    """

    prover: ClassVar[str] = ""
    has_randomness: bool = False
    stops_in_order: ClassVar[bool] = False
    decides_elsewhere: ClassVar[str] = ""
    project: Project = Project()
    turns_kept: int | None = None

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def close(self) -> None:
        """End what the engine keeps open: nothing is decided from now on. Idempotent."""

    # -- before a run -------------------------------------------------------------------------------------------------

    def make_engine(self) -> tuple[Engine, Mapping[str, AgentPlan]]:
        """Make a new engine; return it with the agents that it may ask, by name.

        Raises:
            TopologyError: If nothing in the plan decides which agent runs.
        """
        message = f"topology {self.plan.name!r} has no flow, so no agent can run"
        raise TopologyError([error("no-flow", message)])

    @cached_property
    def _made(self) -> tuple[Engine, Mapping[str, AgentPlan]]:
        return self.make_engine()

    @cached_property
    def engine(self) -> Engine:
        """The engine of this run."""
        return self._made[0]

    @cached_property
    def agents(self) -> Mapping[str, AgentPlan]:
        """Agents that the engine may ask, by name."""
        return self._made[1]

    def asked(self) -> Iterable[str]:
        """The names of the plan's agents that need a backend before the run begins."""
        return ()

    def check_input(self, given: Mapping[str, Any]) -> None:
        """Check the input of a new run.

        Raises:
            UsageError: If something is missing.
        """

    def input_below(self, given: dict[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
        """The input of a new child run: *given* by its parent, whose own input is *above*."""
        return given

    def check_resume(self, run: str) -> None:
        """Check that a command can resume *run* with the backends of this process.

        Raises:
            UsageError: If only the program that started it can.
        """

    def sidecar(self, services: RunServices) -> Sidecar | None:
        """Start the component that lives beside the run; None: there is none."""
        return None

    # -- a turn -------------------------------------------------------------------------------------------------------

    def outside(self, fold: Fold, turn: Turn) -> tuple[str, ...]:
        """The names of the parts of a prompt that are not in the journal; see `TurnStarted.used`."""
        agent = fold.agents.get(turn.ask.role)
        if agent is None or not agent.reads or turn.ask.prompt is not None:
            return ()  # results of agents are in the journal
        return prompts.files_named([name for name in agent.reads if name not in fold.latest])

    def prompt(self, fold: Fold, turn: Turn) -> list[Part]:
        """The parts of a prompt that the engine did not write."""
        return prompts.question(fold, turn)

    def additions(self, fold: Fold, turn: Turn) -> list[Part]:
        """The parts to add to a prompt that the engine wrote."""
        return []

    def context(self, fold: Fold, turn: Turn) -> dict[str, Any]:
        """The prompt as data, for programs."""
        return prompts.as_data(fold, turn)

    def retained(self, result: TurnFinished) -> TurnFinished:
        """The part of *result* that stays in memory once its turn has ended."""
        return result

    def quoted(self, fold: Fold) -> Collection[str]:
        """The turns and sets whose results later prompts may show, besides the latest of each agent."""
        return ()

    def notices(self) -> Iterable[str]:
        """What people should know of the run, once it has ended."""
        return ()

    def may_merge(self, turn: str) -> bool:
        """Whether the work of *turn* may be merged now, rather than after that of others."""
        return True

    # -- a rehearsal --------------------------------------------------------------------------------------------------

    def mentions(self) -> Iterable[str]:
        """The agents for which a rehearsal reports whether they ever ran."""
        return ()

    def end_facts(self, turn: str) -> dict[str, Any]:
        """Facts that a rehearsal reports at the end of *turn*, in addition to those of every turn."""
        return {}


MakeKind = Callable[[Plan], Kind]
"""Makes a new kind for one run of a plan."""
