"""Settings of a pattern that are given from outside: by whoever runs it, or by a file that imports it."""

from pathlib import Path
from typing import Any

import pytest
from bundles import bundle

from coterie.team.formats import Source, read, read_text
from coterie.team.topology.model import Agent, Topology

TEAM = """\
pattern:
  type: compound
  slots:
    pick: jury
    again: jury
    own: {agent: jury, prompt: "As a doctor."}
    check: {pattern: {type: crosscheck, config: {quorum: 1}, slots: {primary: ada, checker: ada}}}
    far: {pattern: far.pattern.yaml}
    plain: ada
agents:
  ada: {command: [cat]}
  jury:
    max_retries: 1
    pattern:
      type: ensemble
      config: {aggregation_method: weighted, accuracy: {ensemble_1: 0.8}}
      slots: {ensemble_1: ada, ensemble_2: ada}
"""


def given(text: str = TEAM, /, **values: Any) -> Source:
    return read_text(text, "team.yaml", params={key.replace("__", "/"): value for key, value in values.items()})


def team(source: Source) -> Topology:
    assert [each.message for each in source.diagnostics if each.is_error] == []
    assert source.topology is not None
    return source.topology


def config(topology: Topology, *slots: str) -> dict[str, Any]:
    """The settings of the team that *slots* lead to."""
    for name in slots:
        assert topology.pattern is not None
        node = topology.node(next(slot.node for slot in topology.pattern.slots if slot.name == name))
        assert isinstance(node, Agent)
        assert node.topology is not None
        topology = node.topology
    assert topology.pattern is not None
    return dict(topology.pattern.config)


@pytest.mark.parametrize(
    ("value", "meant"),
    [("2", 2), (2, 2), ("null", None), ("", None)],
)
def test_a_text_is_read_as_the_file_would_read_it(value: Any, meant: Any) -> None:
    """A number may be given as one, too."""
    assert config(team(given(composition_type="parallel", max_concurrency=value))) == {
        "composition_type": "parallel",
        "max_concurrency": meant,
    }


@pytest.mark.parametrize("value", ["[pick, check]", ["pick", "check"], ("pick", "check")])
def test_lists_are_given_whole(value: Any) -> None:
    assert config(team(given(sub_topologies=value))) == {"sub_topologies": ["pick", "check"]}


def test_an_entry_of_a_table_is_given_by_its_path() -> None:
    """The other entries stay; where there is no table yet, there is one then."""
    found = team(
        read_text(TEAM, "team.yaml", params={"pick/accuracy.ensemble_2": "0.7", "mapping.check.prompt": "text"})
    )

    assert config(found, "pick")["accuracy"] == {"ensemble_1": 0.8, "ensemble_2": 0.7}
    assert config(found) == {"mapping": {"check": {"prompt": "text"}}}


def test_a_setting_of_a_team_within_is_that_of_one_slot() -> None:
    """Other slots that the same agent fills keep theirs, and what the agent says besides holds."""
    found = team(given(pick__samples="3", own__samples=2, check__max_revisions=1))

    assert (config(found, "pick")["samples"], config(found, "own")["samples"]) == (3, 2)
    assert "samples" not in config(found, "again")
    assert config(found, "check") == {"quorum": 1, "max_revisions": 1}
    picked, own = found.node("pick"), found.node("own")
    assert isinstance(picked, Agent)
    assert isinstance(own, Agent)
    assert (picked.retry, own.retry, own.prompt) == (1, 1, "As a doctor.")


def test_a_setting_may_bring_a_slot() -> None:
    """Whatever a setting means in the file, it means when it is given."""
    agents = "agents: {ada: {command: [cat]}, eve: {command: [cat]}}"
    text = f"pattern: {{type: debate, slots: {{proponent: ada, opponent: ada}}}}\n{agents}"
    found = team(given(text, mediator_agent_name="eve")).pattern

    assert found is not None
    assert [slot.name for slot in found.slots] == ["proponent", "opponent", "eve"]


