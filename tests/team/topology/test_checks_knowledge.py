from collections.abc import Mapping, Sequence

import pytest
from teams import codes, findings, letters

from coterie.team.topology.block import Block
from coterie.team.topology.checks import check
from coterie.team.topology.model import Topology

pytestmark = pytest.mark.once


def made_from(needs: Mapping[str, Sequence[str]]) -> Topology:
    """A team with artifacts, each made from others."""
    artifacts = (Block(kind="artifact", name=name, fields={"depends-on": others}) for name, others in needs.items())
    return Topology(name="t", blocks={"artifacts": Block(kind="artifacts", entries=tuple(artifacts))})


def test_a_name_is_only_doubted_where_others_of_its_sort_are_declared() -> None:
    """A file without a block of stores leaves them to somebody else."""
    agent = "memory: [notes]  skills: [writing]  produces: [draft]  mcp-servers: [files]  retrieval: smart"

    assert codes(letters("a -> b", b=agent)) == []


def test_an_agent_may_remember_by_scope() -> None:
    """The words that stand for no store."""
    assert codes(letters("a -> b", b="memory: project", blocks="memory { store s { type: session } }")) == []


def test_each_circle_of_artifacts_is_told_once() -> None:
    """Whatever leads into it, and however long it is."""
    needs = {"into": ("a",), "a": ("b",), "b": ("c",), "c": ("a", "free"), "free": (), "self": ("self",)}

    assert [each.message for each in check(made_from(needs))] == [
        "artifacts depend on each other: a -> b -> c -> a",
        "artifacts depend on each other: self -> self",
    ]


def test_a_long_line_of_artifacts_is_looked_through() -> None:
    """Deeper than calls may lie in each other, and each is looked at once."""
    line = {f"a{i}": (f"a{i + 1}",) * 2 for i in range(5000)}

    assert check(made_from({**line, "a5000": ()})) == []


def test_types_of_schemas_are_looked_for() -> None:
    """In lists, and at agents."""
    text = letters(
        "a -> b",
        b="output-schema { found: array of findng }",
        blocks="schemas { schema finding { title: string  more: array of finding } }",
    )

    assert findings(text) == [
        "warning[unknown-schema] findng: 'found' of 'output-schema' of agent 'b' has the type 'findng', "
        "which is not declared"
    ]
