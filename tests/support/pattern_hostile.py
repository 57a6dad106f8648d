"""Patterns of every kind with settings drawn at random, whose agents say what nobody expects.

As a program: prints the digest of what so many runs asked and came to, for another process to compare.
"""

import hashlib
import json
import math
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from pattern_chance import chance, told
from pattern_play import Performance, pattern

from coterie.agents.backends.base import Answer, Failure, Request, Result
from coterie.team.planning.plan import Plan

SAID = (
    *("", " ", "{", "}", "[", "null", "true", "false", "42", '"x"', "[]", "{}", "[1, 2]", '{"a": 1}', "NaN", "1e999"),
    *("-Infinity", '"\\ud800"', "\x00\x01", "𝕏" * 50, "٤٢", "−5", "1," * 300, "9" * 5000, "1e99", "\u202e", "\u2028"),
    *("[" * 300, '{"approved":' * 300, '{"a":' * 2000 + "1" + "}" * 2000, '```json\n{"approved": true}\n```'),
    *(
        f'{{"approved": true, "confidence": {one}}}'
        for one in ("NaN", "Infinity", "1e400", "-3", '"0.5"', "null", "0.7")
    ),
    '{"approved": "false", "issues": {"a": 1}, "feedback": 5}',
    '{"approved": false, "issues": [1, null, {"a": [1]}, true, ""], "feedback": ""}',
    '{"approved": false, "issues": "one"}',
    '{"subtasks": []}',
    '{"subtasks": [""]}',
    '{"subtasks": [1, null, {"x": 2}], "approach": 5, "success_criteria": "x"}',
    '{"subtasks": ["A", "A", "A", "A", "A", "A", "A", "A"]}',
    *('{"reassign_to": 5}', '{"reassign_to": null}', '{"reassign_to": "worker"}', "BLOCKED", '{"blocked": "true"}'),
    *('{"route_to": 1}', '{"route_to": "worker"}', '{"route_to": ["worker"]}'),
    *(
        '{"answer": null}',
        '{"answer": ""}',
        '{"answer": {"a": 1}, "confidence": 2}',
        '{"answer": "A", "confidence": 0}',
    ),
    *("agreement: NaN", "agreement: 2", "agreement: 0.9", '{"agreement": true}', '{"stance": ["agree"]}', "I agree."),
    *("VERDICT:\nCONCLUSION:\n", "CONCLUSION: x", "confidence: nan\nfine", "confidence: 0.1"),
)
GIVEN = (
    *(None, None, None, {}, {"_confidence": "x"}, {"_confidence": math.nan}, {"_confidence": 0.9}, {"score": math.inf}),
    *({"approved": "yes"}, {"approved": True}, {"answer": [1]}, {"text": "t"}, {"confidence": None}),
)
KINDS_OF_FAILURE = ("failed", "transient", "auth", "timeout", "invalid_output", "unheard_of")


def says(random: Random, request: Request) -> Result:
    """Anything."""
    if random.random() < 0.15:
        return Failure(kind=random.choice(KINDS_OF_FAILURE), reason=random.choice(["down", "", "é" * 300]))
    return Answer(text=random.choice(SAID), outputs=random.choice(GIVEN))


def drawn(seed: int) -> tuple[Plan, Mapping[str, Any]]:
    """A pattern, and what it is given."""
    random = Random(seed)
    draw, given = random.choice(_KINDS)
    return draw(random), given


def performed(seed: int, pace: int = 0) -> Performance:
    """A run of the pattern of this *seed*; *pace* says who is slow."""
    plan, given = drawn(seed)
    return Performance(plan, given, chance(seed, says, pace))


def digest(done: Performance) -> str:
    """What was asked, and what came of it, in short."""
    whole = (sorted(told(done).items()), done.ended.status, done.ended.reason, done.ended.result)
    return hashlib.sha256(json.dumps(whole).encode()).hexdigest()


def _debate(random: Random) -> Plan:
    return pattern(
        "debate",
        ("proponent", "opponent", "mediator"),
        max_rounds=random.randint(1, 3),
        consensus_method=random.choice(["majority", "unanimous", "weighted", "mediator", "first_agree"]),
        convergence_threshold=random.choice([0.0, 0.5, 1.0]),
        swap_verdict=random.random() < 0.5,
    )


def _chain(random: Random) -> Plan:
    below = [slot for slot in ("lieutenant", "lieutenant_2", "worker") if random.random() < 0.7]
    return pattern(
        "chain",
        ("commander", *below, "worker_9"),
        escalation_threshold=random.choice([0.0, 0.5, 1.0]),
        max_subtasks=random.randint(1, 4),
        max_delegation_depth=random.randint(1, 3),
        max_concurrency=random.choice([None, 1]),
    )


def _delegation(random: Random) -> Plan:
    return pattern(
        "delegation",
        ("coordinator", "worker", "other"),
        routing_strategy=random.choice(["capability_match", "coordinator", "round_robin"]),
        fallback_agent_name=random.choice([None, "worker"]),
    )


def _ensemble(random: Random) -> Plan:
    method = random.choice(["vote", "average", "weighted", "concat", "best_of", "synthesis"])
    return pattern(
        "ensemble",
        ("a", "b", "c", "aggregator")[: random.randint(1, 4)],
        aggregation_method=method,
        samples=random.randint(1, 3),
        layers=random.randint(1, 2),
        failure_threshold=random.choice([0.0, 0.5, 1.0]),
        average=random.choice(["mean", "median", "trimmed"]),
        weights=random.choice(["log_odds", "linear", "uniform"]),
        stop_when_decided=method in ("vote", "weighted") and random.random() < 0.5,
    )


def _pipeline(random: Random) -> Plan:
    return pattern("pipeline", ("a", "b"), max_stage_retries=random.randint(0, 2))


def _crosscheck(random: Random) -> Plan:
    method = random.choice(["majority", "unanimous", "weighted", "mediator", "first_agree"])
    return pattern(
        "crosscheck",
        ("primary", "checker_0", "checker_1", *(("mediator",) if method == "mediator" else ())),
        consensus_method=method,
        max_revisions=random.randint(0, 2),
        quorum=random.randint(1, 2),
        stop_when_decided=random.random() < 0.5,
    )


def _compound(random: Random) -> Plan:
    return pattern(
        "compound",
        {"checked": _crosscheck(random), "argued": _debate(random)},
        composition_type=random.choice(["sequential", "parallel", "conditional"]),
        failure_policy=random.choice(["all", "any"]),
    )


_KINDS: tuple[tuple[Callable[[Random], Plan], Mapping[str, Any]], ...] = (
    (_debate, {"question": "q"}),
    (_chain, {"task": "t"}),
    (_delegation, {"tasks": ["t1", "t2", "t1"]}),
    (_ensemble, {"prompt": "p"}),
    (_pipeline, {"doc": {"pages": [1]}}),
    (_crosscheck, {"prompt": "p"}),
    (_compound, {"prompt": "p", "route_to": "argued"}),
)

if __name__ == "__main__":
    for n in range(int(sys.argv[1])):
        print(digest(performed(n)))
