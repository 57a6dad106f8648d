"""What differs between kinds of coordination in a run: one object per kind, which `coterie.kernel` calls.

Core, shell, fold, inbox and prompts hold a `Kind` and do not know which one. The defaults are those of a run whose
engine needs nothing but its agents; a kind overrides what differs.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import field
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Protocol

from coterie.backends.secrets import Secrets
from coterie.clock import Clock
from coterie.diagnostics import error
from coterie.engines.commands import Emit, Engine, Reply
from coterie.errors import TopologyError
from coterie.file_fingerprint import FileFingerprint
from coterie.ids import folder_name
from coterie.journal.base import Reader
from coterie.journal.records import (
    AttemptFailed,
    AttemptLaunched,
    ConfigAnswer,
    ConfigChanged,
    ConfigHeld,
    ConfigKept,
    GateChecked,
    OperatorSaid,
    PlanReloaded,
    Record,
    RunFinished,
    TurnFinished,
)
from coterie.kernel import prompts
from coterie.kernel.attempt_events import AttemptEvents
from coterie.kernel.attempt_files import KeptPrompts
from coterie.kernel.commands import Part, Turn
from coterie.kernel.core import Core
from coterie.kernel.fold import Fold
from coterie.kernel.turns import Turns
from coterie.planning.place import RunPlace
from coterie.planning.plan import AgentPlan, Plan
from coterie.planning.protection import Held
from coterie.values import dataclass
from coterie.workspace.notes import Notes, NoteSettings

Observe = Callable[[str, Record], None]
"""Called with the id of a run and each record of it, in order, once it is durable."""


@dataclass(slots=True)
class LastReading:
    """What is remembered of the last time that the files of a plan were read.

    Attributes:
        files: Their state then.
        held: What was held back; None before the first reading.
        warnings: The warnings about them, without their lines, which any edit moves; None before the first reading.
    """

    files: FileFingerprint = field(default_factory=FileFingerprint)
    warnings: Collection[tuple[str, str, str]] | None = None
    held: tuple[Held, ...] | None = None


class Trust(NamedTuple):
    """What the records of a run say of those that could change its files.

    Attributes:
        confined: Whether no process of an attempt could.
        held: What was last held back, and *taken* what a person has taken of such things.
        changed: The settings that a person has changed by command since the files were last read.
    """

    confined: bool = False
    held: tuple[Held, ...] = ()
    taken: frozenset[Held] = frozenset()
    changed: frozenset[str] = frozenset()


def trust_of(run: str, records: Iterable[tuple[str, Record]]) -> Trust:
    """What *records*, of the root *run* and its child runs, say."""
    confined, held, taken, changed = True, tuple[Held, ...](), frozenset[Held](), frozenset[str]()
    for which, record in records:
        match record:
            case AttemptLaunched():
                confined &= record.confined
            case ConfigChanged() if which == run:
                held, changed = record.held if isinstance(record, ConfigHeld) else (), frozenset()
            case ConfigKept() if which == run:
                changed = frozenset()
            case PlanReloaded() if which == run:
                held = ()
            case OperatorSaid(what="take"):
                taken |= set(held)
            case OperatorSaid(what="change"):
                changed |= {record.text}
            case OperatorSaid(what="project"):
                changed |= {"backend.allow"}
    return Trust(confined, held, taken, changed)


class Sidecar(Protocol):
    """What lives beside one run and acts in it, such as the actors of a system."""

    def observe(self, run: str, record: Record) -> None:
        """Take a durable record of its run or of a child run below."""

    def stop(self) -> bool:
        """End in order, which completes the run. False: the run is to be interrupted instead."""

    async def close(self) -> None:
        """End at once, and wait for that. Idempotent."""


class RunServices(Protocol):
    """What the owner of *run* does for its sidecar.

    Attributes:
        turns: Starts the attempts of the run.
        core: The run; it is written only in what is posted.
        events: What its attempts do while they run.
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
        """Values that the plan refers to; see `coterie.kernel.plan_secrets`."""

    def read(self) -> Iterator[Record]:
        """The records that the store of the run has."""

    def post(self, event: Callable[[], object], refuse: Callable[[], object] = str) -> None:
        """Have *event* handled in its turn, or *refuse* if the run has ended by then or is about to."""

    def write(self, record: Record, source: str = "harness") -> Record:
        """Append *record* to the run; only while an event is handled."""

    def finish(self, finished: RunFinished, reason: str, source: str = "harness") -> None:
        """Have every turn of the run that has not ended cancelled for *reason*, and then the run ended."""

    def expect(self) -> None:
        """Have the run kept while nothing in it runs, until `arrived` is called."""

    def arrived(self) -> None:
        """No longer have the run kept."""


