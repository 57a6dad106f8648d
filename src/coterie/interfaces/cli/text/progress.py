"""Text for the tree of a run on a terminal."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from coterie.base.escapes import printable
from coterie.history.views.words import dollars, duration
from coterie.interfaces.cli.text.words import cut

if TYPE_CHECKING:
    from coterie.history.views.tree import RunNode

_SHORTEST_LABEL = 8
"""Characters of a node's name that are shown in any case."""
_DETAIL = 6
"""One in so many characters of a line is for its answer, before the end of a longer name."""
_AFTER = re.compile(r"  after \S+")
"""What an iteration of a loop follows."""
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


def tree(root: "RunNode", most: int, width: int | None = None) -> list[tuple[str, str]]:
    """Return *root* and its descendants as (state, line), in at most *most* lines.

    In a line of *width* characters, if given, the name of a node is cut before its time, its cost and the beginning of
    its answer. If there are more nodes than lines, those that ended first are omitted, then pending ones, and a line
    gives their number.
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
    label, detail = node.label, " ".join(node.detail.split())
    if width is not None and parts:
        room = width - len("  ".join(parts)) - 2 * depth - len("? ") - len("  ")
        if detail:
            room -= min(len(detail), width // _DETAIL) + len("  ")
        if len(label) > room:
            label = _AFTER.sub("", label)  # the line above has it
        label = cut(label, max(room, _SHORTEST_LABEL))
    parts.insert(0, f"{'  ' * depth}{SIGNS.get(node.state, '?')} {label}")
    if detail:
        taken = len("  ".join(parts)) + len("  ")
        is_answer = width is not None and detail.startswith("answer with: ") and taken + len(detail) > width
        parts.append("see: coterie attention" if is_answer else detail)  # a command that is cut is none
    return printable("  ".join(parts).replace("\n", " "))
