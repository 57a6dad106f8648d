"""The configurations that the reference has as classes say what those of patterns say."""

import ast
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from bundles import bundle
from hypothesis import given
from hypothesis import strategies as st

from coterie import patterns
from coterie.patterns.reference.registry import TopologyRegistry
from coterie.patterns.reference.topologies import CrossCheckConfig, DebateConfig, EnsembleConfig
from coterie.patterns.rows.configs import (
    AgentCapability,
    AgentConfig,
    StrictConfig,
    accept,
    pattern_config,
    typed_config,
)
from coterie.patterns.rows.enums import AggregationMethod, ConsensusMethod
from coterie.team.topology.patterns.kinds import KINDS, read_config
from coterie.team.topology.patterns.names import TopologyType

SRC = Path(*patterns.__path__).parent
TYPES = list(TopologyType)
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([0, 1, 1.0, "1", "true"]),
    st.integers(-2, 120),
    st.floats(-0.5, 1.5),
    st.sampled_from(["", "all", "any", "majority", "vote", "mean", "median", "linear", "parallel", "coordinator", "x"]),
    st.lists(st.sampled_from(["a", "b"]), max_size=2),
    st.dictionaries(st.sampled_from(["a", "b"]), st.floats(-0.5, 1.5), max_size=2),
    st.dictionaries(st.sampled_from(["a", "b"]), st.dictionaries(st.just("k"), st.just("text")), max_size=2),
)


def refuses(config_class: type[StrictConfig], config: dict[str, Any]) -> bool:
    """Whether *config_class* does not take *config*."""
    try:
        config_class(**config)
    except ValueError:
        return True
    return False


@bundle("kind", TYPES)
def test_a_built_in_pattern_is_declared_in_three_files(kind: TopologyType) -> None:
    """Its module, its type, and its classes by name; all that is public of it follows from these."""
    of_kind = {f"{kind.class_name}Config", f"{kind.class_name}Topology"}
    naming = {
        path.relative_to(SRC).as_posix()
        for path in SRC.rglob("*.py")
        if kind.class_name in (text := path.read_text(encoding="utf-8"))
        for node in ast.walk(ast.parse(text))
        if {getattr(node, "name", ""), getattr(node, "id", "")} & of_kind
    }

    assert naming == {"patterns/reference/topologies.py"}
    assert KINDS[kind].name == kind
    for name in (kind.name.lower(), *of_kind):
        assert getattr(patterns, name).__name__ == name in patterns.__all__
    assert {TopologyRegistry.get(kind), pattern_config(kind)} == {getattr(patterns, name) for name in of_kind}


@bundle("kind", TYPES)
def test_a_configuration_has_the_fields_and_defaults_of_its_pattern(kind: TopologyType) -> None:
    """In the same order, as JSON."""
    ours = msgspec.json.decode(msgspec.json.encode(KINDS[kind].config()))
    theirs = json.loads(json.dumps(pattern_config(kind)().model_dump()))

    assert list(theirs.items()) == list(ours.items())


@pytest.mark.parametrize("kind", TYPES)
@given(data=st.data())
def test_a_value_is_taken_by_both_or_by_neither(kind: TopologyType, data: st.DataObject) -> None:
    """What a file may say, a row may."""
    name = data.draw(st.sampled_from(list(pattern_config(kind).model_fields)))
    value = data.draw(VALUES)

    assert refuses(pattern_config(kind), {name: value}) == bool(read_config(KINDS[kind].config, {name: value})[1])


@bundle("kind", TYPES)
def test_a_key_that_nobody_knows_is_refused(kind: TopologyType) -> None:
    """Not passed over: `max_round` is not `max_rounds`."""
    with pytest.raises(ValueError, match="max_round"):
        pattern_config(kind)(**{"max_round": 99})


def test_a_dumped_configuration_is_json_and_reads_as_the_same() -> None:
    """An enum's member stands as its value."""
    config = CrossCheckConfig(consensus_method=ConsensusMethod.UNANIMOUS, accuracy={"checker_0": 0.9})
    written = json.loads(json.dumps(config.model_dump()))

    assert written["consensus_method"] == "unanimous"
    assert typed_config(TopologyType.CROSS_CHECK, written) == config
    assert EnsembleConfig(aggregation_method="vote").aggregation_method is AggregationMethod.VOTE
    assert DebateConfig().consensus_method is ConsensusMethod.MEDIATOR_DECISION


def test_what_is_wrong_with_a_configuration_is_said_all_at_once() -> None:
    """In the words that the reference has, where it has some."""
    with pytest.raises(ValueError, match=r"Unknown composition type: zigzag; .*sub_topologies is 3"):
        typed_config(TopologyType.COMPOUND, {"composition_type": "zigzag", "sub_topologies": 3})


def test_a_class_of_a_users_own_is_taken_once_it_is_accepted() -> None:
    """Beside the usual one, which stays the first choice."""

    class Rounds(StrictConfig):
        laps: int = 3

    with pytest.raises(ValueError, match="laps"):
        typed_config(TopologyType.DEBATE, {"laps": 2})
    accept(TopologyType.DEBATE, Rounds)

    assert typed_config(TopologyType.DEBATE, {"laps": 2}) == Rounds(laps=2)
    assert isinstance(typed_config(TopologyType.DEBATE, {"max_rounds": 2}), DebateConfig)
    with pytest.raises(ValueError, match="laps"):
        typed_config(TopologyType.PIPELINE, {"laps": 2})


@bundle(
    "wrong",
    [
        {"temperature": 2.1},
        {"temperature": -0.1},
        {"max_tokens": 0},
        {"max_retries": -1},
        {"timeout_seconds": 0},
        {"max_tool_calls": -1},
        {"capabilities": ["memory"]},
        {"capabilities": [{"name": "memory", "level": 3}]},
        {"modle": "x"},
    ],
)
def test_an_agents_configuration_has_ranges(wrong: dict[str, Any]) -> None:
    """And no other keys, nor have its capabilities."""
    with pytest.raises(ValueError, match=next(iter(wrong))):
        AgentConfig(**wrong)


def test_an_agents_configuration_has_the_references_defaults() -> None:
    assert AgentConfig().model_dump() == {
        "model": "claude-sonnet-4-20250514",
        "temperature": 0.7,
        "max_tokens": 4096,
        "system_prompt": None,
        "output_format": None,
        "max_retries": 3,
        "timeout_seconds": 300,
        "max_tool_calls": 10,
        "capabilities": [],
    }
    assert AgentCapability(name="memory").model_dump() == {
        "name": "memory",
        "version": "1.0.0",
        "config": {},
        "enabled": True,
    }
