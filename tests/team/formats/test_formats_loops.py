"""The folder of a loop is read: roles, handoff, prompts, agents.toml, each finding with its place."""

from pathlib import Path
from typing import Any

import pytest
from bundles import bundle
from hypothesis import given
from hypothesis import strategies as st
from loop_cases import cases
from loops import TWO, folder, pair

from coterie.base.diagnostics import Span
from coterie.team import formats
from coterie.team.formats import Source
from coterie.team.topology.loop import Loop

STRICT = "topology.toml is TOML; the line grammar is for settings (spec, Configuration)."
TYPED = "A value of the wrong type is a diagnostic with file:line, never a silent default (spec, Configuration)."

REFUSED = {
    "topology_parse-002": "A regular expression that cannot be read is told of.",
    "topology_parse-004": "Duplicate ids, a missing `id` or `emits` are errors (spec, Routing).",
    "topology_parse-006": TYPED,
    "topology_parse-008": "A guard that is not built is an error (spec, Backends).",
    "topology_parse-009": TYPED,
    "topology_parse-010": "A missing `id` is an error (spec, Routing).",
    "topology_parse-012": "An unknown table is an error (spec, Backends).",
    "topology_lenient-001": STRICT,
    "topology_lenient-002": STRICT,
    "topology_lenient-003": STRICT,
    "topology_lenient-004": "A missing `emits` is an error (spec, Routing).",
}
"""Cases that have errors here, with the sentence that decides; what can be read of them is read all the same."""

TOPOLOGIES = [*cases("topology_parse"), *cases("topology_lenient")]


def read(path: Path, text: str, **files: str) -> Source:
    return formats.read(folder(path / "loop", {"topology.toml": text, **files}))


def loop_of(source: Source) -> Loop:
    assert source.topology is not None
    assert source.topology.loop is not None
    return source.topology.loop


def codes(source: Source) -> list[str]:
    return [each.code for each in source.diagnostics]


@bundle("case", TOPOLOGIES, ids=lambda case: case["id"])
def test_topologies(case: dict[str, Any], tmp_path: Path) -> None:
    """Every value that the earlier system reads; what is doubtful is an error, or kept with a warning."""
    source = read(tmp_path, case["topology"])

    assert source.has_errors == (case["id"] in REFUSED)
    if REFUSED.get(case["id"]) == STRICT:
        assert codes(source) == ["not-toml"]
        return
    if "parsed" not in case:
        return
    parsed, loop = case["parsed"], loop_of(source)
    assert source.topology is not None
    assert source.topology.name == (parsed["name"] or "loop")
    assert loop.completion == parsed["completion"]
    assert [(role.id, role.prompt, role.prompt_file, list(role.emits)) for role in loop.roles] == [
        (role["id"], role["prompt"], role["promptFile"], role["emits"]) for role in parsed["roles"]
    ]
    assert {one.event: list(one.targets) for one in loop.handoff} == parsed["handoff"]


@bundle("case", cases("agents_toml"), ids=lambda case: case["id"])
def test_agents(case: dict[str, Any], tmp_path: Path) -> None:
    """A role's own agent, the preset's, anybody's; what is empty or no text says nothing."""
    loop = loop_of(read(tmp_path, TWO.replace("prompt_file", "prompt"), **{"agents.toml": case["agents_toml"] or ""}))

    assert (loop.agent_of(case["preset"], case["role"]) or None) == case["agent"]


def test_a_role_says_all_it_can_of_its_backend(tmp_path: Path) -> None:
    """Times are seconds; an empty text sets nothing, an empty list does."""
    text = """
[[role]]
id = "r"
emits = []
backend_kind = "acp"
backend_provider = "mine"
backend_command = "agent"
backend_args = []
backend_prompt_mode = ""
backend_timeout_ms = 1500
backend_trust_all_tools = false
backend_agent = "careful"
backend_model = ""
read_only = true
"""
    source = read(tmp_path, text)
    (role,) = loop_of(source).roles

    assert role.backend == {
        "kind": "acp",
        "provider": "mine",
        "command": "agent",
        "args": (),
        "timeout": 1.5,
        "trust_all_tools": False,
        "agent": "careful",
    }
    assert role.kept == {"read_only": True}
    assert codes(source) == ["silent-role", "bad-value"]


