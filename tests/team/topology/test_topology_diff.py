"""What changed between two teams, by meaning."""

import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bundles import bundle
from hypothesis import given
from hypothesis import strategies as st
from msgspec import NODEFAULT
from msgspec.structs import fields, replace

from coterie.interfaces.lsp.document import Document
from coterie.interfaces.lsp.names import NameKind, Symbol
from coterie.interfaces.lsp.rename import apply, rename
from coterie.team.formats import read, read_text
from coterie.team.topology.diff import Difference, DifferenceKind, diff
from coterie.team.topology.model import Agent, ArrowGroup, Flow, Topology

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[3]
DATA = ROOT / "tests" / "data" / "at"
FILES = sorted((DATA / "valid").glob("*.at"))
FILES += [DATA / "composing" / "valid" / name / "main.at" for name in ("import", "include", "params")]
BASE = """\
topology t : [pipeline, fan-out] {
  meta { version: "1" }
  roles { critic: "You doubt" }
  agent a { model: opus  tools: [Read, Grep]  outputs { verdict: yes | no } }
  agent b { model: sonnet  retry: 1  reads: [a, c]  writes: [x, y] }
  human c { description: "Look" }
  gates { gate g { after: a  before: b  run: "true" } }
  settings { allow: ["Read"] }
  flow {
    a -> [b, c]
    b -> a  [when a.verdict == no, max 3]
    b -> c  [when a.verdict == yes]
  }
}
"""


def team(text: str = BASE, *changes: tuple[str, str]) -> Topology:
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    topology = read_text(text).topology
    assert topology is not None
    return topology


def changed(*changes: tuple[str, str]) -> list[tuple[Any, ...]]:
    return [said(change) for change in diff(team(), team(BASE, *changes))]


def said(change: Difference) -> tuple[Any, ...]:
    return change.kind.value, change.what, change.field, change.old, change.new


@bundle(
    ("old", "new", "found"),
    [
        ("model: opus", "model: haiku", ("changed", "agent a", "model", "opus", "haiku")),
        ("retry: 1  ", "", ("removed", "agent b", "retry", 1, None)),
        ("model: opus", "model: opus  description: X", ("added", "agent a", "description", "", "X")),
        ("yes | no", "yes", ("changed", "agent a", "outputs.verdict.values", ["yes", "no"], ["yes"])),
        ("[a, c]", "[c, a]", ("changed", "agent b", "reads", ["a", "c"], ["c", "a"])),
        ('description: "Look"', "", ("removed", "human c", "description", "Look", "")),
        ("human c {", "agent c {", ("changed", "agent c", "kind", "human", "agent")),
        ('"You doubt"', '"You trust"', ("changed", "role critic", "", "You doubt", "You trust")),
        ('version: "1"', 'version: "2"', ("changed", "meta", "version", "1", "2")),
        (", fan-out", "", ("changed", "topology", "patterns", ["pipeline", "fan-out"], ["pipeline"])),
        ("topology t", "topology u", ("changed", "topology", "name", "t", "u")),
        ("max 3", "max 4", ("changed", "arrow b -> a", "max", 3, 4)),
        ("max 3", "max 3, per c", ("changed", "arrow b -> a", "per", "run", "c")),
        ("a.verdict == yes", "b.n > 3", ("changed", "arrow b -> c", "when", 'a.verdict == "yes"', "b.n > 3")),
        ("before: b  ", "before: c  ", ("changed", "gate g", "before", "b", "c")),
    ],
)  # fmt: skip
def test_a_field_that_changed_is_named(old: str, new: str, found: tuple[Any, ...]) -> None:
    """With the thing it belongs to and both values."""
    assert found in changed((old, new))


def test_what_comes_and_goes_is_told_whole() -> None:
    """An agent, an arrow, a block."""
    found = changed(
        ('  human c { description: "Look" }\n', "  agent d { model: m }\n"), ("b -> c  [when", "b -> d  [when")
    )

    assert found == [
        ("removed", "human c", "", {"name": "c", "description": "Look"}, None),
        ("added", "agent d", "", None, {"name": "d", "model": "m"}),
        (
            "changed",
            "arrow b -> d",
            "targets",
            ["c"],
            ["d"],
        ),
    ]