class Kind:
    """The part of one run's behaviour that depends on what coordinates it; made for one run.

    This class itself is the kind of a team without coordination: nothing decides which agent runs, so it has no engine.

    Args:
        plan: The plan that the run begins with.

    Attributes:
        prover: The function that proves its plans, as `module:function`, imported only when a plan is proved; empty:
            nothing can be proved of them.
        keeps_guidance: Whether the engine keeps an operator's guidance and puts it into prompts itself.
        keeps_prompts: Whether each prompt is kept in a file, because what it was made of may change.
        keeps_child_plans: Whether the journal of a child run holds its plan, because this run's plan may change.
        may_gain_humans: Whether a plan that is read again may add humans.
        limits_time: Whether its runs may have a limit of time (`seconds_left`).
        decides_elsewhere: Who decides in its runs, if not their engine, in words.
        stops_in_order: Whether an interrupt is the normal end of its runs.
        waits_for_tasks: Whether open tasks may keep a run from completing (`needs_open_tasks`).
    """

    prover: ClassVar[str] = ""
    keeps_guidance: ClassVar[bool] = False
    keeps_prompts: ClassVar[bool] = False
    keeps_child_plans: ClassVar[bool] = False
    may_gain_humans: ClassVar[bool] = False
    limits_time: ClassVar[bool] = False
    waits_for_tasks: ClassVar[bool] = False
    stops_in_order: ClassVar[bool] = False
    decides_elsewhere: ClassVar[str] = ""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    # -- before a run -------------------------------------------------------------------------------------------------

    def make_engine(self) -> tuple[Engine, Mapping[str, AgentPlan]]:
        """A fresh engine, and the agents that it may ask, by name.

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
        """The agents that the engine may ask, by name."""
        return self._made[1]

    def asked(self) -> Iterable[str]:
        """Names of the plan's agents that need a backend before the run begins."""
        return ()

    def check_input(self, given: Mapping[str, Any]) -> None:
        """Check the input of a new run.

        Raises:
            UsageError: If something is missing.
        """

    def input_below(self, given: dict[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
        """The input of a new run that is a turn of a run with the input *above*, which gives it *given*."""
        return given

    def check_resume(self, run: str) -> None:
        """Check that *run* can be carried on by a command, with the backends of this process.

        Raises:
            UsageError: If only the program that started it can.
        """

    @property
    def place(self) -> RunPlace | None:
        """Where the run keeps things and works, if its settings say; None: where it was started."""
        return None

    @property
    def notify(self) -> tuple[str, ...]:
        """The command to start when the run ends, as an argv list; empty: none."""
        return ()

    def observers(self, journals: Reader, run: str, files: KeptPrompts) -> list[Observe]:
        """What writes files for people as the run's records become durable."""
        return []

    def sidecar(self, services: RunServices) -> Sidecar | None:
        """What lives beside the run from now on; None: nothing."""
        return None

    # -- a turn -------------------------------------------------------------------------------------------------------

    def outside(self, fold: Fold, turn: Turn) -> tuple[str, ...]:
        """The names of the parts of a prompt that the journal does not hold; see `TurnStarted.used`."""
        return prompts.unread(fold, turn) if turn.ask.prompt is None else ()

    def prompt(self, fold: Fold, turn: Turn) -> list[Part]:
        """The parts of a prompt that the engine has not written."""
        return prompts.question(fold, turn)

    def additions(self, fold: Fold, turn: Turn) -> list[Part]:
        """The parts that join a prompt which the engine has written."""
        return []

    def context(self, fold: Fold, turn: Turn) -> dict[str, Any]:
        """The prompt as data, for programs."""
        return prompts.as_data(fold, turn)

    def environment(self, notes: Notes, run: str, turn: str) -> dict[str, str]:
        """Variables for the process of a turn; *notes* knows where the run keeps its own."""
        return {}

    def transcript(self, run: str, turn: str) -> str:
        """The file with what a coding agent says on the wire in *turn* of *run*, without the backend's label.

        Its name in the folder of the run, or its path if it lies elsewhere.
        """
        return f"stream.{folder_name(turn)}"

    def reviews(self, turn: str) -> bool:
        """Whether *turn* may change the prompts of the team."""
        return False

    def node(self, turn: str, agent: str) -> str:
        """The name of the place at which a child run answers for *turn*, which asks *agent*."""
        return turn.rpartition("#")[0]

    def seconds_left(self, now: float) -> float | None:
        """How long a turn that starts *now* may take, in seconds; None: without limit."""
        return None

    def needs_open_tasks(self, said: Reply | Emit) -> bool:
        """Whether the verdict on *said* depends on the tasks that are open."""
        return False

    def gates(self, agent: AgentPlan, judged: Record) -> tuple[tuple[str, ...], ...]:
        """The gates of *agent*, before its answer counts."""
        return agent.gates if isinstance(judged, TurnFinished) else ()

    def refused(self, judged: Record, gate: GateChecked) -> Record:
        """A failed attempt, so that the next one is given the reason."""
        if not isinstance(judged, TurnFinished):
            return judged
        return AttemptFailed(
            turn=judged.turn,
            attempt=judged.attempt,
            kind="invalid_output",
            reason=gate.reason,
            usage=judged.usage,
            text=gate.output,
            exit_code=gate.status,
        )

    def retained(self, result: TurnFinished) -> TurnFinished:
        """The part of *result* that stays in memory once its turn has ended."""
        return result

    def emitted(self, agent: str, outputs: Mapping[str, Any]) -> str:
        """The event that a child run which answered for *agent* with *outputs* emits; empty: none."""
        return ""

    # -- the run ------------------------------------------------------------------------------------------------------

    @property
    def notes(self) -> NoteSettings | None:
        """Where memory and tasks lie and how much of them a prompt shows; None: the defaults of the state directory."""
        return None

    def reread(
        self, run: str, plan: Plan, hold: Callable[[Plan], Plan], last: LastReading, trust: Callable[[], Trust] = Trust
    ) -> ConfigAnswer:
        """Read *plan*, under which *run* goes on, from its files again if one of them changed.

        Args:
            hold: Takes secrets out of a plan that was read.
            last: When *plan* was last read from its files; kept by the caller, for this method.
            trust: Reads what the records of the run say of those that could change these files.
        """
        return ConfigKept()

    def adopt(self, text: str) -> Plan:
        """The plan under which the run goes on after it was read again as *text*."""
        return self.plan

    def wants_tree(self, agent: str) -> bool:
        """Whether a child run that answers for *agent* works in a separate git work tree."""
        return False

    @property
    def unjoined(self) -> int:
        """The wave whose branches have ended and whose files are not yet brought back; 0: none."""
        return 0

    @property
    def iterations(self) -> int | None:
        """How many iterations have begun; None: the run has none."""
        return None

    # -- a rehearsal --------------------------------------------------------------------------------------------------

    def mentions(self) -> Iterable[str]:
        """The agents of which a rehearsal says whether they ever ran."""
        return ()

    def start_facts(self, turn: str) -> dict[str, Any]:
        """What a rehearsal says of *turn* when it starts, beside what it says of every turn."""
        return {}

    def end_facts(self, turn: str) -> dict[str, Any]:
        """What a rehearsal says of *turn* when it has ended, beside what it says of every turn."""
        return {}

    def run_facts(self, reason: str) -> dict[str, Any]:
        """What a rehearsal says of the whole run, which ended for *reason*."""
        return {}


MakeKind = Callable[[Plan], Kind]
"""Gives a fresh kind for one run of a plan."""
