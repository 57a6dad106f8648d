"""A team as a Mermaid flowchart, for pages that draw it: GitHub, GitLab, many editors."""

from collections.abc import Iterator

from coterie.base.escapes import printable
from coterie.team.topology.drawing.graph import Arrow, Box, Graph

_SHAPES = {
    "agent": ("(", ")"),
    "action": ("[", "]"),
    "gate": ("{{", "}}"),
    "human": ("([", "])"),
    "group": ("[[", "]]"),
    "undeclared": (">", "]"),
}
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 -_.,:/()='!?+*@")


def mermaid(graph: Graph) -> str:
    """*graph* in Mermaid's notation: loops dotted, phases and nested teams as subgraphs."""
    return "\n".join(["flowchart TB", *_graph(graph, "n", "  ")]) + "\n"


def _graph(graph: Graph, prefix: str, indent: str) -> Iterator[str]:
    ids = {box.name: f"{prefix}{number}" for number, box in enumerate(graph.boxes)}
    placed = {name for phase in graph.phases for name in phase.boxes}
    for number, phase in enumerate(graph.phases):
        yield f'{indent}subgraph {prefix}p{number}["{_text(phase.label)}"]'
        yield from (f"{indent}  {_box(box, ids[box.name])}" for box in graph.boxes if box.name in phase.boxes)
        yield f"{indent}end"
    yield from (f"{indent}{_box(box, ids[box.name])}" for box in graph.boxes if box.name not in placed)
    yield from (f"{indent}{_arrow(arrow, ids)}" for arrow in graph.arrows)
    for name, inner in graph.nested.items():
        own = f"{ids[name]}t"
        yield f'{indent}subgraph {own}["{_text(inner.name)}"]'
        yield from _graph(inner, f"{ids[name]}_", indent + "  ")
        yield f"{indent}end"
        yield f"{indent}{ids[name]} -.- {own}"


def _box(box: Box, id: str) -> str:
    left, right = _SHAPES.get(box.kind, _SHAPES["agent"])
    note = f"<br/>{_text(box.note)}" if box.note else ""
    return f'{id}{left}"{_text(box.name)}{note}"{right}'


def _arrow(arrow: Arrow, ids: dict[str, str]) -> str:
    line = "-.->" if arrow.back else "-->"
    label = f'|"{_text(arrow.label)}"|' if arrow.label else ""
    return f"{ids[arrow.source]} {line}{label} {ids[arrow.target]}"


def _text(text: str) -> str:
    """*text* with every character special to Mermaid, Markdown or HTML as a numeric entity."""
    return "".join(c if c in _PLAIN or (c > "\x7f" and c.isprintable()) else f"#{ord(c)};" for c in printable(text))