@bundle(
    ("old", "new"),
    [
        ("[Read, Grep]", "[Grep, Read]"),
        ("yes | no", "no | yes"),
        ("[pipeline, fan-out]", "[fan-out, pipeline]"),
        ("a -> [b, c]", "a -> [c, b]"),
        ("writes: [x, y]", "writes: [y, x]"),
        ("  meta {", "# said\n\n  meta   {"),
    ],
)
def test_what_means_nothing_is_no_change(old: str, new: str) -> None:
    """The order of tools, tags and members; layout and comments."""
    assert [each for each in changed((old, new)) if each[0] != "reordered"] == []


@bundle(
    ("declared", "field"),
    [
        ("agent z { model: m {} }", "skills"),
        ("agent z { model: m {} }", "disallowed-tools"),
        ("orchestrator { model: m {} }", "handles"),
        ("group z { {} }", "members"),
    ],
)
def test_the_order_of_a_set_is_no_change(declared: str, field: str) -> None:
    """How often something is in it is one."""
    one, other, more = (
        team(BASE, ("  flow {", f"  {declared.replace('{}', f'{field}: {values}')}\n  flow {{"))
        for values in ("[a, c]", "[c, a]", "[a, c, a]")
    )

    assert diff(one, other) == ()
    assert [each.field.removeprefix("extra.") for each in diff(one, more)] == [field]


def test_the_order_of_arrows_is_told_where_it_decides() -> None:
    """Which of a node's arrows comes first: when all are spent, that one is taken."""
    first, second = BASE.splitlines()[10:12]
    swapped = team(BASE, (f"{first}\n{second}\n", f"{second}\n{first}\n"))

    assert [said(each) for each in diff(team(), swapped)] == [
        ("reordered", "arrows from b", "", ["b -> a", "b -> c"], ["b -> c", "b -> a"]),
    ]


def test_who_starts_first_is_told() -> None:
    """Of two that may start at once, the first mentioned does."""
    one, other = "flow { a -> c b -> c }", "flow { b -> c a -> c }"
    head = "topology t : [pipeline] { agent a { model: m } agent b { model: m } agent c { model: m } "

    assert [(each.what, each.old, each.new) for each in diff(team(f"{head}{one} }}"), team(f"{head}{other} }}"))] == [
        ("arrows into c", ["a -> c", "b -> c"], ["b -> c", "a -> c"]),
        ("start order", ["a", "b", "c"], ["b", "a", "c"]),
    ]


def test_a_new_name_is_one_change() -> None:
    """Arrows, conditions, gates and whoever reads it follow."""
    renamed = re.sub(r"\ba\b(?!nd| [a-z])", "first", BASE.replace("agent a {", "agent first {"))

    assert [said(each) for each in diff(team(), team(renamed))] == [("renamed", "agent a", "", "a", "first")]


@bundle("path", [*(DATA / "valid").glob("*.at"), DATA / "composing/valid/import/polish.at"], ids=lambda path: path.stem)
def test_a_new_name_is_one_change_wherever_it_is_written(path: Path) -> None:
    """In jobs, skills, fallbacks, interfaces: wherever an editor renames it."""
    document = Document.of(path.read_text())
    before = document.source.topology
    assert before is not None
    for node in (node for node in before.nodes if node.name != "orchestrator"):
        offset = document.names.of(Symbol(NameKind.NODE, node.name))[0].offset
        after = read_text(apply(document.text.content, rename(document, offset, "renamed"))).topology
        assert after is not None
        assert [(each.kind.value, each.old, each.new) for each in diff(before, after)] == [
            ("renamed", node.name, "renamed")
        ]


