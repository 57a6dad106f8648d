"""A team as a self-contained SVG: follows the light or dark theme, and accessible to screen readers."""

import re
from collections.abc import Iterable, Iterator, Sequence
from math import fsum  # exact sum, so a picture is the same on every Python
from unicodedata import east_asian_width
from xml.sax.saxutils import escape, quoteattr

from coterie.base.escapes import printable
from coterie.team.topology.drawing.graph import Arrow, Box, Graph
from coterie.team.topology.drawing.layers import Placed, Point, Rectangle, Route, Size, place

_MARGIN = 20.0
_LINE = 17.0
_PAD = 14.0
_NAME, _NOTE, _LABEL = 7.6, 6.3, 6.1  # width of a letter, relative to its font size
_LONGEST = 44
_TITLE = 30.0
_CORNER = 14.0

_FORBIDDEN = re.compile("[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

_SHAPES = """\
text { font-family: ui-sans-serif, system-ui, "Segoe UI", Helvetica, Arial, sans-serif; }
.title { font-size: 15px; font-weight: 600; }
.name { font-size: 13px; font-weight: 600; text-anchor: middle; }
.note { font-size: 11.5px; text-anchor: middle; }
.label { font-size: 11px; text-anchor: middle; }
.box rect { stroke-width: 1.3; }
.group rect { stroke-width: 3; } .undeclared rect, .idle rect { stroke-dasharray: 4 3; }
.starts rect { stroke-width: 2.4; }
.arrow path { fill: none; stroke-width: 1.4; }
.within { fill: none; stroke-dasharray: 2 4; }"""
_COLOURS = """\
text {{ fill: {ink}; }} .note, .label {{ fill: {soft}; }} .paper {{ fill: {paper}; }}
.box rect {{ fill: {box}; stroke: {edge}; }} .within {{ stroke: {edge}; }}
.human rect {{ stroke: {human}; }} .gate rect {{ stroke: {gate}; }} .action rect {{ stroke: {action}; }}
.arrow path {{ stroke: {line}; }} .tip {{ fill: {line}; }}
.back path {{ stroke: {loop}; }} .back .label, .back-tip {{ fill: {loop}; }}"""
_LIGHT = _COLOURS.format(
    ink="#1f2328", soft="#59636e", line="#818b98", paper="#ffffff", box="#f6f8fa", edge="#8c959f",
    loop="#9a5b00", human="#0969da", gate="#8250df", action="#1a7f37",
)  # fmt: skip
_DARK = _COLOURS.format(
    ink="#e6edf3", soft="#9198a1", line="#6e7681", paper="#0d1117", box="#161b22", edge="#6e7681",
    loop="#d29922", human="#4493f8", gate="#ab7df8", action="#3fb950",
)  # fmt: skip
_STYLE = f"{_SHAPES}\n{_LIGHT}\n@media (prefers-color-scheme: dark) {{\n{_DARK}\n}}"
"""Colours are literal: programs without support for CSS variables would draw everything black."""


def svg(graph: Graph) -> str:
    """*graph* as an SVG file; nested teams are below, each in a separate frame."""
    frames = list(_frames(graph, ""))
    width = max(frame.width for frame in frames) + 2 * _MARGIN
    height = fsum(frame.height for frame in frames) + _MARGIN * (len(frames) + 1)
    lines = [
        "<defs>",
        *(_tip(name) for name in ("tip", "back-tip")),
        "</defs>",
        f'<rect class="paper" width="{width:.0f}" height="{height:.0f}"/>',
    ]
    y = _MARGIN
    for frame in frames:
        lines += [f'<g transform="translate({_MARGIN:.0f} {y:.1f})">', *frame.lines(), "</g>"]
        y += frame.height + _MARGIN
    about = ". ".join([*filter(None, [graph.about]), *map(_sentence, graph.arrows)])
    return document(graph.name, about, _STYLE, width, height, lines)


def placed(graph: Graph, *, least: float = 0.0) -> Placed:
    """The positions of the boxes and arrows of *graph* in the picture, without nested teams.

    Args:
        least: The width beside a box's name to keep free for the caller; a box is at least twice as wide.
    """
    sizes = {name: _size(name, notes) for name, notes in _all_notes(graph).items()}
    sizes = {
        name: (max(width, 2 * least, _wide(name, _NAME) + least), height) for name, (width, height) in sizes.items()
    }
    labels = {arrow.label: (_wide(_cut(arrow.label), _LABEL) + 8, 16.0) for arrow in graph.arrows}
    return place(graph, sizes, labels)


def document(title: str, about: str, style: str, width: float, height: float, lines: Iterable[str]) -> str:
    """A self-contained SVG file with *lines* as its content; *title* and *about* are for screen readers."""
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}" role="img" aria-labelledby="name about">',
        f'<title id="name">{_text(title)}</title>',
        f'<desc id="about">{_text(about)}</desc>',
        f"<style>\n{style}\n</style>",
    ]
    return "\n".join([*head, *lines, "</svg>"]) + "\n"


