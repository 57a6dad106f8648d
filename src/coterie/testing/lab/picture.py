"""A comparison as a self-contained SVG picture: accuracy against calls, the options worth having connected by a line.

It follows the light or dark mode of the page; programs without such modes draw it light.
"""

from collections.abc import Iterator, Sequence
from string import Template
from unicodedata import east_asian_width
from xml.sax.saxutils import escape

from coterie.testing.lab.comparison import Comparison, Measured
from coterie.testing.lab.scales import Scales, letter
from coterie.topology.drawing.layers import Rectangle
from coterie.topology.drawing.svg import allowed, document

_WIDTH, _HEIGHT = 460.0, 320.0
_LEFT, _TOP, _BELOW, _GAP, _MARGIN = 64.0, 56.0, 52.0, 36.0, 16.0
_LINE = 19.0
_NUMBERS = 96.0
_CHARACTER, _TITLE = 7.4, 9.2  # how wide a letter is at most, on the average, in its size of type
_DOT = 3.5

_STYLE = """\
text { font-family: ui-sans-serif, system-ui, "Segoe UI", Helvetica, Arial, sans-serif; font-size: 12px; }
.title { font-size: 15px; font-weight: 600; }
.end { text-anchor: end; } .middle { text-anchor: middle; }
.grid { stroke-width: 1; }
.range { stroke-width: 1.4; }
.line { fill: none; stroke-width: 1.4; stroke-dasharray: 5 4; }
.mark { paint-order: stroke; stroke-width: 3; stroke-linejoin: round; }
.mark.worth, .worth text { font-weight: 600; }"""
_COLOURS = Template("""\
text { fill: $ink; } .soft { fill: $soft; } .paper { fill: $paper; } .mark { stroke: $paper; } .grid { stroke: $grid; }
.range { stroke: $other; } .worth .range, .line { stroke: $worth; }
circle { fill: $other; } .worth circle { fill: $worth; }""")
_LIGHT = {
    "ink": "#1f2328",
    "soft": "#59636e",
    "grid": "#d1d9e0",
    "paper": "#ffffff",
    "worth": "#0969da",
    "other": "#8c959f",
}
_DARK = {
    "ink": "#e6edf3",
    "soft": "#9198a1",
    "grid": "#3d444d",
    "paper": "#0d1117",
    "worth": "#4493f8",
    "other": "#6e7681",
}


def _overlap(one: Rectangle, other: Rectangle) -> bool:
    return one.x < other.right and other.x < one.right and one.y < other.bottom and other.y < one.bottom


def picture(comparison: Comparison) -> str:
    """*comparison* as a whole SVG file."""
    options = comparison.options
    title = f"{comparison.pattern}: how often it is right, against calls"
    legend = max(_wide(f"{letter(len(options))}  {one.name}") * _CHARACTER for one in options) + _NUMBERS
    width = max(_LEFT + _WIDTH + _GAP + legend, _LEFT + _wide(title) * _TITLE) + _MARGIN
    height = max(_TOP + _HEIGHT + _BELOW, _TOP + _LINE * (len(options) + 1))
    light, dark = _COLOURS.substitute(_LIGHT), _COLOURS.substitute(_DARK)
    style = f"{_STYLE}\n{light}\n@media (prefers-color-scheme: dark) {{\n{dark}\n}}"
    lines = [
        f'<rect class="paper" width="{width:.0f}" height="{height:.0f}"/>',
        f'<text class="title" x="{_LEFT:.0f}" y="26">{escape(title)}</text>',
        *_drawn(options, Scales(options)),
        *_legend(options, width - _MARGIN),
    ]
    return allowed(document(title, _in_words(comparison), style, width, height, lines))


