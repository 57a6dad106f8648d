"""A comparison as an SVG picture that needs nothing else: accuracy against calls, what is worth having in a line."""

from collections.abc import Iterator
from xml.sax.saxutils import escape

from coterie.testing.lab.comparing import Comparison, Measured
from coterie.testing.lab.scales import Scales, letter

_WIDTH, _HEIGHT = 460.0, 320.0
_LEFT, _TOP, _BELOW = 64.0, 48.0, 52.0
_LEGEND, _LINE = 340.0, 19.0

_STYLE = """\
svg { --ink: #1f2328; --soft: #59636e; --grid: #d1d9e0; --paper: #ffffff; --worth: #0969da; --other: #8c959f; }
@media (prefers-color-scheme: dark) { svg { --ink: #e6edf3; --soft: #9198a1; --grid: #3d444d; --paper: #0d1117; \
--worth: #4493f8; --other: #6e7681; } }
text { font-family: ui-sans-serif, system-ui, "Segoe UI", Helvetica, Arial, sans-serif; font-size: 12px; \
fill: var(--ink); }
.paper { fill: var(--paper); }
.title { font-size: 15px; font-weight: 600; }
.soft { fill: var(--soft); }
.end { text-anchor: end; } .middle { text-anchor: middle; }
.grid { stroke: var(--grid); stroke-width: 1; }
.range { stroke: var(--other); stroke-width: 1.4; } .worth .range { stroke: var(--worth); }
circle { fill: var(--other); } .worth circle { fill: var(--worth); }
.worth text { font-weight: 600; }
.line { fill: none; stroke: var(--worth); stroke-width: 1.4; stroke-dasharray: 5 4; }"""


def picture(comparison: Comparison) -> str:
    """*comparison* as a whole SVG file."""
    options = comparison.options
    width = _LEFT + _WIDTH + 30 + _LEGEND
    height = max(_TOP + _HEIGHT + _BELOW, _TOP + _LINE * (len(options) + 1))
    title = f"{comparison.pattern}: how often it is right, against calls"
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}" role="img" aria-labelledby="name about">',
        f'<title id="name">{escape(title)}</title>',
        f'<desc id="about">{escape(_in_words(comparison))}</desc>',
        f"<style>\n{_STYLE}\n</style>",
        f'<rect class="paper" width="{width:.0f}" height="{height:.0f}"/>',
        f'<text class="title" x="{_LEFT:.0f}" y="28">{escape(title)}</text>',
        *_drawn(options, Scales(options)),
        *_legend(options),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _drawn(options: tuple[Measured, ...], scales: Scales) -> Iterator[str]:
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
    middle = _LEFT + _WIDTH / 2
    yield f'<text class="soft middle" x="{middle:.0f}" y="{_TOP + _HEIGHT + 38:.0f}">calls a question</text>'
    worth = sorted((one for one in options if one.worth), key=lambda one: one.calls)
    line = " ".join(f"{x(one.calls):.1f},{y(one.accuracy):.1f}" for one in worth)
    yield f'<polyline class="line" points="{line}"/>'
    for n, one in sorted(enumerate(options), key=lambda numbered: numbered[1].worth):
        yield f'<g class="{_class(one)}">'
        yield f'<path class="range" d="M{x(one.calls):.1f} {y(one.low):.1f}V{y(one.high):.1f}"/>'
        yield f'<circle cx="{x(one.calls):.1f}" cy="{y(one.accuracy):.1f}" r="3.5"/>'
        yield f'<text x="{x(one.calls) + 6:.1f}" y="{y(one.accuracy) - 5:.1f}">{letter(n)}</text>'
        yield "</g>"


def _legend(options: tuple[Measured, ...]) -> Iterator[str]:
    left = _LEFT + _WIDTH + 30
    for n, one in enumerate(options):
        at = f'y="{_TOP + _LINE * n + 10:.0f}"'
        numbers = f"{one.accuracy:.1%}, {one.calls:.1f}"
        yield f'<g class="{_class(one)}"><text x="{left:.0f}" {at}>{letter(n)}  {escape(one.name)}</text>'
        yield f'<text class="soft end" x="{left + _LEGEND - 16:.0f}" {at}>{numbers}</text></g>'


def _class(one: Measured) -> str:
    return "worth" if one.worth else "other"


def _in_words(comparison: Comparison) -> str:
    """The picture for those who do not see it."""
    said = (f"{one.name}: right {one.accuracy:.1%}, {one.calls:.1f} calls" for one in comparison.options if one.worth)
    return f"{comparison.runs} questions each. Worth having: {'; '.join(said)}."
