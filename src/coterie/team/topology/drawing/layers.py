"""Layout of a drawing: boxes in layers from top to bottom, arrows between them, loops at the right.

A box is one layer below the lowest of its predecessors. Each downward arrow is split into segments of one layer, and
its label gets its own position between two layers, so nothing overlaps. A back arrow runs in a lane to the right of all
boxes. A layer that is too wide is wrapped into several. Independent of the output format: sizes in, positions out.
"""

from bisect import bisect_right, insort
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from math import ceil, fsum  # exact sum, so a picture is the same on every Python

from msgspec import Struct

from coterie.team.topology.drawing.graph import Arrow, Graph

GAP = 28.0
"""Between boxes side by side."""

LAYER_GAP = 40.0
"""Between layers; half of it without a label."""

WIDEST = 1100.0
"""The width of a layer, or of the labels below a box, above which it is wrapped."""

_LANE_GAP = 18.0
_ROW = 720.0  # boxes outside the flow are in rows of this width, or of the flow's
_SWEEPS = 12
_STRAIGHT = 6.0  # weight of an arrow segment relative to a box in the x assignment

Size = tuple[float, float]
Point = tuple[float, float]


class Rectangle(Struct, frozen=True):
    """A rectangle, given by its upper left corner."""

    x: float
    y: float
    width: float
    height: float

    @property
    def middle(self) -> float:
        """The x of its middle."""
        return self.x + self.width / 2

    @property
    def right(self) -> float:
        """The x of its right side."""
        return self.x + self.width

    @property
    def bottom(self) -> float:
        """The y of its lower side."""
        return self.y + self.height


class Route(Struct, frozen=True):
    """The path of an arrow.

    Attributes:
        points: From its source to its target; corners for a back arrow.
        label: Position of its label.
    """

    arrow: Arrow
    points: tuple[Point, ...]
    label: Rectangle | None = None


class Placed(Struct, frozen=True):
    """The finished layout, within *width* and *height*."""

    boxes: Mapping[str, Rectangle]
    routes: tuple[Route, ...]
    width: float
    height: float


class _Spot(Struct, eq=False):
    """An item of a layer: a box, a label, or a point that an arrow passes."""

    width: float
    height: float
    weight: float = 1.0
    above: list["_Spot"] = []
    below: list["_Spot"] = []
    middle: float = 0.0
    order: float = 0.0


def place(graph: Graph, sizes: Mapping[str, Size], labels: Mapping[str, Size]) -> Placed:
    """Place the boxes and arrows of *graph*.

    Args:
        sizes: Of each box, by name.
        labels: Of each label, by its text.
    """
    down = [arrow for arrow in graph.arrows if not arrow.back]
    layer = _wrapped(_layers([box.name for box in graph.boxes if box.in_flow], down), sizes)
    crowded = Counter[str]()
    for arrow in down:
        crowded[arrow.source] += int(labels[arrow.label][0] + GAP) if arrow.label else 0
    layers: list[list[_Spot]] = [[] for _ in range(2 * max(layer.values(), default=0) + 1)]
    spots = {name: _Spot(*sizes[name]) for name in layer}
    for name in layer:
        layers[2 * layer[name]].append(spots[name])
    chains = []
    for arrow in down:
        label = labels[arrow.label] if arrow.label else (0.0, 0.0)
        between = layers[2 * layer[arrow.source] + 1 : 2 * layer[arrow.target]]
        at = len(between) - 1 if crowded[arrow.source] > WIDEST else 0
        chains.append(_chain(spots[arrow.source], spots[arrow.target], between, label, at))
    _order(layers)
    _settle(layers)
    rows = _rows(layers)
    boxes = {
        name: Rectangle(spot.middle - spot.width / 2, rows[2 * layer[name]].y, spot.width, spot.height)
        for name, spot in spots.items()
    }
    routes = [
        _down(arrow, chain, boxes, rows[2 * layer[arrow.source] + 1 :])
        for arrow, chain in zip(down, chains, strict=True)
    ]
    routes += _lanes([arrow for arrow in graph.arrows if arrow.back], boxes, rows, labels)
    idle = [(box.name, sizes[box.name]) for box in graph.boxes if not box.in_flow]
    return _framed(graph, boxes, routes, idle)


def _layers(names: Sequence[str], down: Iterable[Arrow]) -> dict[str, int]:
    """The layer of each box, from 0; *names* must be in topological order."""
    sources: dict[str, list[str]] = {name: [] for name in names}
    for arrow in down:
        sources[arrow.target].append(arrow.source)
    layer: dict[str, int] = {}
    for name in names:
        layer[name] = max((layer[source] + 1 for source in sources[name]), default=0)
    return layer


