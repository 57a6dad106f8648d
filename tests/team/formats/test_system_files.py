"""Files of supervised systems: what is written is read back, the schema agrees with the reader, and nothing crashes."""

import random
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
from bundles import bundle
from hypothesis import given
from hypothesis import strategies as st
from parts import one_in, parts

from coterie.team.formats import read, read_text
from coterie.team.formats.yaml.document import load, plain
from coterie.team.formats.yaml.system.schema import file_schema
from coterie.team.formats.yaml.system.writer import to_yaml
from coterie.team.formats.yaml.writer import dump
from coterie.team.planning import examine, plan
from coterie.team.planning.plan import from_json, to_json
from coterie.team.planning.system import SystemPlan, TurnActorPlan
from coterie.team.planning.systems import as_system
from coterie.team.topology.drawing import draw
from coterie.team.topology.system.checklist import checklist
from coterie.team.topology.system.diff import diff_systems
from coterie.team.topology.system.fields import FLAT, WRAPPED, TransportFields
from coterie.team.topology.system.model import System, SystemNode
from coterie.team.topology.system.outline import outline_system

DATA = Path(__file__).parents[2] / "data" / "systems"
FILES = sorted(DATA.rglob("*.yaml"))
BEYOND_A_SCHEMA = {
    "bad-auth",
    "bad-slot",
    "duplicate-name",
    "incomplete-tls",
    "missing-slot",
    "name-conflict",
    "no-entry",
    "open-endpoint",
    "repeated-address",
    "unknown-agent",
    "unknown-plugin",
    "unknown-type",
}
"""Errors that depend on several places of a file, or on other files."""


@cache
def validator() -> Any:
    return jsonschema.Draft202012Validator(file_schema())


def errors(text: str) -> list[str]:
    return [each.code for each in read_text(text, "topology.yaml").diagnostics if each.is_error]


# ---- the writer


names = st.text("abcdefghijklmnop0123456789_-", min_size=1, max_size=8).filter(lambda name: name[0] not in "_-")
values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)
configs = st.dictionaries(st.text(min_size=1, max_size=5), values, max_size=2)
common = {"restart": st.sampled_from(["permanent", "transient", "temporary"]), "shutdown": st.none() | st.floats(0, 9)}
policies = {
    "strategy": st.sampled_from(["ONE_FOR_ONE", "ONE_FOR_ALL", "REST_FOR_ONE"]),
    "max_restarts": st.integers(0, 9),
    "restart_window": st.floats(0.1, 90),
    "backoff": st.sampled_from(["CONSTANT", "LINEAR", "EXPONENTIAL"]),
    "backoff_base": st.floats(0, 9),
    "backoff_jitter": st.floats(0, 1),
}


