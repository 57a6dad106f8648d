"""A team in the DOT language, for Graphviz and the many tools that read it."""

from collections.abc import Iterator

from coterie.base.escapes import printable
from coterie.team.topology.drawing.graph import Arrow, Box, Graph

_SHAPES = {
    "agent": 'shape=box style="rounded"',
    "action": "shape=box",
    "gate": "shape=hexagon",
    "human": 'shape=box style="rounded,bold"',
    "group": "shape=box peripheries=2",
    "undeclared": 'shape=box style="dotted"',
}


def dot(graph: Graph) -> str:
    """*graph* in the DOT language: loops dashed, phases and nested teams as clusters."""
    lines = [
        f"digraph {_text(graph.name)} {{",
        "  rankdir=TB",
        '  node [fontname="sans-serif" fontsize=11]',
        '  edge [fontname="sans-serif" fontsize=9]',
        *_graph(graph, "", "  "),
        "}",
    ]
    return "\n".join(lines) + "\n"


def _graph(graph: Graph, prefix: str, indent: str) -> Iterator[str]:
    for box in graph.boxes:
        yield f"{indent}{_box(box, prefix)}"
    for arrow in graph.arrows:
        yield f"{indent}{_arrow(arrow, prefix)}"
    for phase in graph.phases:
        yield f"{indent}subgraph {_text(f'cluster {prefix}{phase.label}')} {{"
        yield f'{indent}  label={_text(phase.label)} style="dashed"'
        yield from (f"{indent}  {_text(prefix + name)}" for name in phase.boxes)
        yield f"{indent}}}"
    for name, inner in graph.nested.items():
        yield f"{indent}subgraph {_text(f'cluster {prefix}{name}/')} {{"
        yield f"{indent}  label={_text(inner.name)}"
        yield from _graph(inner, f"{prefix}{name}/", indent + "  ")
        yield f"{indent}}}"
        for box in inner.boxes:
            if box.starts:
                yield f"{indent}{_text(prefix + name)} -> {_text(f'{prefix}{name}/{box.name}')} [style=dotted dir=none]"


def _box(box: Box, prefix: str) -> str:
    label = f"{box.name}\n{box.note}" if box.note else box.name
    about = "\n".join(box.about) or box.kind
    shape = _SHAPES.get(box.kind, _SHAPES["agent"])
    return f"{_text(prefix + box.name)} [{shape} label={_text(label)} tooltip={_text(about)}]"


def _arrow(arrow: Arrow, prefix: str) -> str:
    about = [f"label={_text(arrow.label)}"] if arrow.label else []
    about += ["style=dashed", "constraint=false"] if arrow.back else []
    return f"{_text(prefix + arrow.source)} -> {_text(prefix + arrow.target)}" + (
        f" [{' '.join(about)}]" if about else ""
    )


def _text(text: str) -> str:
    """*text* quoted. Graphviz interprets backslashes in labels, so they are doubled."""
    shown = printable("".join(c if c.isprintable() or c == "\n" else "\ufffd" for c in text))
    return '"' + shown.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
