"""Pattern files: what they say, how their texts are read, and that nothing in them can do harm."""

from pathlib import Path
from typing import Any

import pytest
from bundles import bundle
from hypothesis import given
from hypothesis import strategies as st

from coterie.base.diagnostics import Diagnostic, Span
from coterie.team.formats import Source, read, read_text
from coterie.team.formats.yaml.document import MAX_CHARACTERS, MAX_NESTED, Table, load, plain
from coterie.team.topology.model import Agent, Topology
from coterie.team.topology.patterns.model import Slot

DEBATE = """\
pattern:
  type: debate
  name: talk
  description: Two sides and a judge
  config: {max_rounds: 2}
  slots:
    proponent: ada
    opponent:
      model: sonnet
      prompt: Argue against it.
      tools: [search, "lib.tools:look"]
      max_retries: 1
      timeout_seconds: 60
      temperature: 0.3
      capabilities: [doubt]
      budget: {calls: 5, cost: 0.5}
      fallback: ada
    mediator:
      pattern:
        type: ensemble
        slots:
          ensemble_1: ada
          ensemble_2: {command: [cat]}
agents:
  ada: {model: haiku, prompt: "For it."}
"""


def source(text: str, folder: Path | None = None) -> Source:
    return read_text(text, str(folder / "team.yaml") if folder is not None else "team.yaml", folder)


def team(text: str) -> Topology:
    found = source(text)
    assert found.topology is not None
    assert [each.message for each in found.diagnostics if each.is_error] == []
    return found.topology


def codes(text: str) -> list[str]:
    return [each.code for each in source(text).diagnostics]


def pipeline(slot: str) -> str:
    return f"pattern:\n  type: pipeline\n  slots:\n    draft: {slot}\n"


def node(topology: Topology, name: str) -> Agent:
    found = topology.node(name)
    assert isinstance(found, Agent)
    return found


def test_a_pattern_file_says_who_fills_which_slot() -> None:
    """Agents of the file by name, others in place, teams within."""
    topology = team(DEBATE)

    assert (topology.name, topology.meta) == ("talk", {"description": "Two sides and a judge"})
    assert topology.pattern is not None
    assert (topology.pattern.type, topology.pattern.config) == ("debate", {"max_rounds": 2})
    assert topology.pattern.slots == (
        Slot(name="proponent", node="ada"),
        Slot(name="opponent", node="opponent", capabilities=("doubt",), calls=5, cost=0.5),
        Slot(name="mediator", node="mediator"),
    )
    assert [each.name for each in topology.nodes] == ["ada", "opponent", "mediator"]


def test_an_agent_says_who_thinks_and_under_which_rules() -> None:
    """In the same values as an agent of an `.at` file."""
    opponent = node(team(DEBATE), "opponent")

    assert (opponent.model, opponent.prompt) == ("sonnet", "Argue against it.")
    assert opponent.tools == ("search", "look")
    assert opponent.extension == {"tools": {"look": "lib.tools:look"}, "options": {"temperature": 0.3}}
    assert (opponent.retry, opponent.timeout, opponent.on_fail) == (1, 60.0, "fallback ada")


def test_a_team_in_place_shares_the_agents_of_the_file() -> None:
    """It has those that it names."""
    inner = node(team(DEBATE), "mediator").topology
    assert inner is not None
    assert inner.pattern is not None

    assert (inner.name, inner.pattern.type) == ("mediator", "ensemble")
    assert [each.name for each in inner.nodes] == ["ada", "ensemble_2"]


def test_a_pattern_is_called_after_its_file() -> None:
    """Unless it says otherwise."""
    for file, name in (("a/quick.pattern.yaml", "quick"), ("quick.yml", "quick"), (".pattern.yaml", "pattern")):
        found = read_text(pipeline("{command: [cat]}"), file).topology
        assert found is not None
        assert found.name == name