def _wrapped(layer: Mapping[str, int], sizes: Mapping[str, Size]) -> dict[str, int]:
    """The layers with each one that is wider than `WIDEST` in place of several; neighbours are in different ones."""
    rows = [[name for name in layer if layer[name] == n] for n in range(max(layer.values(), default=-1) + 1)]
    found: dict[str, int] = {}
    begin = 0
    for row in rows:
        lines = ceil(fsum(sizes[name][0] + GAP for name in row) / WIDEST)
        found |= {name: begin + n % lines for n, name in enumerate(row)}
        begin += lines
    return found


def _chain(source: _Spot, target: _Spot, rows: Sequence[list[_Spot]], label: Size, at: int) -> list[_Spot]:
    """The spots that an arrow passes in *rows*, with its label in the row number *at*."""
    chain = [_Spot(*(label if n == at else (0.0, 0.0)), weight=_STRAIGHT) for n in range(len(rows))]
    for row, spot in zip(rows, chain, strict=True):
        row.append(spot)
    for above, below in pairwise((source, *chain, target)):
        above.below.append(below)
        below.above.append(above)
    return chain


def _order(layers: Sequence[list[_Spot]]) -> None:
    """Order each layer by the barycentre of its neighbours, down and up, and keep the order with fewest crossings."""
    for row in layers:
        for at, spot in enumerate(row):
            spot.order = at
    best, fewest = [list(row) for row in layers], _crossings(layers)
    for sweep in range(_SWEEPS):
        if not fewest:
            break
        for row in layers if sweep % 2 == 0 else reversed(layers):
            middles = {spot: _mean(spot.above if sweep % 2 == 0 else spot.below) for spot in row}
            row.sort(key=lambda spot: spot.order if (middle := middles[spot]) is None else middle)
            for at, spot in enumerate(row):
                spot.order = at / max(1, len(row) - 1) * 1000
        if (crossings := _crossings(layers)) < fewest:
            best, fewest = [list(row) for row in layers], crossings
    for row, kept in zip(layers, best, strict=True):
        row[:] = kept


def _mean(spots: Sequence[_Spot]) -> float | None:
    return fsum(spot.order for spot in spots) / len(spots) if spots else None


def _crossings(layers: Sequence[list[_Spot]]) -> int:
    """Number of arrow crossings between two layers, counted as inversions."""
    found = 0
    for above, below in pairwise(layers):
        at = {spot: number for number, spot in enumerate(below)}
        seen: list[int] = []  # where the arrows so far end, sorted
        for end in (end for spot in above for end in sorted(at[other] for other in spot.below)):
            found += len(seen) - bisect_right(seen, end)
            insort(seen, end)
    return found


def _settle(layers: Sequence[list[_Spot]]) -> None:
    """Assign each spot its x, as near to its neighbours as the layer's order and gaps allow."""
    for row in layers:
        _apart(row, [0.0] * len(row))
    for sweep in range(_SWEEPS):
        for row in layers if sweep % 2 == 0 else reversed(layers):
            _apart(row, [_wish(spot, down=sweep % 2 == 0, both=sweep >= _SWEEPS - 4) for spot in row])


def _wish(spot: _Spot, *, down: bool, both: bool) -> float:
    near = [*spot.above, *spot.below] if both else spot.above if down else spot.below
    total = fsum(other.weight for other in near)
    return fsum(other.middle * other.weight for other in near) / total if near else spot.middle


def _apart(row: Sequence[_Spot], wishes: Sequence[float]) -> None:
    """Place *row* in order and apart, with the least sum of squared distances from *wishes* (isotonic regression)."""
    offsets = [0.0]
    for left, right in pairwise(row):
        gap = GAP if left.width and right.width else GAP / 2
        offsets.append(offsets[-1] + (left.width + right.width) / 2 + gap)
    pools: list[tuple[float, float, int]] = []  # sum of weighted wishes, weight, members
    for spot, wish, offset in zip(row, wishes, offsets, strict=False):
        pools.append(((wish - offset) * spot.weight, spot.weight, 1))
        while len(pools) > 1 and pools[-2][0] / pools[-2][1] >= pools[-1][0] / pools[-1][1]:
            last, before = pools.pop(), pools.pop()
            pools.append((before[0] + last[0], before[1] + last[1], before[2] + last[2]))
    places = [total / weight for total, weight, members in pools for _ in range(members)]
    for spot, start, offset in zip(row, places, offsets, strict=False):
        spot.middle = start + offset


def _rows(layers: Sequence[list[_Spot]]) -> list[Rectangle]:
    """The rectangle that each layer fills."""
    rows: list[Rectangle] = []
    y = 0.0
    for row in layers:
        left = min((spot.middle - spot.width / 2 for spot in row), default=0.0)
        right = max((spot.middle + spot.width / 2 for spot in row), default=0.0)
        rows.append(Rectangle(left, y, right - left, max((spot.height for spot in row), default=0.0)))
        y += rows[-1].height + LAYER_GAP / 2
    return rows