@bundle(
    ("text", "message"),
    [
        ('[[gate]]\nevent = "x"\n', "the topology has no table 'gate'"),
        ('[hooks]\npre_emit = "x"\n', "the topology has no table 'hooks'"),
        ('[[stage]]\nid = "verify"\nkind = "verdict"\n', "the topology has no table 'stage'"),
        ('stage = [{ id = "verify" }]\n', "the topology has no table 'stage'"),
        ("check.command = 'make'\n", "the topology has no table 'check'"),
        ("hooks = 'x'\n", "the topology has 'hooks', a guard"),
        ('[[role]]\nid = "r"\nemits = []\n[role.meta]\nx = 1\n', "role 'r' has no table 'meta'"),
        ('[[role]]\nid = "r"\nemits = []\ndisallowed_tools = ["Bash"]\n', "role 'r' has 'disallowed_tools', a guard"),
        ('[[role]]\nid = "r"\nemits = []\nbackend_read_only = true\n', "role 'r' has 'backend_read_only', a guard"),
        ('[[roles]]\nid = "r"\n', "the topology has no table 'roles'"),
        ('[handof]\nx = ["r"]\n', "the topology has no table 'handof'"),
    ],
)
def test_a_guard_that_is_not_built_and_a_table_with_a_slip_are_errors(text: str, message: str, tmp_path: Path) -> None:
    """To ignore one would run agents without the restriction, or the roles, that the file has."""
    [found] = [one for one in read(tmp_path, text).diagnostics if one.is_error]

    assert message in found.message
    assert (found.code, bool(found.hint), found.span is None) == ("bad-value", True, False)


@pytest.mark.parametrize("value", ["0", "-1", "true", '"5"'])
def test_a_time_out_of_a_role_is_a_positive_number_of_milliseconds(value: str, tmp_path: Path) -> None:
    """With 0 every turn would fail at once."""
    source = read(tmp_path, f'[[role]]\nid = "r"\nemits = ["e"]\nbackend_timeout_ms = {value}\n')

    assert codes(source) == ["bad-value"]
    assert loop_of(source).roles[0].backend == {}


def test_a_prompt_in_place_wins_over_its_file(tmp_path: Path) -> None:
    """Which then need not be there."""
    role = '[[role]]\nid = "r"\nemits = ["e"]\nprompt = "Here."\nprompt_file = "nowhere.md"\n'

    assert loop_of(source := read(tmp_path, role)).roles[0].prompt == "Here."
    assert not source.has_errors


def test_a_prompt_that_cannot_be_read_is_an_error_where_it_is_named(tmp_path: Path) -> None:
    """It is not there, it is no text, or it lies elsewhere, if by a link."""
    (tmp_path / "secret.md").write_text("secret")
    names = ("nowhere.md", "bytes.md", "../secret.md", "link.md", "roles")
    text = "".join(f'[[role]]\nid = "r{n}"\nemits = ["e"]\nprompt_file = "{name}"\n' for n, name in enumerate(names))
    path = folder(tmp_path / "loop", {"topology.toml": text, "roles/x.md": ""})
    (path / "bytes.md").write_bytes(b"\xff\xfe\x00")
    (path / "link.md").symlink_to(tmp_path / "secret.md")
    source = formats.read(path)

    found = [(each.code, each.span.line if each.span else 0) for each in source.diagnostics if each.is_error]
    assert found == [
        ("no-such-file", 4),
        ("unreadable-file", 8),
        ("outside-folder", 12),
        ("outside-folder", 16),
        ("unreadable-file", 20),
    ]
    assert [role.prompt for role in loop_of(source).roles] == [""] * len(names)