@bundle(
    ("slot", "extension"),
    [
        ("{type: human}", {"backend": "human"}),
        ("{type: scripted}", {"backend": "scripted"}),
        ("{type: model, model: haiku}", {"backend": "model"}),
        ("{type: command, command: [cat]}", {"backend": "command", "command": ["cat"]}),
        ("{command: [cat, 5]}", {"command": ["cat", 5]}),
        ("{flow: team.at}", {"topology": "team.at"}),
        ("{pattern: p.pattern.yaml}", {"topology": "p.pattern.yaml"}),
        ("{loop: work/}", {"topology": "work/topology.toml"}),
        ("{loop: work/topology.toml}", {"topology": "work/topology.toml"}),
        (
            '{model: m, provider: p, base_url: "http://x", api_key: "${P_KEY}", env: {A: b}, cwd: src}',
            {"env": {"A": "b"}, "cwd": "src", "provider": "p", "base-url": "http://x", "api-key": "${P_KEY}"},
        ),
    ],
)
def test_there_are_several_ways_of_thinking(slot: str, extension: dict[str, Any]) -> None:
    """Each becomes what the coterie extension says of it."""
    assert node(team(pipeline(slot)), "draft").extension == extension


@bundle(
    ("slot", "code"),
    [
        ("{model: haiku, command: [cat]}", "two-thinkers"),
        ("{type: human, model: haiku}", "two-thinkers"),
        ("{flow: a.at, loop: b}", "two-thinkers"),
        ("{prompt: Draft it.}", "no-model"),
        ("{type: machine}", "unknown-backend"),
        ("{type: command}", "bad-value"),
        ("{type: model}", "bad-value"),
        ("{flow: team.yaml}", "bad-value"),
        ("{pattern: team.at}", "bad-value"),
        ("{pattern: [a]}", "bad-value"),
        ("{model: 5}", "bad-value"),
        ("{model: ' '}", "bad-value"),
        ("{command: [cat], tools: search}", "bad-value"),
        ("{command: [cat], max_retries: -1}", "bad-value"),
        ("{command: [cat], max_retries: true}", "bad-value"),
        ("{command: [cat], timeout_seconds: 0}", "bad-value"),
        ("{command: [cat], timeout_seconds: soon}", "bad-value"),
        ("{command: [cat], capabilities: [1]}", "bad-value"),
        ("{command: [cat], budget: 5}", "bad-value"),
        ("{command: [cat], budget: {turns: 5}}", "unknown-entry"),
        ("{command: [cat], fallback: nobody}", "unknown-agent"),
        ("{agent: nobody}", "unknown-agent"),
        ("nobody", "unknown-agent"),
        ("7", "bad-value"),
        ("[cat]", "bad-value"),
    ],
)
def test_a_slot_that_does_not_fit_is_one_finding(slot: str, code: str) -> None:
    """With its line."""
    (found,) = source(pipeline(slot)).diagnostics

    assert found.code == code
    assert found.span is not None
    assert found.span.line == 4


def test_a_class_or_an_agent_of_the_system_can_answer() -> None:
    """`type` with a dotted path names a class, `ask` an agent of the tree around the pattern."""
    first, second = (team(pipeline(slot)).nodes[0].extension for slot in ("{type: myapp.Writer}", "{ask: desk}"))

    assert (first, second) == ({"type": "myapp.Writer"}, {"ask": "desk"})


def test_a_class_is_written_with_dots() -> None:
    """The hint says so."""
    (found,) = source(pipeline("{type: 'myapp:Writer'}")).diagnostics

    assert (found.code, found.hint) == (
        "unknown-backend",
        "write one of human, model, command, scripted, acp, claude-sdk, pi, or the path of a class",
    )


def test_a_slot_may_have_other_words_for_an_agent() -> None:
    """They are laid over the agent's own, which stays as it is for other slots."""
    text = """
pattern:
  type: pipeline
  slots:
    draft: {agent: ada, prompt: Draft it., budget: {calls: 2}}
    ada: {agent: ada, command: [cat]}
    last: ada
agents:
  ada: {model: haiku, prompt: "For it.", temperature: 0.3, capabilities: [write]}
"""
    topology = team(text)
    assert topology.pattern is not None
    first, second, last = topology.pattern.slots

    draft, changed, own = (node(topology, slot.node) for slot in (first, second, last))
    assert (draft.model, draft.prompt, first.capabilities, first.calls) == ("haiku", "Draft it.", ("write",), 2)
    assert draft.extension == own.extension == {"options": {"temperature": 0.3}}
    assert (changed.name, changed.model, changed.extension) == ("ada@ada", "", {"command": ["cat"]})
    assert (own.name, own.prompt) == ("ada", "For it.")


