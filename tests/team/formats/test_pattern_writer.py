"""Patterns as text: what is written is read back as the same team, and the schema knows what the reader does."""

from pathlib import Path
from typing import Any

import pytest
from bundles import bundle
from hypothesis import given
from hypothesis import strategies as st

from coterie.errors import UsageError
from coterie.patterns import agent, debate, ensemble, pipeline
from coterie.patterns.builtin.debate import DebateSettings
from coterie.team.formats import read, read_text
from coterie.team.formats.yaml.agents import ENTRIES, EXTENSION, TEAMS
from coterie.team.formats.yaml.schema import schema
from coterie.team.formats.yaml.writer import to_yaml
from coterie.team.options.models import MODEL_SETTINGS as SETTINGS
from coterie.team.planning import plan_or_raise
from coterie.team.topology.model import Topology
from coterie.team.topology.patterns.kinds import KINDS

EXAMPLES = sorted((Path(__file__).parents[3] / "examples").glob("*/*.pattern.yaml"))
CAT = agent(command=["cat"])


def again(text: str, file: str = "team.yaml", folder: Path | None = None) -> Topology:
    source = read_text(text, file, folder)
    assert [each.message for each in source.diagnostics if each.is_error] == []
    assert source.topology is not None
    return source.topology


@bundle("file", EXAMPLES, ids=lambda file: file.name)
def test_what_is_read_is_written_and_read_again(file: Path) -> None:
    """The same team, and from then on the same text."""
    topology = read(file).topology
    assert topology is not None
    text = to_yaml(topology)
    back = again(text, str(file), file.parent)

    assert back == topology
    assert to_yaml(back) == text


def test_an_agent_that_is_used_again_is_declared() -> None:
    """Even if it has the name of its slot: only so can another slot refer to it."""
    text = "pattern: {type: pipeline, slots: {ada: ada, last: ada}}\nagents: {ada: {command: [cat]}}\n"
    written = to_yaml(again(text))

    assert again(written) == again(text)
    assert written.count("command:") == 1


def test_a_team_made_in_python_becomes_a_file() -> None:
    """With teams within, and whoever stands in."""
    team = debate(
        proponent=agent(model="haiku", tools=["os.path:join"], temperature=0.5, fallback=agent(model="opus")),
        opponent=ensemble(CAT, agent(command=["cat", "-"], fallback=CAT), aggregation_method="vote"),
        mediator=agent(type="human", prompt="Decide.\n\nBe brief.", capabilities=["law"], calls=2, cost=0.25),
        max_rounds=2,
        description="A talk",
    )
    back = again(to_yaml(team))

    assert plan_or_raise(back).content_hash() == plan_or_raise(team).content_hash()
    assert "|-\n        Decide.\n\n        Be brief.\n" in to_yaml(team)


def test_agents_of_one_name_in_several_teams_are_told_apart() -> None:
    """The second is called otherwise."""
    first, second = agent(command=["cat"], fallback="haiku"), agent(command=["cat"], fallback="opus")
    team = pipeline({"one": pipeline({"a": first}), "two": pipeline({"a": second})})
    text = to_yaml(team)

    assert ("a-fallback:" in text, "a-fallback-2:" in text) == (True, True)
    models = [
        child.agents[name].model
        for child in (one.child for one in plan_or_raise(again(text)).agents.values())
        if child is not None
        for name in child.agents
        if name != "a"
    ]
    assert models == ["haiku", "opus"]


@given(
    st.text(min_size=1).filter(str.strip)
    | st.sampled_from(
        ["1e3", "no", "null", "~", "<<", "010", "0x1F", "1:30", "- a", "a: b", "# a", "a\n b\n", " a", "a\t"]
    )
)
def test_any_text_is_written_so_that_it_stays_one(text: str) -> None:
    """Whatever it looks like."""
    written = to_yaml(pipeline({"draft": agent(command=["echo", text], prompt=text)}))
    draft: Any = again(written).node("draft")

    assert (draft.prompt, draft.extension["command"]) == (text, ["echo", text])


def test_what_a_pattern_file_cannot_say_is_refused() -> None:
    """Nothing is left out in silence."""
    flow = read_text(
        "topology t : [pipeline] { agent a { model: haiku } agent b { model: haiku } flow { a -> b } }"
    ).topology
    assert flow is not None

    with pytest.raises(UsageError, match="'t' is not a pattern"):
        to_yaml(flow)
    with pytest.raises(UsageError, match="agent 'draft' cannot be written in a pattern file"):
        to_yaml(pipeline({"draft": flow}))


def test_the_schema_knows_every_entry_and_every_setting() -> None:
    """And nothing else, as the reader does."""
    made = schema()
    definitions = made["$defs"]

    assert set(definitions["agent"]["properties"]) == set(ENTRIES)
    assert set(ENTRIES) >= {*EXTENSION, *SETTINGS, *TEAMS}
    assert [definitions[name]["additionalProperties"] for name in ("agent", "pattern")] == [False, False]
    configs = [rule["then"]["properties"]["config"] for rule in definitions["pattern"]["allOf"]]
    assert [set(config["properties"]) for config in configs] == [
        set(kind.config.__struct_fields__) for kind in KINDS.values()
    ]
    rounds = next(config for config in configs if config["title"] == DebateSettings.__name__)["properties"][
        "max_rounds"
    ]
    assert (rounds["minimum"], rounds["maximum"], rounds["default"]) == (1, 10, 3)