def _drawn(options: Sequence[Measured], scales: Scales) -> Iterator[str]:
    def x(calls: float) -> float:
        return _LEFT + scales.right(calls) * _WIDTH

    def y(accuracy: float) -> float:
        return _TOP + (1 - scales.up(accuracy)) * _HEIGHT

    for accuracy in scales.accuracies:
        yield f'<path class="grid" d="M{_LEFT:.0f} {y(accuracy):.1f}h{_WIDTH:.0f}"/>'
        yield f'<text class="soft end" x="{_LEFT - 8:.0f}" y="{y(accuracy) + 4:.1f}">{accuracy:.0%}</text>'
    for calls in scales.calls:
        yield f'<path class="grid" d="M{x(calls):.1f} {_TOP:.0f}v{_HEIGHT:.0f}"/>'
        yield f'<text class="soft middle" x="{x(calls):.1f}" y="{_TOP + _HEIGHT + 18:.0f}">{calls:g}</text>'
    yield f'<text class="soft end" x="{_LEFT - 8:.0f}" y="{_TOP - 12:.0f}">right</text>'
    middle = _LEFT + _WIDTH / 2
    yield f'<text class="soft middle" x="{middle:.0f}" y="{_TOP + _HEIGHT + 38:.0f}">calls a question</text>'
    worth = sorted((one for one in options if one.worth), key=lambda one: one.calls)
    line = " ".join(f"{x(one.calls):.1f},{y(one.accuracy):.1f}" for one in worth)
    yield f'<polyline class="line" points="{line}"/>'
    for one in sorted(options, key=lambda one: one.worth):  # options worth having are drawn last
        right, low, high = x(one.calls), y(one.low), y(one.high)
        yield f'<g class="{_class(one)}"><path class="range" d="M{right:.1f} {low:.1f}V{high:.1f}"/>'
        yield f'<circle cx="{right:.1f}" cy="{y(one.accuracy):.1f}" r="{_DOT}"/></g>'
    yield from _letters(options, [(x(one.calls), y(one.accuracy)) for one in options])


def _letters(options: Sequence[Measured], dots: Sequence[tuple[float, float]]) -> Iterator[str]:
    """The letter of each option beside its dot, without overlaps if possible; options worth having come first."""
    taken = [Rectangle(x - _DOT, y - _DOT, 2 * _DOT, 2 * _DOT) for x, y in dots]
    for n in sorted(range(len(options)), key=lambda n: not options[n].worth):
        (x, y), wide = dots[n], _CHARACTER * len(letter(n))
        sides = [side for side in (x + 6, x - 6 - wide) if side >= _LEFT]
        places = [Rectangle(side, y + up - 11, wide, 11) for side in sides for up in (-3, 13, -16, 26)]
        place = next((one for one in places if not any(_overlap(one, other) for other in taken)), places[0])
        taken.append(place)
        at = f'x="{place.x:.1f}" y="{place.bottom - 1:.1f}"'
        yield f'<text class="mark {_class(options[n])}" {at}>{letter(n)}</text>'


def _legend(options: Sequence[Measured], right: float) -> Iterator[str]:
    left = _LEFT + _WIDTH + _GAP
    names = left + _CHARACTER * (len(letter(len(options))) + 1)
    yield f'<text class="soft end" x="{right:.0f}" y="{_TOP - 12:.0f}">right, calls</text>'
    for n, one in enumerate(options):
        at = f'y="{_TOP + _LINE * n + 10:.0f}"'
        numbers = f"{one.accuracy:.1%}, {one.calls:.1f}"
        yield f'<g class="{_class(one)}"><text x="{left:.0f}" {at}>{letter(n)}</text>'
        yield f'<text x="{names:.0f}" {at}>{escape(one.name)}</text>'
        yield f'<text class="soft end" x="{right:.0f}" {at}>{numbers}</text></g>'


def _class(one: Measured) -> str:
    return "worth" if one.worth else "other"


def _wide(text: str) -> int:
    """The width of *text* in letters."""
    return sum(2 if east_asian_width(one) in "FW" else 1 for one in text)


def _in_words(comparison: Comparison) -> str:
    """The description of the picture for screen readers."""
    said = (f"{one.name}: right {one.accuracy:.1%}, {one.calls:.1f} calls" for one in comparison.options if one.worth)
    return f"{comparison.runs} questions each. Worth having: {'; '.join(said)}."
