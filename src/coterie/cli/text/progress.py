"""Text for a run in progress: lines for a pipe, a tree for a terminal."""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from coterie.cli.text.words import clock, cut
from coterie.escapes import printable
from coterie.journal import records
from coterie.planning.loop import LoopPlan
from coterie.planning.plan import from_json
from coterie.views.attention import attention_of
from coterie.views.timeline import Timeline
from coterie.views.words import dollars, duration, without_causes

if TYPE_CHECKING:
    from coterie.views.tree import RunNode

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
    records.RunReopened,
    records.TreeMerged,
    records.TreesJoined,
    records.TurnFinished,
    records.TurnStarted,
    records.WaveJoined,
    records.WaveStarted,
)
"""Further records that have a line, unless the log level of a loop says otherwise."""
_LEVELS = ("debug", "info", "warn", "error", "none")
_SHORTEST_LABEL = 8
"""Characters of a node's name that are shown in any case."""
SIGNS = {
    "running": "▶",
    "waiting": "…",
    "finished": "✓",
    "completed": "✓",
    "failed": "✗",
    "cancelled": "–",
    "stopped": "■",
    "pending": "·",
    "note": "!",
}


class Progress:
    """Writes the lines of a run, `00:01.2  planner#1 started`; lines of a child run name its turn.

    The log level of a loop, which its plan has, says which records have a line: all (`debug`), the usual ones (`info`),
    what went wrong (`warn`), only failures (`error`), or none.
    The cause of a failure is on the line of the attempt; those of its turn and of the teams above it refer to it.

    Attributes:
        causes: The causes of failures that lines have named.
    """

    def __init__(self) -> None:
        self._level = "info"
        self._began: float | None = None
        self._runs = defaultdict[str, Timeline](Timeline)
        self.causes: set[str] = set()

    def line(self, run: str, record: records.Record) -> str:
        """Return the line for *record* of *run*; empty if it has none."""
        if self._began is None:
            self._began = record.at
        said = self.said(run, record)[1]
        return f"{clock(record.at - self._began)}  {said}" if said else ""

    def said(self, run: str, record: records.Record) -> tuple[str, str]:
        """Return the level of *record* of *run*, and what it says; empty if it has no line."""
        timeline = self._runs[run]
        timeline.apply(record)
        said = timeline.lines.pop().text
        _, nested, below = run.partition("/")
        if isinstance(record, records.RunStarted) and not nested:
            self._level = _log_level(record)
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


def _log_level(started: records.RunStarted) -> str:
    with suppress(ValueError):
        if started.engine == "loop" and isinstance(loop := from_json(started.plan).coordination, LoopPlan):
            return loop.place.log_level
    return "info"


def _level(record: records.Record, nested: str) -> str:
    """The severity of *record*, of a run that is *nested* in another or not."""
    match record:
        case records.TreeMerged() if record.status != "merged":
            return "warn"
        case records.GateChecked() if not record.passed:
            return "warn"
        case records.TreesJoined() if record.problem or record.kept:
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


def tree(root: "RunNode", most: int, width: int | None = None) -> list[tuple[str, str]]:
    """Return *root* and its descendants as (state, line), in at most *most* lines.

    In a line of *width* characters, if given, the name of a node is cut before its time and cost. If there are more
    nodes than lines, those that ended first are omitted, then pending ones, and a line gives their number.
    """
    nodes = list(_flat(root, 0))
    if len(nodes) <= most:
        return [(node.state, _line(node, depth, width)) for depth, node in nodes]
    room = max(most - 2, 0)  # besides the root and the line with the number of omitted nodes
    ended = [i for i, (_, node) in enumerate(nodes) if i and node.state not in ("running", "waiting", "pending")]
    ended += [i for i, (_, node) in enumerate(nodes) if node.state == "pending"]
    left_out = set(ended[: len(nodes) - 1 - room])
    kept = [node for i, node in enumerate(nodes[1:], 1) if i not in left_out][:room]
    shown = [(node.state, _line(node, depth, width)) for depth, node in (nodes[0], *kept)]
    return [shown[0], ("", f"  … {len(nodes) - len(shown)} more"), *shown[1:]]


def _flat(node: "RunNode", depth: int) -> Iterator[tuple[int, "RunNode"]]:
    yield depth, node
    for child in node.children:
        yield from _flat(child, depth + 1)


def _line(node: "RunNode", depth: int, width: int | None) -> str:
    parts = []
    if node.state != "note":
        parts.append(node.state)
    if node.id:
        parts.append(duration(node.seconds))
    if node.cost:
        parts.append(dollars(node.cost))
    label = node.label
    if width is not None and parts:
        label = cut(label, max(width - len("  ".join(parts)) - 2 * depth - len("? ") - len("  "), _SHORTEST_LABEL))
    parts.insert(0, f"{'  ' * depth}{SIGNS.get(node.state, '?')} {label}")
    if detail := " ".join(node.detail.split()):
        taken = len("  ".join(parts)) + len("  ")
        is_answer = width is not None and detail.startswith("answer with: ") and taken + len(detail) > width
        parts.append("see: coterie attention" if is_answer else detail)  # a command that is cut is none
    return printable("  ".join(parts).replace("\n", " "))
