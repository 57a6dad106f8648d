"""The written pictures: everything is there, nothing covers anything, and no text escapes its place."""

import re
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.team import formats, planning
from coterie.team.planning.teams import as_topology, briefly, children
from coterie.team.topology.conditions import Condition, Operator
from coterie.team.topology.drawing import Arrow, Box, Graph, dot, draw, mermaid, svg
from coterie.team.topology.model import Agent, ArrowGroup, Flow, Topology

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[4]
XML = "{http://www.w3.org/2000/svg}"
NASTY = 'a "b" <c> & d\\ | #1; --> ]]> [x] {y}\n\x00\x1b\ud800 é 漢'

names = st.sampled_from([f"node-{n}" for n in range(9)])
labels = st.sampled_from([None, Condition("node-1", "verdict", Operator.EQ, "a rather long answer")])
groups = st.builds(
    ArrowGroup,
    source=names,
    targets=st.lists(names, min_size=1, max_size=3, unique=True).map(tuple),
    when=labels,
    max=st.sampled_from([None, None, 3]),
)


@st.composite
def teams(draw: st.DrawFn) -> Topology:
    arrows = tuple(draw(st.lists(groups, max_size=14)))
    mentions = tuple(dict.fromkeys(name for group in arrows for name in (group.source, *group.targets)))
    nodes = tuple(Agent(name=name, model="opus") for name in (*mentions, "spare", "other"))
    return Topology(name="t", nodes=nodes, flow=Flow(groups=arrows, mentions=mentions))


def rectangles(picture: ElementTree.Element) -> Iterator[tuple[float, float, float, float]]:
    """Boxes and the paper under labels, as left, top, right, bottom."""
    for group in picture.iter(f"{XML}g"):
        rectangle = group.find(f"{XML}rect")
        if rectangle is not None and group.get("class") is not None:
            x, y, width, height = (float(rectangle.get(name, "nan")) for name in ("x", "y", "width", "height"))
            yield x, y, x + width, y + height


@given(teams())
@settings(max_examples=60)
def test_everything_stands_in_the_picture_and_apart(team: Topology) -> None:
    """Every box and every arrow is there; boxes and labels do not cover each other and lie inside the frame."""
    graph = draw(team)
    picture = ElementTree.fromstring(svg(graph))
    _, _, width, height = map(float, picture.get("viewBox", "").split())

    assert [group.get("data-name") for group in picture.iter(f"{XML}g") if group.get("data-name")] == [
        box.name for box in graph.boxes
    ]
    assert [
        (group.get("data-from"), group.get("data-to")) for group in picture.iter(f"{XML}g") if group.get("data-to")
    ] == [(arrow.source, arrow.target) for arrow in graph.arrows]
    found = list(rectangles(picture))
    assert len(found) == len(graph.boxes) + sum(bool(arrow.label) for arrow in graph.arrows)
    assert all(0 <= left < right <= width and 0 <= top < bottom <= height for left, top, right, bottom in found)
    for one, other in combinations(found, 2):
        assert one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]
    for path in picture.iter(f"{XML}path"):
        points = [float(number) for number in re.findall(r"-?\d+\.\d", path.get("d", ""))]
        assert all(-1 <= number <= max(width, height) for number in points)


def test_a_big_team_is_drawn() -> None:
    """100 nodes in a flow that fans out, joins and turns back."""
    arrows = []
    for n in range(99):
        targets = tuple(f"n{to}" for to in (n + 1, n + 7, n + 31) if to < 100)
        arrows.append(ArrowGroup(source=f"n{n}", targets=targets))
        if n % 10 == 9:
            arrows.append(ArrowGroup(source=f"n{n}", targets=(f"n{n - 5}",), max=2))
    mentions = tuple(f"n{n}" for n in range(100))
    graph = draw(Topology(name="big", flow=Flow(groups=tuple(arrows), mentions=mentions)))

    assert len(list(rectangles(ElementTree.fromstring(svg(graph))))) == 100 + 9
    assert len(mermaid(graph).splitlines()) == 1 + 100 + len(graph.arrows)