def test_the_mediator_may_be_named_in_the_settings() -> None:
    """An agent of the file fills the place then."""
    text = """
pattern:
  type: debate
  config: {mediator_agent_name: eve}
  slots: {proponent: ada, opponent: ada}
agents:
  ada: {command: [cat]}
  eve: {command: [cat]}
"""
    pattern = team(text).pattern
    assert pattern is not None
    assert [(slot.name, slot.node) for slot in pattern.slots][-1] == ("eve", "eve")


def test_a_named_mediator_that_has_a_slot_gets_no_other() -> None:
    """Two slots would have one name."""
    text = """
pattern:
  type: debate
  config: {mediator_agent_name: eve}
  slots: {proponent: ada, opponent: ada, eve: eve}
agents:
  ada: {command: [cat]}
  eve: {command: [cat]}
"""
    pattern = team(text).pattern
    assert pattern is not None

    assert [slot.name for slot in pattern.slots] == ["proponent", "opponent", "eve"]


@pytest.mark.parametrize(
    ("entries", "extension"),
    [
        ("model: opus", {"provider": "p", "options": {"temperature": 0.3}}),
        ("type: model, model: opus", {"backend": "model"}),
        ("type: human", {"backend": "human"}),
    ],
)
def test_another_backend_of_a_slot_takes_nothing_from_the_agents(entries: str, extension: dict[str, Any]) -> None:
    """Only a model that replaces another keeps its provider and settings."""
    base = "agents:\n  ada: {model: haiku, provider: p, temperature: 0.3}\n"
    made = team(pipeline(f"{{agent: ada, {entries}}}") + base)

    assert node(made, "draft").extension == extension


def test_an_agent_in_place_of_a_declared_one_is_refused() -> None:
    """One name stands for one thing."""
    text = pipeline("{command: [cat]}") + "    last: draft\nagents:\n  draft: {command: [cat]}\n"

    assert codes(text) == ["duplicate-name"]


def test_an_agent_that_fills_no_slot_is_told() -> None:
    """Unless it stands in for one that does, or fills one of a team within."""
    text = pipeline("{command: [cat], fallback: ada}") + "agents:\n  ada: {command: [cat]}\n  bob: {command: [cat]}\n"
    (found,) = source(text).diagnostics

    assert (found.code, found.message) == ("unused-agent", "agent 'bob' is declared but fills no slot")
    assert codes(DEBATE) == []


def test_a_team_is_no_part_of_itself() -> None:
    """However it is named."""
    text = """
pattern: {type: pipeline, slots: {draft: ada}}
agents:
  ada: {pattern: {type: pipeline, slots: {one: bob}}}
  bob: {pattern: {type: pipeline, slots: {one: ada}}}
"""
    found = source(text).diagnostics

    assert [each.message for each in found if each.code == "topology-cycle"] == [
        "a topology cannot contain itself: ada -> bob -> ada"
    ]


def test_teams_lie_only_so_deep_in_each_other() -> None:
    """The reader stops there."""
    inner = "{command: [cat]}"
    for _ in range(10):
        inner = f"{{pattern: {{type: pipeline, slots: {{a: {inner}}}}}}}"

    assert "nested-too-deep" in codes(pipeline(inner))


def test_a_pattern_that_is_no_table_is_one_finding() -> None:
    """What it lacks besides is not told."""
    assert codes("pattern: 7\n") == ["bad-value"]


def test_a_fallback_may_be_declared_anywhere() -> None:
    """Below the team in which somebody falls back on it, too."""
    topology = team(
        "pattern: {type: pipeline, slots: {one: panel}}\n"
        "agents:\n"
        "  panel: {pattern: {type: pipeline, slots: {draft: ada}}}\n"
        "  ada: {model: haiku, fallback: bob}\n"
        "  bob: {model: haiku}\n"
    )
    panel = node(topology, "panel").topology

    assert panel is not None
    assert [one.name for one in panel.nodes] == ["ada", "bob"]


def test_every_fault_is_told_at_once() -> None:
    """In the order of the text."""
    text = """\
pattern:
  type: debate
  config: {max_rounds: 0, colour: red}
  slots:
    proponent: {model: haiku, colour: red}
    mediator: nobody
agents:
  ada: {}
"""
    assert [(each.code, each.span and each.span.line) for each in source(text).diagnostics] == [
        ("bad-config", 3),
        ("unknown-config", 3),
        ("unknown-entry", 5),
        ("unknown-agent", 6),
        ("no-model", 8),
    ]


