"""Patterns in patterns: any in any other, as deep as one likes, and nesting alone changes nothing."""

import re
from random import Random

from bundles import bundle
from pattern_chance import same_at_any_pace
from pattern_play import Performance, failed, pattern, text

from coterie.agents.backends.base import Answer, Failure, Request, Result
from coterie.execution.runs.rehearsal import rehearse
from coterie.history.journal.records import TurnFailed
from coterie.team.planning.plan import AgentPlan, Plan
from coterie.team.topology.patterns.kinds import KINDS, keys_of

_GIVEN = {"question": "ASKED", "task": "ASKED", "prompt": "ASKED"}


def _team(kind: str, filler: Plan | None = None) -> Plan:
    """A small team of *kind*, in which *filler* does the main work if there is one."""
    slots, main, config = {
        "debate": (["proponent", "opponent", "mediator"], "opponent", {"max_rounds": 1}),
        "chain": (["commander", "worker"], "worker", {"authority_levels": ["commander", "worker"]}),
        "delegation": (["hand"], "hand", {}),
        "ensemble": (["ensemble_0", "ensemble_1"], "ensemble_1", {"aggregation_method": "concat"}),
        "pipeline": (["one", "two"], "one", {}),
        "crosscheck": (["primary", "checker_0", "checker_1"], "primary", {}),
        "compound": (["inner"], "inner", {}),
    }[kind]
    filled: dict[str, AgentPlan | Plan] = {name: AgentPlan(name=name) for name in slots}
    return pattern(kind, filled | ({main: filler} if filler is not None else {}), **config)


def _says(path: str, request: Request) -> tuple[Result, float]:
    """Checkers approve, commanders plan one subtask, everybody else says who it is."""
    said = f"{path} {request.turn} said"
    if "checker" in request.agent.name:
        said = '{"approved": true, "confidence": 0.9, "issues": [], "feedback": "fine"}'
    elif request.turn == "commander#1":
        said = '{"approach": "do it", "subtasks": ["ASKED"]}'
    return text(said), 1.0


@bundle("inner", KINDS)
@bundle("outer", KINDS)
def test_every_pattern_may_answer_in_every_other(outer: str, inner: str) -> None:
    """No prompt is empty; what the inner team said last reaches a later prompt of the outer one, or its result."""
    done = Performance(_team(outer, _team(inner)), _GIVEN, _says)

    assert (done.ended.status, done.ended.reason) == ("completed", "")
    assert all(re.search(r"ASKED|#\d+ said", request.prompt) for _, request in done.asked)
    inside = [_says(path, request)[0] for path, request in done.asked if "/" in path]
    heard = [done.text, *(request.prompt for path, request in done.asked if "/" not in path)]
    assert any(isinstance(one, Answer) and one.text in text for one in inside for text in heard), heard
    assert done.ended.usage.turns == len(done.asked)


@bundle("kind", KINDS)
def test_a_compound_of_one_is_that_one(kind: str) -> None:
    """The same questions, the same answer."""
    alone = Performance(_team(kind), _GIVEN, _says)
    inside = Performance(pattern("compound", {"it": _team(kind)}), _GIVEN, _below)

    assert inside.text == alone.text
    assert [(path, request.prompt) for path, request in inside.asked] == [
        (f"it/{path}", request.prompt) for path, request in alone.asked
    ]
    [sub] = inside.output["sub_results"]
    assert sub["output"] == alone.output


def _below(path: str, request: Request) -> tuple[Result, float]:
    return _says(path.removeprefix("it/"), request)


def test_teams_may_stand_five_deep() -> None:
    """What is at the bottom comes up to the top."""
    plan = _team("ensemble")
    for kind in ("pipeline", "compound", "delegation", "compound"):
        plan = _team(kind, plan)
    done = Performance(plan, _GIVEN, _says)

    deepest = max((path for path, _ in done.asked), key=lambda path: path.count("/"))
    assert deepest.count("/") == 4
    assert done.ended.status == "completed"
    assert "said" in done.text


@bundle("kind", KINDS)
def test_what_a_kind_gives_is_known_before_it_runs(kind: str) -> None:
    """So that a mapping or a condition can be checked."""
    plans = [_team(kind)]
    if kind == "compound":
        compositions = ("sequential", "parallel", "conditional")
        plans = [pattern(kind, {"it": _team("pipeline")}, composition_type=one) for one in compositions]

    assert set().union(*(Performance(plan, _GIVEN, _says).output for plan in plans)) == set(keys_of(kind))


@bundle("strategy", ["capability_match", "coordinator", "round_robin"])
@bundle("kind", KINDS)
def test_a_rehearsal_needs_no_script(kind: str, strategy: str) -> None:
    """Every pattern comes to an end with stand-ins that say no more than they must, as deep as it is."""
    inner = pattern("delegation", ["coordinator", "hand", "other"], routing_strategy=strategy)
    played = rehearse(_team(kind, inner), _GIVEN)

    assert played["outcome"] == "completed"
    [child] = [turn["child"] for turn in played["turns"] if "child" in turn]
    assert child["outcome"] == "completed"


@bundle("inner", KINDS)
@bundle("outer", KINDS)
def test_it_does_not_matter_who_is_slow(outer: str, inner: str) -> None:
    """Same questions, same end, whatever fails or says too little, in teams of teams."""
    for seed in range(2):
        same_at_any_pace(_team(outer, _team(inner)), _GIVEN, seed, _unsure)


def _unsure(rng: Random, request: Request) -> Result:
    match rng.randint(0, 7):
        case 0:
            return failed()
        case 1:
            return text(rng.choice(["{", "I agree", "BLOCKED: no", "agreement: 0.9"]))
        case 2:
            return text(f"maybe {request.turn}", _confidence=rng.random())
        case _:
            return _says("", request)[0]


@bundle("kind", ["auth", "quota", "not_found"])
@bundle("inner", [*KINDS])
def test_what_no_further_attempt_can_mend_stays_that_above(inner: str, kind: str) -> None:
    """A team all of whose failures are of one final kind is asked once, however often its agent may be tried."""
    team = _team(inner)
    if inner == "compound":
        team = pattern("compound", {"left": _team("ensemble"), "right": _team("pipeline")}, composition_type="parallel")

    def says(path: str, request: Request) -> tuple[Result, float]:
        fine = request.turn in ("commander#1", "primary#1")
        return (_says(path, request)[0] if fine else Failure(kind=kind, reason="no")), 1.0

    above = pattern("ensemble", {"ensemble": AgentPlan(name="ensemble", kind="topology", child=team, retry=3)})
    done = Performance(above, _GIVEN, says)
    [failure] = done.records(TurnFailed)
    assert (done.ended.status, done.ended.result, failure.kind) == ("failed", {"kind": kind}, kind)
    assert all(request.run.startswith("r/ensemble#1.1") for _, request in done.asked)


def test_failures_of_several_kinds_may_pass() -> None:
    """One of them may be gone at the next attempt."""

    def says(path: str, request: Request) -> tuple[Result, float]:
        return Failure(kind="auth" if request.agent.name == "ensemble_0" else "exit", reason="no"), 1.0

    inner = AgentPlan(name="ensemble", kind="topology", child=_team("ensemble"), retry=1)
    done = Performance(pattern("ensemble", {"ensemble": inner}), _GIVEN, says)
    assert done.counts() == {"ensemble/ensemble_0": 2, "ensemble/ensemble_1": 2}
    assert [one.kind for one in done.records(TurnFailed)] == ["failed"]