def test_who_fills_another_slot_is_another() -> None:
    """Agents that say the same, where one leaves and one comes."""
    old, new = (
        read_text(
            "pattern: {type: debate, config: {max_rounds: 2}, "
            f"slots: {{proponent: {one}, opponent: {other}, mediator: judge}}}}\n"
            f"agents: {{{one}: {{command: [cat]}}, {other}: {{command: [cat]}}, judge: {{command: [tac]}}}}\n",
            "t.yaml",
        ).topology
        for one, other in (("x", "y"), ("y", "z"))
    )
    assert old is not None
    assert new is not None
    assert DifferenceKind.RENAMED not in {each.kind for each in diff(old, new)}


@bundle(
    ("before", "after", "found"),
    [
        ("b -> a [when b.v == x] b -> a [when b.v == x, max 3]", "b -> a [when b.v == x, max 3]", [("removed", "")]),
        (
            "b -> a [when b.v == x, max 3] b -> a [when b.v == y, max 2]",
            "b -> a [when b.v == y, max 4] b -> a [when b.v == x, max 5]",
            [("changed", "max"), ("changed", "max"), ("reordered", ""), ("reordered", "")],
        ),
    ],
    ids=["equal arrows", "equal conditions"],
)
def test_the_arrows_most_alike_are_compared(before: str, after: str, found: list[tuple[str, str]]) -> None:
    """Equal ones first, then those with one condition."""
    head = "topology t : [pipeline] { agent a { model: m } agent b { model: m } flow { a -> b "
    changes = diff(team(f"{head}{before} }} }}"), team(f"{head}{after} }} }}"))

    assert [(each.kind.value, each.field) for each in changes] == found


def test_a_node_that_lost_its_arrows_starts_nothing_new() -> None:
    """The arrow is what went; and who is mentioned first says nothing where the same start first."""
    nodes = " ".join(f"agent {name} {{ model: m }}" for name in "abc")
    one, other, third = (
        team(f"topology t : [pipeline] {{ {nodes} flow {{ {flow} }} }}")
        for flow in ("a -> b b -> c", "a -> b c", "b -> c a -> b")
    )

    assert [said(each)[:2] for each in diff(one, other)] == [("removed", "arrow b -> c")]
    assert diff(one, third) == ()


def test_teams_without_a_flow_are_compared() -> None:
    """A conversation of agents, and a fragment: a new name is found there too, as is a flow that comes."""
    head = "topology t : [debate] {"
    old, new = team(f"{head} agent a {{ model: m }} }}"), team(f"{head} agent b {{ model: m }} }}")

    assert [said(each) for each in diff(old, new)] == [("renamed", "agent a", "", "a", "b")]
    flowing = team(f"{head} agent a {{ model: m }} flow {{ a }} interface {{ entry: a }} }}")
    assert {said(each)[:2] for each in diff(old, flowing)} == {("added", "interface"), ("added", "start of a")}


def test_a_node_without_arrows_is_compared() -> None:
    """It starts with the run, so the run does more or less."""
    head = "topology t : [pipeline] { agent a { model: m } agent b { model: m } agent c { model: m } flow { a -> b "
    old, new = team(f"{head} }} }}"), team(f"{head} c }} }}")

    assert [said(each)[:2] for each in diff(old, new)] == [("added", "start of c")]
    assert [said(each)[:2] for each in diff(new, old)] == [("removed", "start of c")]


def test_one_new_name_is_that_of_one_node() -> None:
    """Of two that could have it, the other is removed."""
    head = "topology t : [pipeline] { agent a { model: m } "
    old = team(f"{head} agent x {{ model: m }} agent y {{ model: m }} flow {{ a -> x a -> y }} }}")
    new = team(f"{head} agent z {{ model: m }} flow {{ a -> z }} }}")

    assert [said(each)[:3] for each in diff(old, new)] == [
        ("renamed", "agent x", ""),
        ("removed", "agent y", ""),
        ("removed", "arrow a -> y", ""),
    ]


