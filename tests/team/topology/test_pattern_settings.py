"""What a pattern sets: what is not a value of it, and what changes nothing as things are."""

from typing import Any, Literal, get_args, get_origin

import msgspec
import pytest
from bundles import bundle

from coterie.team.topology.patterns.kinds import KINDS, faults, keys_of, scalars_of

pytestmark = pytest.mark.once

DEBATE = ("proponent", "opponent", "mediator")
CHECK = ("primary", "checker_0", "checker_1", "checker_2")
HANDS = ("coordinator", "a", "b")

CHOICES = [
    (kind.name, field.name, get_args(field.type))
    for kind in KINDS.values()
    for field in msgspec.structs.fields(kind.config)
    if get_origin(field.type) is Literal
]


@bundle(("kind", "name", "members"), CHOICES)
@bundle("value", ["zigzag", 3, None, ["vote"]])
def test_one_of_several_words_says_which(kind: str, name: str, members: tuple[str, ...], value: Any) -> None:
    """Whatever stands there instead."""
    [fault] = faults(KINDS[kind], {name: value}, ())

    assert (fault.code, fault.where) == ("bad-config", f"config.{name}")
    assert fault.message.endswith(f"expected one of {', '.join(members)}")
    assert str(value) in fault.message


def test_a_word_that_is_nearly_right_is_mended() -> None:
    """As everywhere."""
    [fault] = faults(KINDS["ensemble"], {"aggregation_method": "weigthed"}, ())

    assert "weighted" in fault.hint


@bundle(
    ("kind", "slots", "config", "idle"),
    [
        ("debate", DEBATE, {"mediator_agent_name": "opponent"}, ["mediator_agent_name"]),
        ("debate", DEBATE, {"mediator_agent_name": "mediator"}, []),
        ("crosscheck", ("primary", "checker", "checker_1"), {"num_checkers": 3}, ["num_checkers"]),
        ("crosscheck", CHECK, {"num_checkers": 3}, ["num_checkers"]),
        ("crosscheck", ("primary", "checker"), {"num_checkers": 3}, []),
        ("crosscheck", CHECK, {"accuracy": {"checker_0": 0.9}, "consensus_method": "weighted"}, []),
        (
            "crosscheck",
            CHECK,
            {"accuracy": {"checker_0": 0.9}, "consensus_method": "weighted", "weights": "uniform"},
            ["accuracy"],
        ),
        (
            "crosscheck",
            CHECK,
            {"require_unanimous_for_approval": True, "consensus_method": "unanimous"},
            ["require_unanimous_for_approval"],
        ),
        (
            "ensemble",
            ("a", "b"),
            {"accuracy": {"a": 0.9}, "aggregation_method": "weighted", "weights": "uniform"},
            ["accuracy"],
        ),
        ("delegation", HANDS, {"load_balance": True, "routing_strategy": "coordinator"}, ["load_balance"]),
        ("delegation", ("a", "b"), {"load_balance": False}, []),
        (
            "delegation",
            ("a", "b"),
            {"fallback_agent_name": "a", "routing_strategy": "round_robin"},
            ["fallback_agent_name"],
        ),
        ("delegation", HANDS, {"fallback_agent_name": "a", "routing_strategy": "coordinator"}, []),
        ("compound", ("a", "b"), {"failure_policy": "any"}, ["failure_policy"]),
        ("compound", ("a", "b"), {"max_concurrency": 1, "composition_type": "conditional"}, ["max_concurrency"]),
        ("compound", ("a", "b"), {"failure_policy": "any", "composition_type": "parallel"}, []),
        ("pipeline", ("a", "b"), {"retry_failed_stages": False, "max_stage_retries": 1}, ["max_stage_retries"]),
    ],
)
def test_a_setting_without_effect_is_told(
    kind: str, slots: tuple[str, ...], config: dict[str, Any], idle: list[str]
) -> None:
    """As a warning: the pattern runs all the same."""
    assert [(one.code, one.where) for one in faults(KINDS[kind], config, slots)] == [
        ("idle-config", f"config.{name}") for name in idle
    ]


def test_conditions_can_compare_what_a_result_has_of_one_value() -> None:
    """Its class has the types; a number that may be missing is a number."""
    ensemble = scalars_of("ensemble")

    assert (ensemble["share"], ensemble["successful"], ensemble["degraded"]) == ("number", "integer", "boolean")
    assert "votes" in keys_of("ensemble")
    assert "votes" not in ensemble
    assert list(scalars_of("compound")) == ["composition", "selected_route", "status"]
