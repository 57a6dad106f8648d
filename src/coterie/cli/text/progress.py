"""Texts on a run as it goes on: lines for a pipe, a tree for a terminal."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from coterie.cli.text.words import clock
from coterie.journal.records import (
    AttemptFailed,
    AttemptInterrupted,
    ConfigChanged,
    ConfigRejected,
    EventEmitted,
    EventInvalid,
    EventNoted,
    IterationStarted,
    JournalRepaired,
    LoopExhausted,
    MessageRefused,
    OperatorSaid,
    Record,
    RunStarted,
    TreeMerged,
    TreesJoined,
    TurnCancelled,
    TurnFailed,
    TurnFinished,
    TurnStarted,
    WaveJoined,
    WaveStarted,
    WaveTimeout,
)
from coterie.views.timeline import Timeline
from coterie.views.words import duration

if TYPE_CHECKING:
    from coterie.views.tree import Node

WORTH_TELLING = (
    AttemptFailed,
    AttemptInterrupted,
    ConfigChanged,
    ConfigRejected,
    EventEmitted,
    EventInvalid,
    EventNoted,
    IterationStarted,
    JournalRepaired,
    LoopExhausted,
    MessageRefused,
    OperatorSaid,
    TreeMerged,
    TreesJoined,
    TurnCancelled,
    TurnFailed,
    TurnFinished,
    TurnStarted,
    WaveJoined,
    WaveStarted,
    WaveTimeout,
)
SIGNS = {
    "running": "▶",
    "waiting": "…",
    "finished": "✓",
    "completed": "✓",
    "failed": "✗",
    "cancelled": "–",
    "stopped": "■",
}


class Progress:
    """Tells a run in lines, `00:01.2  planner#1 started`; those of a child run name the turn that it is."""

    def __init__(self) -> None:
        self._began: float | None = None
        self._runs: dict[str, Timeline] = {}

    def line(self, run: str, record: Record) -> str:
        """The line on *record* of *run*, or an empty text if it is not worth one."""
        if self._began is None:
            self._began = record.at
        timeline = self._runs.setdefault(run, Timeline())
        timeline.apply(record)
        said = timeline.lines.pop().text
        _, nested, below = run.partition("/")
        if isinstance(record, RunStarted) and not nested:
            return f"{clock(record.at - self._began)}  {said}"
        if not isinstance(record, WORTH_TELLING):
            return ""
        return f"{clock(record.at - self._began)}  {f'{below}: ' if nested else ''}{said}"


def tree(root: "Node", most: int) -> list[tuple[str, str]]:
    """*root* and all below it as (state, line), *most* lines at most.

    Where that is too little room, what ended first is left out, and a line says how much.
    """
    nodes = list(_flat(root, 0))
    if len(nodes) <= most:
        return [(node.state, _line(node, depth)) for depth, node in nodes]
    room = max(most - 2, 0)  # beside the root and the line that says how much is left out
    ended = [i for i, (_, node) in enumerate(nodes) if i and node.state not in ("running", "waiting")]
    left_out = set(ended[: len(nodes) - 1 - room])
    kept = [node for i, node in enumerate(nodes[1:], 1) if i not in left_out][:room]
    shown = [(node.state, _line(node, depth)) for depth, node in (nodes[0], *kept)]
    return [shown[0], ("", f"  … {len(nodes) - len(shown)} more"), *shown[1:]]


def _flat(node: "Node", depth: int) -> Iterator[tuple[int, "Node"]]:
    yield depth, node
    for child in node.children:
        yield from _flat(child, depth + 1)


def _line(node: "Node", depth: int) -> str:
    parts = [f"{'  ' * depth}{SIGNS.get(node.state, '?')} {node.label}", node.state, duration(node.seconds)]
    if node.cost:
        parts.append(f"${node.cost:.4f}")
    if node.detail:
        parts.append(" ".join(node.detail.split()))
    return "  ".join(parts)