def test_swapped_conditions_of_equal_arrows_are_shown_with_them() -> None:
    """Without them both orders would look the same."""
    first, second = "a -> b [when a.v == x]", "a -> b [when a.v == y]"
    old, new = (
        team(f"topology t : [pipeline] {{ agent a {{ model: m }} agent b {{ model: m }} flow {{ {one} {other} }} }}")
        for one, other in ((first, second), (second, first))
    )
    shown = ['a -> b [when a.v == "x"]', 'a -> b [when a.v == "y"]']

    assert [said(each)[3:] for each in diff(old, new)] == [(shown, shown[::-1])] * 2


def test_somebody_new_is_not_taken_for_somebody_else() -> None:
    """Who says the same at another place is another."""
    one, other = "agent a { model: m } agent x { model: m }", "agent y { model: m } agent a { model: m }"
    found = diff(
        team(f"topology t : [pipeline] {{ {one} flow {{ a -> x }} }}"),
        team(f"topology t : [pipeline] {{ {other} flow {{ y -> a }} }}"),
    )

    assert {(each.kind, each.what) for each in found} == {
        (DifferenceKind.REMOVED, "agent x"),
        (DifferenceKind.ADDED, "agent y"),
        (DifferenceKind.REMOVED, "arrow a -> x"),
        (DifferenceKind.ADDED, "arrow y -> a"),
    }


@bundle("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_every_field_of_the_model_is_compared(path: Path) -> None:
    """A team is the same as itself, in any order of declarations, and everything in it is told when it goes."""
    topology = read(path).topology
    assert topology is not None
    shuffled = replace(
        topology, nodes=topology.nodes[::-1], roles=dict(reversed(topology.roles.items())), kept=topology.kept[::-1]
    )

    assert diff(topology, topology) == diff(topology, shuffled) == ()
    gone = diff(topology, Topology(name=topology.name))
    assert {change.kind for change in gone} <= {DifferenceKind.REMOVED}
    for each, node, without in _without_a_field(topology):
        assert diff(topology, without), f"{each} of {node}"


def _without_a_field(topology: Topology) -> Iterator[tuple[str, str, Topology]]:
    """*topology* without one of its values, or of those of its nodes: each that differs from its default."""
    for value in (topology, *topology.nodes):
        for each in fields(value):
            default = each.default if each.default_factory is NODEFAULT else each.default_factory()
            if default in (NODEFAULT, getattr(value, each.name)) or each.name in (*value.uncompared, "file"):
                continue
            less = replace(value, **{each.name: default})
            if isinstance(less, Topology):
                yield each.name, "the topology", less
            else:
                nodes = tuple(less if node is value else node for node in topology.nodes)
                yield each.name, less.name, replace(topology, nodes=nodes)


@given(st.randoms(use_true_random=False))
def test_what_changed_is_found_both_ways(chosen: random.Random) -> None:
    """Nothing is told of equal teams, something of others, and what one way comes, the other way goes."""
    one, other = _team(chosen), _team(chosen)
    there, back = diff(one, other), diff(other, one)

    assert bool(there) == (_meaning(one) != _meaning(other)) or {each.kind for each in there} == {
        DifferenceKind.REORDERED
    }
    assert sum(each.kind is DifferenceKind.ADDED for each in there) == sum(
        each.kind is DifferenceKind.REMOVED for each in back
    )
    assert diff(one, one) == ()


def _team(chosen: random.Random) -> Topology:
    names = chosen.sample("abcd", chosen.randint(1, 4))
    groups = tuple(
        ArrowGroup(source=chosen.choice(names), targets=(chosen.choice(names),), max=chosen.choice([None, 2]))
        for _ in range(chosen.randint(0, 3))
    )
    mentions = tuple(dict.fromkeys(name for group in groups for name in (group.source, *group.targets)))
    nodes = tuple(Agent(name=name, model=chosen.choice(["m", "n"])) for name in names)
    return Topology(name="t", nodes=nodes, flow=Flow(groups=groups, mentions=mentions))


def _meaning(topology: Topology) -> Any:
    assert topology.flow is not None
    return {node.name: node for node in topology.nodes}, sorted(map(repr, topology.flow.groups))