def test_a_fault_of_a_team_within_is_told_once_where_it_stands() -> None:
    """It is checked as the outer one is."""
    text = (
        pipeline("{pattern: {type: debate, slots: {proponent: ada, opponent: ada}}}")
        + "agents: {ada: {command: [cat]}}"
    )
    (found,) = source(text).diagnostics

    assert (found.code, found.message) == ("missing-slot", "Debate requires 'mediator' slot")
    assert found.span is not None
    assert found.span.line == 4


def test_prompts_may_be_files(tmp_path: Path) -> None:
    """As in an `.at` file; one that is not there is told."""
    (tmp_path / "draft.md").write_text("Draft it.")
    found = source(pipeline("{command: [cat], prompt: draft.md}"), tmp_path)
    assert found.topology is not None
    assert node(found.topology, "draft").prompt_is_path
    (missing,) = source(pipeline("{command: [cat], prompt: other.md}"), tmp_path).diagnostics

    assert missing.code == "no-prompt-file"


def test_a_file_is_read_by_the_end_of_its_name(tmp_path: Path) -> None:
    """Two ends mean YAML; other texts are `.at`."""
    for name in ("a.pattern.yaml", "a.yml"):
        (tmp_path / name).write_text(pipeline("{command: [cat]}"))
        found = read(tmp_path / name)
        assert found.topology is not None
        assert found.topology.file == str(tmp_path / name)


# ---- texts


def loaded(text: str) -> tuple[Any, list[Diagnostic]]:
    found: list[Diagnostic] = []
    value = load(text, found.append)
    return (plain(value) if value is not None else None), found


@bundle(
    ("text", "value"),
    [
        ("no", "no"),
        ("on", "on"),
        ("true", True),
        ("False", False),
        ("~", None),
        ("", None),
        ("010", 10),
        ("-3", -3),
        ("0x1F", "0x1F"),
        ("1:30", "1:30"),
        ("1_000", "1_000"),
        ("2.5", 2.5),
        ("1e3", 1000.0),
        (".5", 0.5),
        (".", "."),
        (".nan", ".nan"),
        ("2026-11-21", "2026-11-21"),
        ('"5"', "5"),
        ("!!str 5", "5"),
        ("'true'", "true"),
        ("|\n  a\n  b", "a\nb"),
    ],
)
def test_a_scalar_is_what_yaml_1_2_says(text: str, value: Any) -> None:
    """No word of an older version turns into a truth value, a date or a number of base 60."""
    assert loaded(f"key: {text}") == ({"key": value}, [])


def test_an_alias_repeats_what_it_names() -> None:
    """The values are there, each with the place where they were written."""
    value, found = loaded("a: &x [1, 2]\nb: *x\n")

    assert (value, found) == ({"a": [1, 2], "b": [1, 2]}, [])