def test_the_places_are_those_of_the_file(tmp_path: Path) -> None:
    """Line and column of what is meant, whatever stands around it."""
    head = '# a loop\nname = """a\nb"""\n\n  [[role]]\n  "id" = "r"\n  emits = [\n    "e", # [x]\n  ]\n'
    text = head + '[handoff]\n"e" = "s"\n'
    source = read(tmp_path, text)

    (found,) = [each for each in source.diagnostics if each.code == "handoff-to-nobody"]
    assert (found.span, found.file) == (Span(11, 1, 3, text.index('"e" = "s"')), str(tmp_path / "loop/topology.toml"))
    assert loop_of(source).roles[0].spans["id"].line == 6
    assert '11 | "e" = "s"' in found.render()


def test_a_folder_without_a_topology_is_a_loop_without_roles(tmp_path: Path) -> None:
    """Its settings make it one, in either name."""
    for name in ("autoloops.toml", "autoloops.conf"):
        source = formats.read(folder(tmp_path / name.replace(".", "-"), {name: ""}))
        assert loop_of(source) == Loop(agents={"defaults": {}, "preset": {}})
        assert source.diagnostics == ()


def test_a_loop_is_read_by_its_topology_too(tmp_path: Path) -> None:
    """Its folder and that file are the same team."""
    path = pair(tmp_path / "pair")

    assert formats.read(path).topology == formats.read(path / "topology.toml").topology


def test_a_folder_of_something_else_is_no_loop(tmp_path: Path) -> None:
    """What cannot be read is told, not raised."""
    assert codes(formats.read(folder(tmp_path / "other", {"team.at": ""}))) == ["unreadable-file"]


def test_what_no_table_is_read_for_is_kept_and_told(tmp_path: Path) -> None:
    """In the order of the file, each where it stands."""
    text = '[[role]]\nid = "r"\nemits = ["task.complete"]\n[[stage]]\nid = "s"\n[[gate]]\nevent = "x"\n[meta]\nx = 1\n'
    agents = "[preset.loop]\nr = 3\n[other]\nx = 1\n"
    source = read(tmp_path, text, **{"agents.toml": agents})

    assert source.topology is not None
    assert [(kept.kind, kept.kept) for kept in source.topology.kept] == [
        ("stage", {"stage": [{"id": "s"}]}),
        ("gate", {"gate": [{"event": "x"}]}),
        ("meta", {"x": 1}),
    ]
    assert [(Path(each.file).name, each.code, each.span.line if each.span else 0) for each in source.diagnostics] == [
        ("topology.toml", "bad-value", 4),
        ("topology.toml", "bad-value", 6),
        ("topology.toml", "unknown-field", 8),
        ("agents.toml", "bad-value", 2),
        ("agents.toml", "bad-value", 3),
    ]


NAMES = st.text("abcdefgh.-_ äß\"'\\#=[]", min_size=1, max_size=12)


@given(st.lists(st.tuples(NAMES, st.lists(NAMES, max_size=3)), max_size=4, unique_by=lambda one: one[0]))
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, roles: list[tuple[str, list[str]]]) -> None:
    """Whatever names a role and its events have, and the place of each is that of its line."""
    quoted = [(_quoted(id), [_quoted(event) for event in events]) for id, events in roles]
    lines = [line for id, events in quoted for line in ("[[role]]", f"id = {id}", f"emits = [{', '.join(events)}]")]
    lines += ["[handoff]", *(f"{id} = [{id}]" for id, _ in quoted)]
    source = read(tmp_path_factory.mktemp("written"), "\n".join(lines))
    loop = loop_of(source)

    assert [(role.id, list(role.emits)) for role in loop.roles] == roles
    assert [(one.event, list(one.targets)) for one in loop.handoff] == [(id, [id]) for id, _ in roles]
    assert [role.spans["id"].line for role in loop.roles] == [3 * n + 2 for n in range(len(roles))]
    assert [one.span.line if one.span else 0 for one in loop.handoff] == [
        3 * len(roles) + 2 + n for n in range(len(roles))
    ]


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