@bundle(
    ("name", "value", "code", "told", "hint"),
    [
        ("failure_polcy", "any", "unknown-param", "unknown setting 'failure_polcy'", "did you mean 'failure_policy'"),
        ("pick.samples", "3", "unknown-param", "unknown setting 'pick'", "write pick/SETTING"),
        ("pik/samples", "3", "unknown-param", "no slot 'pik'", "did you mean 'pick'?"),
        ("pick/pick/samples", "3", "unknown-param", "no slot 'pick'", "'ensemble_1' and 'ensemble_2'"),
        ("far/samples", "3", "unknown-param", "the agent of 'far' is in 'far.pattern.yaml'", "set it there"),
        ("plain/samples", "3", "unknown-param", "'plain' is not an inline pattern", "remove it"),
        ("pick/samples", "101", "bad-param", "samples is 101: expected a whole number <= 100", ""),
        ("pick/samples", "many", "bad-param", "samples is 'many': expected a whole number, got a text", ""),
        ("pick/samples", "[1", "bad-param", "this is not YAML", ""),
        ("pick/samples", "!!python/name:os.system x", "bad-param", "is not supported", "remove it"),
        ("pick/samples", {1, 2}, "bad-param", "not plain data", ""),
        ("composition_type", "serial", "bad-param", "unknown composition type: serial", ""),
        ("composition_type.way", "serial", "bad-param", "unknown composition type", ""),
        ("", "3", "unknown-param", "unknown setting ''", "known settings: sub_topologies"),
        ("/", "3", "unknown-param", "no slot ''", "its slots are"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_one_finding(name: str, value: Any, code: str, told: str, hint: str) -> None:
    """It names what was given, and stands nowhere in the file."""
    source = read_text(TEAM, "team.yaml", params={name: value})

    [found] = [each for each in source.diagnostics if each.is_error]
    assert (found.code, found.span) == (code, None)
    assert told in found.message
    assert repr(name) in found.message
    assert hint in found.hint


def test_what_is_given_keeps_the_rules_of_the_whole() -> None:
    found = read_text(TEAM, "team.yaml", params={"check/quorum": "9"})

    assert [each.message for each in found.diagnostics if each.is_error] == ["quorum is 9, but there are 3 checkers"]


def test_a_pattern_of_ones_own_takes_whatever_is_given() -> None:
    """What it has is known when it runs."""
    text = "pattern: {type: 'mine:play', slots: {a: {command: [cat]}}}"

    assert config(team(given(text, politeness="3"))) == {"politeness": 3}


@pytest.mark.parametrize(
    "text", ["pattern: 3", "pattern: {type: [1], slots: 4}", "pattern: {slots: {a: {agent: 3}}}", ""]
)
def test_a_file_that_is_wrong_says_so_whatever_is_given(text: str) -> None:
    for name in ("samples", "a/samples", "a/b/samples.x"):
        assert any(each.is_error for each in read_text(text, "team.yaml", params={name: "3"}).diagnostics)


def test_a_flow_gives_settings_to_a_pattern_that_it_imports(tmp_path: Path) -> None:
    """By `with`, and is told where it imports when they do not fit."""
    jury = "pattern: {type: ensemble, slots: {ensemble_1: {command: [cat]}}}"
    (tmp_path / "jury.pattern.yaml").write_text(jury)
    flow = (
        'topology t : [pipeline] {{\n  import "jury.pattern.yaml" as jury with {{ samples: {} }}\n'
        '  action done {{ commands: ["true"] }}\n  flow {{ jury -> done }}\n}}\n'
    )
    (tmp_path / "t.at").write_text(flow.format(3))
    (tmp_path / "wrong.at").write_text(flow.format(300))
    node = team(read(tmp_path / "t.at")).node("jury")
    assert isinstance(node, Agent)
    assert node.imported is not None
    assert node.imported.topology is not None
    [found] = read(tmp_path / "wrong.at").diagnostics

    assert config(node.imported.topology) == {"samples": 3}
    assert found.code == "bad-param"
    assert found.span is not None
    assert found.span.line == 2


def test_who_only_lends_words_is_none_of_the_team() -> None:
    """Nobody is told to leave out what slots lay their words over, and it need not say who thinks."""
    text = (
        "pattern: {type: ensemble, slots: {ensemble_1: {agent: base, command: [cat]}, ensemble_2: {agent: base,"
        " command: [tac]}}}\nagents: {base: {prompt: Be brief.}, idle: {command: [cat]}}"
    )
    source = given(text)

    assert [(each.code, "'idle'" in each.message) for each in source.diagnostics] == [("unused-agent", True)]
    assert [node.name for node in team(source).nodes] == ["idle", "ensemble_1", "ensemble_2"]