def test_aliases_do_not_multiply_without_bound() -> None:
    """Nine levels of ten stand for a thousand million values, and are refused at once."""
    lines = ["a0: &a0 [x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    value, found = loaded("\n".join(lines))

    assert (value, [each.code for each in found]) == (None, ["too-large"])


@pytest.mark.parametrize("text", ["{" + "a: 1," * 40 + "}", "a: 1\n" * 40], ids=["one-line", "lines"])
def test_a_text_of_too_many_values_is_one_finding(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is wrong with each of them is not looked for: parsing ends there."""
    monkeypatch.setattr("coterie.team.formats.yaml.document._Loader._left", 50)
    value, found = loaded(text)

    assert (value, [each.code for each in found]) == (None, ["too-large"])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: &a {x: 1, y: 2}\nb: {<<: *a, x: 3}\n", {"x": 3, "y": 2}),
        ("a: &a {x: 1, y: 2}\nb: {x: 3, <<: *a}\n", {"x": 3, "y": 2}),
        ("a: [&a {x: 1}, &b {x: 2, y: 2}]\nb: {z: 0, <<: [*a, *b]}\n", {"x": 1, "y": 2, "z": 0}),
        ('b: {"<<": {x: 1}}\n', {"<<": {"x": 1}}),
    ],
)
def test_a_table_may_add_others(text: str, value: Any) -> None:
    """Its own entries count first, then those of the table that is named first."""
    read_as, found = loaded(text)

    assert (read_as["b"], found) == (value, [])


def test_only_tables_can_be_added() -> None:
    """What is none is told where it stands, and the rest is read."""
    value, (found,) = loaded("a: {x: 1, <<: [7, {y: 2}]}\n")

    assert value == {"a": {"x": 1, "y": 2}}
    assert (found.code, found.message, found.span) == (
        "bad-value",
        "`<<` needs a table, not 7",
        Span(1, 16, 1, 15),
    )


def test_an_alias_cannot_name_what_it_stands_in() -> None:
    """That would never end."""
    value, found = loaded("a: &a [1, *a]\n")

    assert (value, [each.code for each in found]) == (None, ["not-yaml"])


@pytest.mark.parametrize("depth", [MAX_NESTED + 2, 5000])
def test_values_lie_only_so_deep_in_each_other(depth: int) -> None:
    """Neither a little too deep nor very deep."""
    value, found = loaded("a: " + "[" * depth + "]" * depth)

    assert (value, [each.code for each in found]) == (None, ["too-deep"])


def test_a_long_text_is_not_read() -> None:
    """It would take long."""
    value, found = loaded("a: " + "x" * MAX_CHARACTERS)

    assert (value, [each.code for each in found]) == (None, ["unreadable-file"])


@bundle(
    ("text", "span"),
    [
        ("a: [1,\nb: 2\n", Span(3, 1, 0, 12)),
        ("a: 'x\n", Span(2, 1, 0, 6)),
        ("a: \x07\n", Span(1, 4, 1, 3)),
        ("a: *x\n", Span(1, 4, 0, 3)),
        ("a: 1\n---\nb: 2\n", Span(2, 1, 0, 5)),
        ("a\u2028b: [1,\n", Span(1, 4, 0, 3)),
    ],
)
def test_what_is_no_yaml_is_told_with_its_place(text: str, span: Span) -> None:
    """Lines are counted as editors count them."""
    value, found = loaded(text)

    assert (value, [each.code for each in found]) == (None, ["not-yaml"])
    assert found[0].span == span


def test_what_is_no_yaml_is_told_in_a_sentence() -> None:
    """What was found stands behind what was looked for."""
    _, found = loaded("a: 1\n---\nb: 2\n")

    assert found[0].message == ("this is not YAML: expected a single document in the stream but found another document")


def test_half_a_character_is_no_text() -> None:
    """Two escapes may be the halves of one; a half alone could not be written down."""
    assert loaded('a: "\\ud83d\\ude00"') == ({"a": "\U0001f600"}, [])
    value, (found,) = loaded('a: "\\ud83d"')

    assert (value, found.code, found.span) == ({"a": ""}, "not-yaml", Span(1, 4, 8, 3))


def test_an_empty_text_is_an_empty_table() -> None:
    """So it is told what is missing."""
    assert load("# nothing\n", print) == Table()
    assert codes("") == ["no-pattern"]
    assert codes("[a]") == ["no-pattern"]


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=8,
    )
)
def test_what_json_writes_is_read_as_it_is(value: Any) -> None:
    """JSON is YAML; what its quotes hold is text."""
    import json

    assert loaded(json.dumps({"value": value})) == ({"value": value}, [])


@given(st.text(alphabet="ab:-[]{},&*!|>#'\"\n \t?%@`0", max_size=60))
def test_whatever_a_text_holds_it_is_read_or_told(text: str) -> None:
    """Nothing is raised, and every place lies in the text."""
    found = source(text)

    for each in found.diagnostics:
        assert each.span is None or 0 <= each.span.offset <= len(text)


def test_teams_that_share_others_do_not_multiply_without_bound() -> None:
    """Each of eight agents is a team of twenty of the one before: they would be thousands of millions."""
    lines = ["pattern: {type: pipeline, slots: {a: a7}}", "agents:", "  a0: {command: [cat]}"]
    for n in range(1, 8):
        slots = ", ".join(f"s{k}: a{n - 1}" for k in range(20))
        lines.append(f"  a{n}: {{pattern: {{type: pipeline, slots: {{{slots}}}}}}}")

    assert "too-many-topologies" in codes("\n".join(lines))


def test_a_long_chain_of_teams_is_refused() -> None:
    """In whichever order they are declared."""
    agents = ["  a0: {command: [cat]}"]
    agents += [f"  a{n}: {{pattern: {{type: pipeline, slots: {{s: a{n - 1}}}}}}}" for n in range(1, 60)]
    for order in (agents, agents[::-1]):
        found = codes("\n".join(["pattern: {type: pipeline, slots: {a: a59}}", "agents:", *order]))
        assert "nested-too-deep" in found