class _Frame:
    """One team of the picture."""

    def __init__(self, graph: Graph, title: str) -> None:
        self._graph = graph
        self._title = title
        self._notes = _all_notes(graph)
        self._placed = placed(graph)
        self._inset = _PAD if title else 0.0
        self._top = _TITLE + self._inset if title else 0.0
        self.width = max(self._placed.width + 2 * self._inset, _wide(title, 8.5) + 2 * self._inset)
        self.height = self._placed.height + self._top + self._inset

    def lines(self) -> Iterator[str]:
        if self._title:
            yield f'<rect class="within" width="{self.width:.1f}" height="{self.height:.1f}" rx="10"/>'
            yield f'<text class="title" x="{_PAD:.0f}" y="{_TITLE - 6:.0f}">{_text(self._title)}</text>'
        yield f'<g transform="translate({self._inset:.1f} {self._top:.1f})">'
        for route in self._placed.routes:
            yield from _arrow(route)
        for box in self._graph.boxes:
            yield from _box(box, self._notes[box.name], self._placed.boxes[box.name])
        yield "</g>"


def _frames(graph: Graph, title: str) -> Iterator[_Frame]:
    yield _Frame(graph, title)
    for name, inner in graph.nested.items():
        path = f"{title.partition(' · ')[0]}/{name}" if title else name
        yield from _frames(inner, f"{path} · {inner.name}")


def _all_notes(graph: Graph) -> dict[str, list[str]]:
    """The text below the name of each box."""
    phase = {name: phase.label for phase in graph.phases for name in phase.boxes}
    return {box.name: _notes(box, phase.get(box.name, "")) for box in graph.boxes}


def _notes(box: Box, phase: str) -> list[str]:
    """The text below a box's name."""
    kind = box.kind if box.kind != "agent" else ""
    return [_cut(line) for line in (" · ".join(filter(None, (kind, box.note))), phase) if line]


def _size(name: str, notes: Sequence[str]) -> Size:
    width = max(_wide(name, _NAME), *(_wide(note, _NOTE) for note in notes), 44.0)
    return width + 2 * _PAD, _LINE * (1 + len(notes)) + 16.0


def _box(box: Box, notes: Sequence[str], at: Rectangle) -> Iterator[str]:
    marks = ["box", box.kind, *(["starts"] if box.starts else []), *([] if box.in_flow else ["idle"])]
    yield f'<g class="{" ".join(marks)}" data-name={_attribute(box.name)}>'
    yield f"<title>{_text(chr(10).join((f'{box.name} ({box.kind})', *filter(None, (box.note,)), *box.about)))}</title>"
    corner = {"human": at.height / 2, "action": 0.0, "gate": 2.0}.get(box.kind, 8.0)
    yield (f'<rect x="{at.x:.1f}" y="{at.y:.1f}" width="{at.width:.1f}" height="{at.height:.1f}" rx="{corner:.1f}"/>')
    yield f'<text class="name" x="{at.middle:.1f}" y="{at.y + 21:.1f}">{_text(box.name)}</text>'
    for number, note in enumerate(notes, 1):
        yield f'<text class="note" x="{at.middle:.1f}" y="{at.y + 21 + _LINE * number:.1f}">{_text(note)}</text>'
    yield "</g>"


