"""What a command shows of a run while it drives or follows it: nothing, lines, or a live tree."""

from collections import defaultdict
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import TYPE_CHECKING, Any

from coterie.agents.backends.base import AttemptRef, Event
from coterie.history.journal import records
from coterie.history.journal.records import Record
from coterie.history.views.attention import attention_of
from coterie.history.views.timeline import Timeline
from coterie.history.views.words import without_causes
from coterie.interfaces.cli.output import complain
from coterie.interfaces.cli.text.words import clock
from coterie.team.planning.loop import LoopPlan
from coterie.team.planning.plan import from_json

if TYPE_CHECKING:
    from coterie.interfaces.cli.json_log import JsonLog

_NAMED = ("turn", "agent", "attempt", "reason", "outcome", "child", "name")
"""Fields of records that become fields of the line."""
_ERRORS = (
    records.ActorCrashed,
    records.AttemptFailed,
    records.ConfigRejected,
    records.SupervisorFailed,
    records.TurnFailed,
)
_WARNINGS = (
    records.AttemptInterrupted,
    records.AttentionAsked,
    records.ConditionUnknown,
    records.ConfigHeld,
    records.CorrectionDropped,
    records.EventInvalid,
    records.JournalRepaired,
    records.LetterDead,
    records.LoopExhausted,
    records.MessageRefused,
    records.RestartPlanned,
    records.TurnCancelled,
    records.WaveTimeout,
    records.WorkerAwaited,
)
_INFORMATION = (
    records.ActorStarted,
    records.ActorStopped,
    records.AttentionAnswered,
    records.ConfigChanged,
    records.CorrectionSent,
    records.EventEmitted,
    records.EventNoted,
    records.GateChecked,
    records.IterationStarted,
    records.OperatorSaid,
    records.PathEnded,
    records.ProgramNoted,
    records.RunReopened,
    records.SetEnded,
    records.SetStarted,
    records.SleepEnded,
    records.SleepStarted,
    records.TreeMerged,
    records.TreesJoined,
    records.TurnFinished,
    records.TurnStarted,
    records.WaveJoined,
    records.WaveStarted,
)
"""Further records that have a line, unless the log level of a loop says otherwise."""
_LEVELS = ("debug", "info", "warn", "error", "none")


class Display:
    """Shows the progress of a run; this base class shows nothing.

    Attributes:
        causes: The causes of failures that it has shown.
    """

    causes: Collection[str] = ()

    def recall(self, run: str, record: Record) -> None:
        """Receive a record that an earlier owner wrote."""

    def observe(self, run: str, record: Record) -> None:
        """Receive a record of the root run or of a child run."""

    def on_event(self, ref: AttemptRef, event: Event) -> None:
        """Receive an event of a running attempt."""

    def aside(self) -> AbstractContextManager[object]:
        """Release the terminal while the context lasts."""
        return nullcontext()


class Lines(Display):
    """Prints one line for each record of interest with *show*, `00:01.2  planner#1 started`.

    Lines of a child run name its turn. The log level of a loop, which its plan has, says which records have a line: all
    (`debug`), the usual ones (`info`), what went wrong (`warn`), only failures (`error`), or none. The cause of a
    failure is on the line of the attempt; those of its turn and of the teams above it refer to it.
    """

    def __init__(self, show: Callable[[str], None] = complain) -> None:
        self._show, self._level = show, "info"
        self._began: float | None = None
        self._runs = defaultdict[str, Timeline](Timeline)
        self.causes: set[str] = set()

    def recall(self, run: str, record: Record) -> None:
        """Receive a record whose line was printed earlier."""
        self.line(run, record)
        self.causes.clear()

    def observe(self, run: str, record: Record) -> None:
        """Print the line of *record*, if it has one."""
        if line := self.line(run, record):
            self._show(line)

    def line(self, run: str, record: Record) -> str:
        """Return the line for *record* of *run*; empty if it has none."""
        if self._began is None:
            self._began = record.at
        said = self.said(run, record)[1]
        return f"{clock(record.at - self._began)}  {said}" if said else ""

    def said(self, run: str, record: Record) -> tuple[str, str]:
        """Return the level and the text of *record* of *run*; the text is empty if it has no line."""
        timeline = self._runs[run]
        timeline.apply(record)
        said = timeline.lines.pop().text
        _, nested, below = run.partition("/")
        if isinstance(record, records.RunStarted) and not nested:
            self._level = _log_level(record)
        if isinstance(record, records.RunFinished):
            del self._runs[run]  # a system has ever more child runs
        level = _level(record, nested)
        if _LEVELS.index(level) < _LEVELS.index(self._level):
            return level, ""
        match record:
            case records.AttemptFailed():
                said = said.replace(record.reason, without_causes(record.reason, self.causes))
                self.causes.add(record.reason)
            case records.AttentionAsked():
                said += f"; answer with: {attention_of(run, record).command}"
            case records.TurnFailed():
                said = without_causes(said, self.causes)
                self.causes.add(record.reason)
        return level, f"{f'{below}: ' if nested else ''}{said}"


class JsonLines(Lines):
    """Writes one event for each record of interest to *log*."""

    def __init__(self, log: "JsonLog") -> None:
        super().__init__()
        self._log = log

    def observe(self, run: str, record: Record) -> None:
        """Write the event of *record*, if it has one."""
        level, message = self.said(run, record)
        if not message:
            return
        fields: dict[str, Any] = {"run": run, "seq": record.seq}
        fields |= {name: value for name in _NAMED if (value := getattr(record, name, None))}
        self._log.line(
            record.at, {"warn": "warning"}.get(level, level), str(record.__struct_config__.tag), message, fields
        )


def _log_level(started: records.RunStarted) -> str:
    with suppress(ValueError):
        if started.engine == "loop" and isinstance(loop := from_json(started.plan).coordination, LoopPlan):
            return loop.place.log_level
    return "info"


def _level(record: Record, nested: str) -> str:
    """The severity of *record*; *nested*: its run is a child run."""
    match record:
        case records.TreeMerged() if record.status != "merged":
            return "warn"
        case records.GateChecked() if not record.passed:
            return "warn"
        case records.TreesJoined() if record.problem or record.kept:
            return "warn"
        case records.TreeAttested() if record.notes:
            return "warn"
        case records.ConfigChanged() | records.ConfigKept() | records.RunOwned() if record.warnings:
            return "warn"
        case records.AttemptSession() if record.lost:
            return "warn"
        case records.RunStarted() if not nested:
            return "info"
    if isinstance(record, _ERRORS):
        return "error"
    return "warn" if isinstance(record, _WARNINGS) else "info" if isinstance(record, _INFORMATION) else "debug"