def _down(arrow: Arrow, chain: Sequence[_Spot], boxes: Mapping[str, Rectangle], rows: Sequence[Rectangle]) -> Route:
    """A downward arrow: through the middle of each spot, vertical there; *rows* begin below its source."""
    source, target = boxes[arrow.source], boxes[arrow.target]
    points: list[Point] = [(source.middle, source.bottom)]
    label: Rectangle | None = None
    for spot, row in zip(chain, rows, strict=False):
        if spot.width:
            y = row.y + (row.height - spot.height) / 2
            label = Rectangle(spot.middle - spot.width / 2, y, spot.width, spot.height)
        if row.height:
            points += [(spot.middle, row.y), (spot.middle, row.bottom)]
    points.append((target.middle, target.y))
    return Route(arrow, tuple(points), label)


def _lanes(
    back: Sequence[Arrow], boxes: Mapping[str, Rectangle], rows: Sequence[Rectangle], labels: Mapping[str, Size]
) -> list[Route]:
    """The back arrows, each in a lane to the right of everything beside it, short ones inside."""
    routes: list[Route] = []
    taken = list(rows)
    docks = _Docks(boxes)
    ways = [(docks.dock(arrow.source, below=True), docks.dock(arrow.target, below=False), arrow) for arrow in back]
    for leaving, entering, arrow in sorted(ways, key=lambda way: way[0][-1][1] - way[1][-1][1]):
        top, bottom = sorted((leaving[-1][1], entering[-1][1]))
        width, height = labels[arrow.label] if arrow.label else (0.0, 0.0)
        middle = (top + bottom) / 2
        top, bottom = min(top, middle - height / 2), max(bottom, middle + height / 2)
        x = max((each.right for each in taken if each.y < bottom and each.bottom > top), default=0.0) + _LANE_GAP
        label = Rectangle(x + 4, middle - height / 2, width, height) if arrow.label else None
        taken.append(Rectangle(x, top, width + 4, bottom - top))
        points = (*leaving, (x, leaving[-1][1]), (x, entering[-1][1]), *reversed(entering))
        routes.append(Route(arrow, points, label))
    return routes


class _Docks:
    """Where back arrows leave and enter boxes: on the right side if free, else below and above."""

    def __init__(self, boxes: Mapping[str, Rectangle]) -> None:
        self._boxes = boxes
        self._last: dict[float, float] = {}
        for box in boxes.values():
            self._last[box.y] = max(self._last.get(box.y, box.x), box.x)
        self._docked = Counter[tuple[str, bool]]()

    def dock(self, name: str, *, below: bool) -> list[Point]:
        """From the box to a point with a free path to the lane; *below* where an arrow leaves."""
        box = self._boxes[name]
        self._docked[name, below] += 1
        share = _share(self._docked[name, below])
        if self._last[box.y] == box.x:
            side = box.height / 2 * share
            return [(box.right, box.bottom - side if below else box.y + side)]
        x = box.middle + box.width / 2 * share
        return [(x, box.bottom), (x, box.bottom + LAYER_GAP / 4)] if below else [(x, box.y), (x, box.y - LAYER_GAP / 4)]


def _share(number: int) -> float:
    """1/2, 1/4, 3/4, 1/8, …: a distinct position for each, counted from 1."""
    whole = 1 << number.bit_length()
    return (2 * (number - whole // 2) + 1) / whole


def _framed(
    graph: Graph, boxes: Mapping[str, Rectangle], routes: Sequence[Route], idle: Iterable[tuple[str, Size]]
) -> Placed:
    """Everything shifted to begin at 0, with unconnected boxes below."""
    found = {id(route.arrow): route for route in routes}
    corners = [Rectangle(x, y, 0.0, 0.0) for route in routes for x, y in route.points]
    everything = [*boxes.values(), *corners, *(route.label for route in routes if route.label is not None)]
    left = min((each.x for each in everything), default=0.0)
    top = min((each.y for each in everything), default=0.0)
    width = max((each.right for each in everything), default=left) - left
    height = max((each.bottom for each in everything), default=top) - top
    placed = {name: _moved(place, left, top) for name, place in boxes.items()}
    x, y, row = 0.0, height + LAYER_GAP if boxes else 0.0, 0.0
    for name, (wide, high) in idle:
        if x and x + wide > max(width, _ROW):
            x, y, row = 0.0, y + row + GAP, 0.0
        placed[name] = Rectangle(x, y, wide, high)
        x, row = x + wide + GAP, max(row, high)
    return Placed(
        boxes=placed,
        routes=tuple(
            Route(
                arrow,
                tuple((x - left, y - top) for x, y in found[id(arrow)].points),
                None if (label := found[id(arrow)].label) is None else _moved(label, left, top),
            )
            for arrow in graph.arrows
        ),
        width=max([width, *(place.right for place in placed.values())]),
        height=max([height, *(place.bottom for place in placed.values())]),
    )


def _moved(place: Rectangle, left: float, top: float) -> Rectangle:
    return Rectangle(place.x - left, place.y - top, place.width, place.height)