def _arrow(route: Route) -> Iterator[str]:
    arrow = route.arrow
    mark, tip = ("arrow back", "back-tip") if arrow.back else ("arrow", "tip")
    ends = f"data-from={_attribute(arrow.source)} data-to={_attribute(arrow.target)}"
    yield f'<g class="{mark}" {ends}>'
    yield f"<title>{_text(_sentence(arrow))}</title>"
    path = _corners(route.points) if arrow.back else _curve(route.points)
    yield f'<path d="{path}" marker-end="url(#{tip})"/>'
    if route.label is not None:
        at = route.label
        yield (
            f'<rect class="paper" x="{at.x:.1f}" y="{at.y:.1f}" width="{at.width:.1f}" height="{at.height:.1f}"/>'
            f'<text class="label" x="{at.middle:.1f}" y="{at.y + 12:.1f}">{_text(_cut(arrow.label))}</text>'
        )
    yield "</g>"


def _curve(points: Sequence[Point]) -> str:
    """A curve through all points, vertical in each."""
    (x, y), *rest = points
    path = f"M{x:.1f} {y:.1f}"
    for to_x, to_y in rest:
        middle = (y + to_y) / 2
        straight = abs(x - to_x) < 0.05
        path += f"V{to_y:.1f}" if straight else f"C{x:.1f} {middle:.1f} {to_x:.1f} {middle:.1f} {to_x:.1f} {to_y:.1f}"
        x, y = to_x, to_y
    return path


def _corners(points: Sequence[Point]) -> str:
    """A polyline with rounded corners."""
    x, y = points[0]
    path = f"M{x:.1f} {y:.1f}"
    for before, at, behind in zip(points, points[1:], points[2:], strict=False):
        radius = min(_CORNER, _far(before, at) / 2, _far(at, behind) / 2)
        (x, y), (to_x, to_y) = _towards(at, before, radius), _towards(at, behind, radius)
        path += f"L{x:.1f} {y:.1f}Q{at[0]:.1f} {at[1]:.1f} {to_x:.1f} {to_y:.1f}"
    x, y = points[-1]
    return f"{path}L{x:.1f} {y:.1f}"


def _far(one: Point, other: Point) -> float:
    return abs(one[0] - other[0]) + abs(one[1] - other[1])  # both sides of a corner are parallel to an axis


def _towards(start: Point, end: Point, way: float) -> Point:
    part = way / far if (far := _far(start, end)) else 0.0
    return start[0] + (end[0] - start[0]) * part, start[1] + (end[1] - start[1]) * part


def _tip(name: str) -> str:
    return (
        f'<marker id="{name}" viewBox="0 0 8 8" refX="7.5" refY="4" markerWidth="7" markerHeight="7" '
        f'orient="auto"><path class="{name}" d="M0 0.5 8 4 0 7.5Z"/></marker>'
    )


def _sentence(arrow: Arrow) -> str:
    implied = " (implied)" if arrow.implied else ""
    return f"{arrow.source} to {arrow.target}" + (f", {arrow.label}{implied}" if arrow.label else "")


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _wide(text: str, letter: float) -> float:
    """Maximum width of *text* with letters of width *letter*; East Asian characters are twice as wide."""
    return fsum(letter * (2 if east_asian_width(c) in "WF" else 1) for c in text)


def _text(text: str) -> str:
    return escape(allowed(text))


def _attribute(text: str) -> str:
    return quoteattr(allowed(text))


def allowed(text: str) -> str:
    """*text* without the characters that XML cannot represent."""
    return printable(_FORBIDDEN.sub("\ufffd", text))
