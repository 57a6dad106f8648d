"""Text for a run in progress: lines for a pipe, a tree for a terminal."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from coterie.cli.text.words import clock, printable
from coterie.journal import records
from coterie.views.timeline import Timeline
from coterie.views.words import duration

if TYPE_CHECKING:
    from coterie.views.tree import RunNode

SHOWN = (
    records.AttemptFailed,
    records.AttemptInterrupted,
    records.ConditionUnknown,
    records.ConfigChanged,
    records.ConfigRejected,
    records.EventEmitted,
    records.EventInvalid,
    records.EventNoted,
    records.IterationStarted,
    records.JournalRepaired,
    records.LoopExhausted,
    records.MessageRefused,
    records.OperatorSaid,
    records.PathEnded,
    records.TreeMerged,
    records.TreesJoined,
    records.TurnCancelled,
    records.TurnFailed,
    records.TurnFinished,
    records.TurnStarted,
    records.WaveJoined,
    records.WaveStarted,
    records.WaveTimeout,
)
"""Records that have a line."""
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
    """Writes the lines of a run, `00:01.2  planner#1 started`; lines of a child run name its turn."""

    def __init__(self) -> None:
        self._began: float | None = None
        self._runs: dict[str, Timeline] = {}

    def line(self, run: str, record: records.Record) -> str:
        """Return the line for *record* of *run*; empty if it has none."""
        if self._began is None:
            self._began = record.at
        timeline = self._runs.setdefault(run, Timeline())
        timeline.apply(record)
        said = timeline.lines.pop().text
        _, nested, below = run.partition("/")
        if isinstance(record, records.RunStarted) and not nested:
            return f"{clock(record.at - self._began)}  {said}"
        if not isinstance(record, SHOWN):
            return ""
        return f"{clock(record.at - self._began)}  {f'{below}: ' if nested else ''}{said}"


def tree(root: "RunNode", most: int) -> list[tuple[str, str]]:
    """Return *root* and its descendants as (state, line), in at most *most* lines.

    If there are more, those that ended first are omitted, then pending ones, and a line gives their number.
    """
    nodes = list(_flat(root, 0))
    if len(nodes) <= most:
        return [(node.state, _line(node, depth)) for depth, node in nodes]
    room = max(most - 2, 0)  # besides the root and the line with the number of omitted nodes
    ended = [i for i, (_, node) in enumerate(nodes) if i and node.state not in ("running", "waiting", "pending")]
    ended += [i for i, (_, node) in enumerate(nodes) if node.state == "pending"]
    left_out = set(ended[: len(nodes) - 1 - room])
    kept = [node for i, node in enumerate(nodes[1:], 1) if i not in left_out][:room]
    shown = [(node.state, _line(node, depth)) for depth, node in (nodes[0], *kept)]
    return [shown[0], ("", f"  … {len(nodes) - len(shown)} more"), *shown[1:]]


def _flat(node: "RunNode", depth: int) -> Iterator[tuple[int, "RunNode"]]:
    yield depth, node
    for child in node.children:
        yield from _flat(child, depth + 1)


def _line(node: "RunNode", depth: int) -> str:
    parts = [f"{'  ' * depth}{SIGNS.get(node.state, '?')} {node.label}"]
    if node.state != "note":
        parts.append(node.state)
    if node.id:
        parts.append(duration(node.seconds))
    if node.cost:
        parts.append(f"${node.cost:.4f}")
    if node.detail:
        parts.append(" ".join(node.detail.split()))
    return printable("  ".join(parts).replace("\n", " "))
