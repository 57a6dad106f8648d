"""What only runs that go on for long need of their kind, behind one port: `Kind.project` of `kernel.kind`."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

from coterie.agents.workspace.notes import Notes, NoteSettings
from coterie.base.ids import folder_name
from coterie.execution.kernel.attempt_files import KeptPrompts
from coterie.execution.kernel.commands import MERGE
from coterie.history.engines.commands import Emit, Reply
from coterie.history.journal.base import Reader
from coterie.history.journal.records import AttemptFailed, ConfigAnswer, ConfigKept, GateChecked, Record, TurnFinished
from coterie.team.planning.place import RunPlace
from coterie.team.planning.plan import AgentPlan, Plan

Observe = Callable[[str, Record], None]
"""Called with the id of a run and each record of it, in order, once it is durable."""
Reread = Callable[[str, Plan], ConfigAnswer]
"""Reads the plan of a run, which is the root or below it, again."""
History = Callable[[], Iterable[tuple[str, Record]]]
"""Gives the records of a run and its child runs, with the id of each."""


class Project:
    """What differs in runs that go on for long: where they work, memory and tasks, limits on time, a plan that may
    change, and turns that may emit events. This base class is that of all other runs.

    Attributes:
        keeps_guidance: Whether the engine keeps an operator's guidance and puts it into prompts itself.
        changes: Whether the plan may be read again: so each prompt is kept in a file, the journal of a child run
            contains its plan, and humans may be added.
        limits_time: Whether runs may have a time limit (`seconds_left`).
        waits_for_tasks: Whether open tasks may keep a run from completing (`needs_open_tasks`).
    """

    keeps_guidance: ClassVar[bool] = False
    changes: ClassVar[bool] = False
    limits_time: ClassVar[bool] = False
    waits_for_tasks: ClassVar[bool] = False

    @property
    def place(self) -> RunPlace | None:
        """Where the run keeps its state and where it works, if its settings say so; None: where it was started."""
        return None

    @property
    def notify(self) -> tuple[str, ...]:
        """The command to start when the run ends, as an argv list; empty: none."""
        return ()

    def observers(self, journals: Reader, run: str, files: KeptPrompts) -> list[Observe]:
        """Observers that write files for people as the run's records become durable."""
        return []

    @property
    def notes(self) -> NoteSettings | None:
        """Where memory and tasks are and how much of them a prompt shows; None: the defaults of the state directory."""
        return None

    def environment(self, notes: Notes, run: str, turn: str) -> dict[str, str]:
        """Environment variables for the process of a turn; *notes* knows where the run keeps memory and tasks."""
        return {}

    def reviews(self, turn: str) -> bool:
        """Whether *turn* may change the prompts of the team."""
        return False

    def seconds_left(self, now: float) -> float | None:
        """How many seconds a turn that starts *now* may take; None: no limit."""
        return None

    def needs_open_tasks(self, said: Reply | Emit) -> bool:
        """Whether the verdict on *said* depends on open tasks."""
        return False

    def emitted(self, agent: str, outputs: Mapping[str, Any]) -> str:
        """The event to emit for a child run that answered for *agent* with *outputs*; empty: none."""
        return ""

    def reading(self, run: str, hold: Callable[[Plan], Plan], history: History | None = None) -> Reread:
        """Make what reads the plan of *run* again whenever one of its files has changed.

        Args:
            hold: Replaces the secrets in a plan with references.
            history: Gives the records of *run* and its child runs, which say who may have changed the files.
        """
        return lambda run, plan: ConfigKept()

    def adopt(self, plan: Plan, text: str) -> Plan:
        """Return the plan that was read again as *text*, in place of *plan*."""
        return plan

    # -- a turn -------------------------------------------------------------------------------------------------------

    def transcript(self, run: str, turn: str) -> str:
        """The file for the protocol traffic of a coding agent in *turn* of *run*, without the backend's label.

        This is a name in the folder of the run, or a path if the file is elsewhere.
        """
        return f"stream.{folder_name(turn)}"

    def node(self, turn: str, agent: str) -> str:
        """The name of the node that a child run performs for *turn*, which asks *agent*."""
        return turn.rpartition("#")[0]

    def wants_tree(self, agent: AgentPlan) -> bool:
        """Whether a turn of *agent* works in a separate git work tree."""
        return agent.isolation != ""

    def gates(self, agent: AgentPlan, judged: Record) -> tuple[tuple[str, ...], ...]:
        """The gates that must pass before *judged*, a record about a turn of *agent*, counts."""
        if not isinstance(judged, TurnFinished):
            return ()
        return (*agent.gates, MERGE) if agent.isolation else agent.gates

    def refused(self, judged: Record, gate: GateChecked) -> Record:
        """The record to write in place of *judged*, since *gate* did not pass: a failed attempt, whose reason the next
        prompt contains.
        """
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

    # -- waves and iterations -----------------------------------------------------------------------------------------

    @property
    def unjoined(self) -> int:
        """The number of the wave whose branches have ended but whose files are not merged yet; 0: none."""
        return 0

    @property
    def iterations(self) -> int | None:
        """How many iterations have begun; None: this kind has no iterations."""
        return None

    def start_facts(self, turn: str) -> dict[str, Any]:
        """Facts that a rehearsal reports at the start of *turn*, in addition to those of every turn."""
        return {}

    def run_facts(self, reason: str) -> dict[str, Any]:
        """Facts that a rehearsal reports about the whole run, which ended for *reason*."""
        return {}
