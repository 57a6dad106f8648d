"""A pattern is the same whichever way it is started: as a class, or on our own engine."""

import asyncio
import random
from typing import Any

import pattern_play
import pytest
import reference_play
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.agents.backends.base import Failure, Request, Result
from coterie.patterns import current_call

TEAMS: dict[str, tuple[str, tuple[str, ...], dict[str, Any], dict[str, Any]]] = {
    "a debate": (
        "debate",
        ("proponent", "opponent", "mediator"),
        {"max_rounds": 3, "swap_verdict": True},
        {"question": "?"},
    ),
    "a chain": (
        "chain",
        ("commander", "lieutenant", "worker_1", "worker_2"),
        {"max_concurrency": 2},
        {"task": "build"},
    ),
    "a vote": (
        "ensemble",
        ("ensemble_0", "ensemble_1", "ensemble_2"),
        {"aggregation_method": "vote", "samples": 3, "stop_when_decided": True, "failure_threshold": 1.0},
        {"prompt": "?"},
    ),
    "layers": (
        "ensemble",
        ("ensemble_0", "ensemble_1", "aggregator"),
        {"layers": 2, "max_concurrency": 1, "failure_threshold": 1.0},
        {"prompt": "?"},
    ),
    "checks": (
        "crosscheck",
        ("primary", "checker"),
        {"num_checkers": 4, "max_revisions": 2, "stop_when_decided": True},
        {"prompt": "?"},
    ),
    "a delegation": (
        "delegation",
        ("a", "b", "coordinator"),
        {"routing_strategy": "round_robin"},
        {"tasks": ["x", "y", "z"]},
    ),
    "a pipeline": ("pipeline", ("one", "two"), {"max_stage_retries": 1}, {"text": "raw"}),
}

AGAIN = "\n\n# Your last attempt did not count"
"""What our own engine tells whoever is asked again; a class leaves its requests as they are."""

SAID = (
    "41",
    "42",
    '{"approved": true, "confidence": 0.8}',
    '{"approved": false, "issues": ["wrong"], "confidence": 0.6}',
    '{"subtasks": ["dig", "plant"], "approach": "slowly"}',
    '{"result": "done", "confidence": 0.9, "agreement": 0.7}',
    "VERDICT: tie\nCONCLUSION: Both.",
    "",
)


def says(seed: int, slot: str, n: int, chance: float) -> tuple[str | None, float]:
    """What *slot* says when it is asked for the *n*-th time, None if it fails, and how many seconds it takes."""
    draw = random.Random(f"{seed} {slot} {n}")
    said = None if draw.random() < chance else draw.choice(SAID)
    return said, draw.random() * 10


def told(value: Any) -> Any:
    """*value* without what is measured."""
    if isinstance(value, dict):
        return {name: told(one) for name, one in value.items() if name not in ("usage", "duration_ms")}
    return [told(one) for one in value] if isinstance(value, list) else value


def on_the_engine(name: str, seed: int, chance: float) -> tuple[Any, list[tuple[str, str]]]:
    """What comes of it on our own engine, and what everybody was asked."""
    kind, slots, config, task = TEAMS[name]

    def answer(path: str, request: Request) -> tuple[Result, float]:
        said, seconds = says(seed, path, int(request.turn.rpartition("#")[2]), chance)
        return (Failure(kind="failed", reason="down") if said is None else pattern_play.text(said)), seconds

    done = pattern_play.Performance(pattern_play.pattern(kind, slots, **config), task, answer)
    asked = sorted(
        (path, "\n\n".join([*(text for _, text in one.history), one.latest.partition(AGAIN)[0]]))
        for path, one in done.asked
    )
    return (done.ended.reason or told(done.output)), asked


def as_a_class(name: str, seed: int, chance: float) -> tuple[Any, list[tuple[str, str]]]:
    """The same, as a topology object."""
    kind, slots, config, task = TEAMS[name]
    asked: list[tuple[str, str]] = []

    async def model(request: dict[str, Any]) -> dict[str, Any]:
        call = current_call()
        asked.append((call.slot, "\n\n".join(one["content"] for one in request["messages"])))
        said, seconds = says(seed, call.slot, int(call.turn.rpartition("#")[2]), chance)
        await asyncio.sleep(seconds)
        if said is None:
            raise RuntimeError("down")
        return {"content": said}

    try:
        done = reference_play.play(reference_play.team(kind, slots, model, name=kind, **config), task)
    except RuntimeError as error:
        return str(error), sorted(asked)
    return told(done.output_data), sorted(asked)


@pytest.mark.parametrize("name", TEAMS)
@settings(max_examples=12)
@given(seed=st.integers(0, 2**32), chance=st.sampled_from([0.0, 0.15]))
def test_both_ways_ask_the_same_and_come_to_the_same(name: str, seed: int, chance: float) -> None:
    """Whoever is faster, whoever fails, whatever is said."""
    assert as_a_class(name, seed, chance) == on_the_engine(name, seed, chance)