def fields(kind: str, **given: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.builds({**WRAPPED, **FLAT}[kind], name=names, **common, **given)


@st.composite
def leaves(draw: st.DrawFn) -> SystemNode:
    about = {
        "agent": fields("agent", type=st.just("m.A"), config=configs, process=st.just("") | names),
        "dynamic_supervisor": fields("dynamic_supervisor"),
        "eval_agent": fields("eval_agent", class_=st.sampled_from(["", "m.E"])),
        "topology_server": fields("topology_server"),
        "http_gateway": fields("http_gateway"),
    }
    kind = draw(st.sampled_from(sorted(about)))
    return SystemNode(kind=kind, fields=draw(about[kind]))


def supervisors(children: st.SearchStrategy[SystemNode]) -> st.SearchStrategy[SystemNode]:
    return st.builds(
        SystemNode,
        kind=st.just("supervisor"),
        fields=fields("supervisor", **policies),
        children=st.lists(children, min_size=1, max_size=3).map(tuple),
    )


@st.composite
def systems(draw: st.DrawFn) -> System:
    """A random tree with unique names."""
    tree = draw(supervisors(st.recursive(leaves(), supervisors, max_leaves=5)))
    counter = iter(range(1000))

    def renamed(node: SystemNode, **more: Any) -> SystemNode:
        own = msgspec.structs.replace(node.fields, name=f"{node.name}{next(counter)}", **more)
        return SystemNode(kind=node.kind, fields=own, children=tuple(map(renamed, node.children)))

    root = renamed(tree, restart="permanent", shutdown=None)
    transport = draw(st.sampled_from([TransportFields(), TransportFields(type="nats", servers=("a", "b"))]))
    return System(root=root, transport=transport)


@one_in(3)
@given(systems())
def test_a_system_is_read_back_from_its_text(system: System) -> None:
    """Its plan is the same, and the plan gives the system back."""
    text = to_yaml(system)
    source = read_text(text, "topology.yaml")

    assert not source.has_errors, text
    assert source.topology is not None
    assert source.topology.system == system
    assert validator().is_valid(plain(load(text, lambda found: pytest.fail(found.message))))
    made, _ = plan(source.topology)
    assert made is not None
    assert isinstance(made.coordination, SystemPlan)
    assert as_system(made.coordination) == system


def test_an_invalid_name_in_python_is_no_silent_text() -> None:
    """A child that answers with turns is not in the plan with its file, so it cannot be written from it."""
    text = "supervision: {name: r, children: [{command: {name: lint, argv: [cat]}}]}"
    made, _ = plan(read_text(text, "topology.yaml").topology)
    assert made is not None
    with pytest.raises(ValueError, match="'lint' answers with turns"):
        as_system(made.coordination)


# ---- the schema


def is_yaml(path: Path) -> bool:
    """Whether a schema is for this file: it is YAML, without findings of the syntax."""
    found: list[Any] = []
    return load(path.read_text(), found.append) is not None and not found


@bundle("path", list(filter(is_yaml, FILES)), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_the_schema_agrees_with_the_reader_on_every_example(path: Path) -> None:
    """As far as a schema can say: not on syntax, nor on what depends on several places."""
    value = load(path.read_text(), lambda found: pytest.fail(found.message))
    assert value is not None
    wrong = {each.code for each in read(path).diagnostics if each.is_error}

    assert validator().is_valid(plain(value)) is (wrong <= BEYOND_A_SCHEMA)


VALUES = (
    None,
    True,
    0,
    -1,
    3.5,
    1e10,
    "",
    "x",
    "x.Y",
    "/p",
    "none",
    "one_for_all",
    "zmq",
    [],
    ["x"],
    [{}],
    {},
    {"x": 1},
)


def places() -> Iterator[tuple[str, dict[str, Any], dict[str, Any], str]]:
    """Every field: where it is, a file, the table in it that the field is of, and the field's name."""
    required = {
        "agent": {"type": "m.A"},
        "flow": {"source": "a.at"},
        "loop": {"project": "a"},
        "pattern": {"type": "pipeline", "slots": {"a": {"command": ["cat"]}}},
        "model": {"model": "m"},
        "command": {"argv": ["cat"]},
        "supervisor": {"children": [{"agent": {"name": "b", "type": "m.B"}}]},
    }
    for kind, cls in {**WRAPPED, **FLAT}.items():
        for field in (*(one.encode_name for one in msgspec.structs.fields(cls)), "unknown"):
            if kind == "pattern" and field in ("type", "slots", "config"):
                continue  # a pattern's own reader reads these
            table: dict[str, Any] = {"name": "a", **required.get(kind, {})}
            node = {"type": kind, **table} if kind in FLAT else {kind: table}
            table = node if kind in FLAT else table
            yield kind, _file(node), table, field
            config = next((one.type for one in msgspec.structs.fields(cls) if one.name == "config"), None)
            if isinstance(config, type) and issubclass(config, msgspec.Struct) and field == "config":
                table["config"] = {}
                for inner in (*(one.encode_name for one in msgspec.structs.fields(config)), "unknown"):
                    table["config"] = {}
                    yield f"{kind}.config", _file(node), table["config"], inner
    for field in (*(one.encode_name for one in msgspec.structs.fields(TransportFields)), "unknown"):
        transport: dict[str, Any] = {}
        yield "transport", {**_file(), "transport": transport}, transport, field
    for field in ("models", "tools", "exporters", "state", "unknown"):
        plugins: dict[str, Any] = {}
        yield "plugins", {**_file(), "plugins": plugins}, plugins, field
    root = _file()
    yield from (("root", root, root["supervision"], field) for field in ("name", "strategy", "restart", "children"))
    for field in ("transport", "plugins", "supervision", "entry", "unknown"):
        root = _file()
        yield "file", root, root, field


def _file(node: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"supervision": {"name": "root", "children": [node or {"agent": {"name": "x", "type": "m.X"}}]}}


@parts(11)  # which does not divide the number of values: a part has all of them, and every field
def test_the_schema_agrees_with_the_reader_on_every_field(part: int) -> None:
    """With values of every type, right and wrong ones."""
    compared = 0
    for n, (where, file, table, field) in enumerate(places()):
        before = table.get(field)
        for value in VALUES[(part - n * len(VALUES)) % 11 :: 11]:
            table[field] = value
            wrong = set(errors(dump(file)))
            if not wrong or not wrong <= BEYOND_A_SCHEMA:
                assert validator().is_valid(file) is (not wrong), (where, field, value, wrong)
                compared += 1
        if before is None:
            del table[field]
        else:
            table[field] = before
    assert compared > 130


# ---- values given on the command line


def test_given_values_replace_those_of_the_file_before_it_is_checked() -> None:
    """As from `--transport nats --nats-url nats://a`; a text is read as in the file."""
    text = "supervision: {name: r, children: [{agent: {name: a, type: m.A, process: p}}]}"
    given = {"transport.type": "nats", "transport.servers": "nats://a:4222", "supervision.max_restarts": "7"}
    source = read_text(text, "topology.yaml", params=given)

    assert source.diagnostics == ()
    assert source.topology is not None
    assert source.topology.system is not None
    assert source.topology.system.transport == TransportFields(type="nats", servers=("nats://a:4222",))
    assert source.topology.system.root.fields.max_restarts == 7  # type: ignore[attr-defined]


@bundle(
    ("name", "value", "code"),
    [
        ("transport.type", "amqp", "bad-transport"),
        ("supervision.max_restarts", "many", "bad-value"),
        ("trnsport.type", "nats", "unknown-param"),
        ("transport.", "nats", "unknown-param"),
        ("transport.typ", "nats", "unknown-entry"),
        ("transport.servers", "[", "bad-param"),
        ("entry", "b", "unknown-agent"),
    ],
)
def test_a_given_value_is_checked_like_those_of_the_file(name: str, value: str, code: str) -> None:
    """It has the position of what it replaces, if there is one."""
    text = "supervision: {name: r, children: [{agent: {name: a, type: m.A}}]}"

    assert [each.code for each in read_text(text, "topology.yaml", params={name: value}).diagnostics] == [code]


def test_a_name_that_ends_in_a_line_break_is_refused() -> None:
    """`$` of Python's expressions would match before it."""
    text = 'supervision: {name: r, children: [{agent: {name: "a\\n", type: m.A}}]}'

    assert errors(text) == ["bad-name"]


# ---- children that answer with turns


def test_children_that_answer_with_turns_are_planned(tmp_path: Path) -> None:
    """Each is an agent of the plan: with a child plan, a model, or a command."""
    (tmp_path / "topology.yaml").write_text(TURNS)
    (tmp_path / "review.at").write_text(
        "topology review : [pipeline] { agent a { model: m } agent b { model: m } flow { a -> b } }"
    )
    (tmp_path / "fix").mkdir()
    (tmp_path / "fix" / "topology.toml").write_text(
        'completion = "done"\n[[role]]\nid = "w"\nemits = ["done"]\nprompt = "W"\n'
    )
    source = read(tmp_path / "topology.yaml")
    assert source.topology is not None
    made, found = plan(source.topology)

    assert [each.summary for each in (*source.diagnostics, *found) if each.is_error] == []
    assert made is not None
    system = made.coordination
    assert isinstance(system, SystemPlan)
    assert [(child.name, child.runs) for child in system.root.children if isinstance(child, TurnActorPlan)] == [
        ("review", "flow"),
        ("fix", "loop"),
        ("panel", "pattern"),
        ("judge", "model"),
        ("lint", "command"),
    ]
    agents = made.agents
    children = {name: agent.child.coordination for name, agent in agents.items() if agent.child is not None}
    assert {name: type(each).__name__ for name, each in children.items()} == {
        "review": "FlowPlan",
        "fix": "LoopPlan",
        "panel": "PatternPlan",
    }
    assert (agents["judge"].backend, agents["judge"].model, agents["judge"].prompt) == ("model", "claude-x", "Be fair.")
    assert (agents["lint"].argv, agents["lint"].timeout, agents["lint"].cwd) == (("cat", "-"), 3.0, "src")
    assert from_json(to_json(made)) == made


TURNS = """
supervision:
  name: root
  children:
    - flow: {name: review, source: review.at, process: back, mailbox_size: 5}
    - loop: {name: fix, project: ./fix}
    - pattern: {name: panel, type: pipeline, slots: {a: {command: [cat]}, b: {model: haiku}}}
    - model: {name: judge, model: claude-x, prompt: Be fair., tools: []}
    - command: {name: lint, argv: [cat, "-"], timeout: 3, cwd: src}
transport: {type: zmq}
"""


def test_a_node_of_a_team_can_ask_only_agents_of_the_tree() -> None:
    """At any depth; the finding is at the child."""
    slots = "{a: {ask: clerk}, b: {pattern: {type: pipeline, slots: {c: {ask: clark}, d: {command: [cat]}}}}}"
    text = f"""
supervision:
  name: root
  children:
    - agent: {{name: clerk, type: shop.Clerk}}
    - pattern: {{name: panel, type: pipeline, slots: {slots}}}
"""
    topology = read_text(text, "topology.yaml").topology
    assert topology is not None
    (found,) = plan(topology)[1]

    assert (found.span.line, found.span.column) == (6, 17) if found.span is not None else False
    assert found.message == "'ask' of 'panel/b/c' names 'clark', which is not in the tree"
    assert found.hint == "did you mean 'clerk'?"


def test_a_system_cannot_contain_itself(tmp_path: Path) -> None:
    """Whichever files lie between."""
    file = tmp_path / "topology.yaml"
    file.write_text("supervision: {name: r, children: [{flow: {name: f, source: topology.yaml}}]}\nentry: f\n")
    source = read(file)
    assert source.topology is not None

    assert [each.code for each in plan(source.topology)[1]] == ["topology-cycle"]


# ---- hostile files


@parts(4)
def test_mutated_files_are_reported_with_positions(part: int) -> None:
    """1,000 files with bytes removed, doubled and replaced: no exception, and a position for everything found.

    What can be read of them is shown, compared and drawn, too.
    """
    rng = random.Random(15 + part)
    pieces = [
        "{",
        "}",
        "[",
        "]",
        ":",
        "- ",
        "\n",
        "  ",
        "&a ",
        "*a",
        "!!int ",
        "<<: ",
        "'",
        '"',
        "\t",
        "\0",
        "null",
        "1e999",
    ]
    texts = [path.read_text() for path in FILES]
    for _ in range(250):
        text = rng.choice(texts)
        for _ in range(rng.randint(1, 4)):
            at, length = rng.randrange(len(text) + 1), rng.randint(0, 12)
            piece = rng.choice([*pieces, "", text[at : at + length] * 2, rng.choice(texts)[:40]])
            text = text[:at] + piece + text[at + length :]
        source = read_text(text, "topology.yaml")
        topology = source.topology
        if topology is not None and topology.system is not None:
            outline_system(topology.system)
            diff_systems(topology.system, topology.system)
            draw(topology)
            checklist(topology.system, source.diagnostics)
        assert all(each.span is not None for each in examine(source)[1]), text


def test_a_huge_file_is_refused_unread(tmp_path: Path) -> None:
    """50 MB are not parsed."""
    file = tmp_path / "topology.yaml"
    with file.open("wb") as writer:
        writer.truncate(50 * 2**20)
    (found,) = read(file).diagnostics

    assert found.code == "unreadable-file"
    assert found.span is not None
    assert "larger than" in found.message


def test_a_file_that_is_not_utf_8_is_refused_at_its_place(tmp_path: Path) -> None:
    """The first byte that is none."""
    file = tmp_path / "topology.yaml"
    file.write_bytes(b"supervision:\n  name: r\xff\n")
    (found,) = read(file).diagnostics

    assert found.span is not None
    assert (found.span.line, found.span.column) == (2, 10)


def test_the_authentication_of_a_gateway_is_shown_as_it_is_written() -> None:
    """Without the fields that have their default; a public key is no secret."""
    file = DATA / "rules" / "missing-tls-file" / "invalid-2.yaml"
    topology = read_text(file.read_text(), "topology.yaml").topology

    assert topology is not None
    assert topology.system is not None
    [_, api] = outline_system(topology.system).root.children
    assert "auth: jwt=algorithm=ES256, public_key=keys/shop.pem" in api.about