def test_no_text_escapes_its_place() -> None:
    """Whatever stands in a name, a note, a description or a condition is shown, and is nothing else."""
    boxes = (Box(name="a", kind="agent", note=NASTY, about=(NASTY,)), Box(name="b", kind="human"))
    arrows = (Arrow(source="a", target="b", label=NASTY), Arrow(source="b", target="a", label=NASTY, back=True))
    graph = Graph(name=NASTY, about=NASTY, boxes=boxes, arrows=arrows, nested={"a": Graph(name=NASTY, boxes=boxes)})

    picture = ElementTree.fromstring(svg(graph).encode())
    assert picture.findtext(f"{XML}title", "").startswith(
        'a "b" <c> & d\\ | #1; --> ]]> [x] {y}\n\ufffd\ufffd\ufffd é 漢'
    )
    for text in re.findall(r'"([^"]*)"', mermaid(graph)):
        assert re.fullmatch(r"(#\d+;|<br/>|[\w \-.,:/()='!?+*@])*", text)
    for line in dot(graph).splitlines():
        assert re.fullmatch(r'(?:[^"\\]|"(?:[^"\\]|\\.)*")*', line)
        assert line.isprintable()
    for write in (dot, mermaid, svg):
        hides = Graph(name="a", about="", boxes=(Box(name="a\u3164\ufe00\u200b\u202e", kind="agent"),))
        assert not {*"\u3164\ufe00\u200b\u202e"} & {*write(hides)}


def test_mermaid_and_dot_say_what_there_is() -> None:
    """Shapes by kind, loops broken, the teams within in frames of their own."""
    boxes = (Box(name="a", kind="agent", note="opus"), Box(name="b", kind="human", starts=True))
    arrows = (Arrow(source="a", target="b", label="max 3"), Arrow(source="b", target="a", back=True))
    graph = Graph(name="t", boxes=boxes, arrows=arrows, nested={"a": Graph(name="inner", boxes=boxes[1:])})

    assert mermaid(graph).splitlines() == [
        "flowchart TB",
        '  n0("a<br/>opus")',
        '  n1(["b"])',
        '  n0 -->|"max 3"| n1',
        "  n1 -.-> n0",
        '  subgraph n0t["inner"]',
        '    n0_0(["b"])',
        "  end",
        "  n0 -.- n0t",
    ]
    assert dot(graph).splitlines()[4:] == [
        '  "a" [shape=box style="rounded" label="a\\nopus" tooltip="agent"]',
        '  "b" [shape=box style="rounded,bold" label="b" tooltip="human"]',
        '  "a" -> "b" [label="max 3"]',
        '  "b" -> "a" [style=dashed constraint=false]',
        '  subgraph "cluster a/" {',
        '    label="inner"',
        '    "a/b" [shape=box style="rounded,bold" label="b" tooltip="human"]',
        "  }",
        '  "a" -> "a/b" [style=dotted dir=none]',
        "}",
    ]


def test_a_team_within_is_drawn_from_its_plan() -> None:
    """Its nodes, arrows and bounds, as it runs."""
    source = formats.read(ROOT / "examples" / "nested" / "release.at")
    assert source.topology is not None
    plan, _ = planning.plan(source.topology)
    inner = children(plan)["check"]
    graph = draw(source.topology, briefly(plan), {"check": draw(as_topology(inner), briefly(inner))})

    assert [box.note for box in graph.boxes] == ["sonnet", "topology polish", "haiku"]
    assert [box.name for box in graph.nested["check"].boxes] == ["editor", "critic"]
    assert [arrow.label for arrow in graph.nested["check"].arrows] == ["", 'verdict == "revise", max 3']
    assert "check · polish" in svg(graph)


def test_the_picture_of_the_example_is_fresh() -> None:
    """`coterie topology graph examples/repo-review/review.at -f svg -o docs/pictures/repo-review.svg` draws it anew."""
    source = formats.read(ROOT / "examples" / "repo-review" / "review.at")
    assert source.topology is not None
    plan, _ = planning.plan(source.topology)

    drawn = svg(draw(source.topology, briefly(plan)))
    assert drawn == (ROOT / "docs" / "pictures" / "repo-review.svg").read_text(encoding="utf-8")
