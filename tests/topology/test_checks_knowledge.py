from teams import codes, findings, letters

from coterie.topology.blocks.data import Artifact
from coterie.topology.checks import check
from coterie.topology.model import Topology


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
    artifacts = tuple(Artifact(name=name, depends_on=depends) for name, depends in needs.items())

    assert [each.message for each in check(Topology(name="t", artifacts=artifacts))] == [
        "artifacts are made from each other: a -> b -> c -> a",
        "artifacts are made from each other: self -> self",
    ]


def test_a_long_line_of_artifacts_is_looked_through() -> None:
    """Deeper than calls may lie in each other, and each is looked at once."""
    line = tuple(Artifact(name=f"a{i}", depends_on=(f"a{i + 1}",) * 2) for i in range(5000))

    assert check(Topology(name="t", artifacts=(*line, Artifact(name="a5000")))) == []


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
