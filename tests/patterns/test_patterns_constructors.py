"""Patterns made in Python: they say what a file would, run like one, and are refused with the same words."""

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bundles import bundle

import coterie
from coterie.base.diagnostics import Diagnostic
from coterie.errors import CoterieError, TopologyError, UsageError
from coterie.execution.runs.rehearsal import rehearse
from coterie.history.engines.patterns.registry import Team, pattern
from coterie.history.engines.questions import Conversation, Question
from coterie.patterns import (
    agent,
    chain_of_command,
    collaboration,
    compound,
    cross_check,
    debate,
    delegation,
    ensemble,
    pipeline,
)
from coterie.team.formats import read_text
from coterie.team.planning import plan_or_raise
from coterie.team.planning.pattern import PatternPlan
from coterie.team.topology.model import Topology

CAT = agent(command=["cat"])
TWO = ensemble(CAT, CAT, aggregation_method="vote")
MADE: dict[str, Callable[[], Topology]] = {
    "debate": lambda: debate(proponent=CAT, opponent=CAT, mediator=CAT, max_rounds=1),
    "chain": lambda: chain_of_command({"commander": CAT, "worker_1": CAT}, authority_levels=["commander", "worker"]),
    "delegation": lambda: delegation(
        {"coder": agent(command=["cat"], capabilities=["code"])}, coordinator=CAT, routing_strategy="coordinator"
    ),
    "ensemble": lambda: ensemble(CAT, CAT, aggregator=CAT),
    "pipeline": lambda: pipeline({"draft": CAT, "review": CAT}),
    "crosscheck": lambda: cross_check(CAT, CAT, CAT, mediator=CAT, consensus_method="mediator"),
    "compound": lambda: compound({"one": TWO, "two": CAT}),
}


@pattern("asked-twice", key="prompt")
def asked_twice(team: Team, given: dict[str, Any]) -> Conversation:
    first = yield Question("one", given["prompt"])
    second = yield Question("two", first.text)
    return second.text


@bundle("kind", MADE)
def test_each_kind_has_its_function(kind: str) -> None:
    """What it gives is planned and plays through."""
    plan = plan_or_raise(MADE[kind]())

    assert isinstance(plan.coordination, PatternPlan)
    assert plan.coordination.type == kind
    document = rehearse(plan, {"question": "why", "task": "why", "prompt": "why"})
    assert document["outcome"] == "completed"
    assert document["never_ran"] == []


def test_a_team_made_in_python_says_what_a_file_says() -> None:
    """The plans are the same."""
    text = """
pattern:
  type: debate
  name: talk
  config: {max_rounds: 2}
  slots:
    proponent: {model: opus, prompt: "For it.", temperature: 0.2, tools: [search, "os.path:join"], max_retries: 0}
    opponent: {command: [cat, "-"], timeout_seconds: 5, capabilities: [doubt], budget: {calls: 3, cost: 0.5}, cwd: src}
    mediator: {type: human, prompt: "Decide."}
"""
    made = debate(
        name="talk",
        max_rounds=2,
        proponent=agent(
            model="opus", prompt="For it.", temperature=0.2, tools=["search", "os.path:join"], max_retries=0
        ),
        opponent=agent(command=["cat", "-"], timeout_seconds=5, capabilities=["doubt"], calls=3, cost=0.5, cwd="src"),
        mediator=agent(type="human", prompt="Decide."),
    )
    read = read_text(text, "talk.yaml").topology
    assert read is not None

    assert plan_or_raise(made).content_hash() == plan_or_raise(read).content_hash()


def test_a_slot_is_filled_by_a_name_a_path_or_a_team(tmp_path: Path) -> None:
    """A text is a model; a path is a file; what another function gave is a team."""
    (tmp_path / "one.pattern.yaml").write_text("pattern: {type: pipeline, slots: {a: {command: [cat]}}}\n")
    plan = plan_or_raise(debate(proponent="haiku", opponent=tmp_path / "one.pattern.yaml", mediator=TWO))

    assert (plan.agents["proponent"].model, plan.agents["proponent"].backend) == ("haiku", "model")
    assert [plan.agents[slot].kind for slot in ("opponent", "mediator")] == ["topology", "topology"]
    opponent = plan.agents["opponent"].child
    assert opponent is not None
    assert opponent.folder == str(tmp_path)


def test_whoever_stands_in_stands_beside_the_slot() -> None:
    """And may have somebody who stands in again."""
    last = agent(command=["cat"], fallback="haiku")
    plan = plan_or_raise(pipeline({"draft": agent(command=["false"], fallback=last)}))

    assert list(plan.agents) == ["draft", "draft-fallback", "draft-fallback-fallback"]
    assert [one.fallback for one in plan.agents.values()] == ["draft-fallback", "draft-fallback-fallback", ""]


def test_it_runs_and_its_result_has_the_keys_of_its_kind(tmp_path: Path) -> None:
    """As any team does, with a journal."""
    team = cross_check(agent(command=["echo", "42"]), agent(command=["echo", '{"approved": true}']), num_checkers=2)
    outcome = asyncio.run(coterie.run(team, {"prompt": "6 x 7"}, state_dir=tmp_path))

    assert outcome.status == "completed", outcome.reason
    assert outcome.result["text"].strip() == "42"
    assert outcome.result["outputs"]["crosscheck"]["final_approved"] is True
    assert outcome.result.text.strip() == "42"
    assert outcome.result.outputs["crosscheck"].final_approved is True
    assert outcome.result.to_dict() == outcome.result
    with pytest.raises(AttributeError, match="did you mean 'final_approved'"):
        _ = outcome.result.outputs["crosscheck"].final_aproved


def test_a_pattern_of_ones_own_is_run_by_its_function(tmp_path: Path) -> None:
    """The plan names it, so that it is found again."""
    team = collaboration(asked_twice, {"one": CAT, "two": CAT})
    plan = plan_or_raise(team)

    assert isinstance(plan.coordination, PatternPlan)
    assert plan.coordination.type == f"{__name__}:asked_twice"
    assert rehearse(plan, {"prompt": "why"})["outcome"] == "completed"


def test_a_function_that_is_no_pattern_is_refused() -> None:
    """It says what to put in front of it."""
    with pytest.raises(UsageError, match="decorate it with @pattern"):
        collaboration(lambda team, given: None, {"one": CAT})


@bundle(
    ("make", "said"),
    [
        (lambda: debate(proponent=CAT, opponent=CAT, mediator=CAT, max_round=3), "unknown setting 'max_round'"),
        (lambda: debate(proponent=CAT, opponent=CAT, mediator=CAT, max_rounds=11), "max_rounds is 11"),
        (lambda: cross_check(CAT), "Cross-check requires at least 2 checkers"),
        (lambda: chain_of_command({"worker": CAT}), "No agent assigned to top level: commander"),
        (lambda: ensemble(), "Ensemble requires at least one ensemble agent"),
        (lambda: pipeline({"a": CAT}, stages=["b"]), "No agent for stage: b"),
        (lambda: pipeline({"a b": CAT}), "a slot cannot be called 'a b'"),
        (lambda: pipeline({"a": agent(command=["cat"], calls=0)}), "slot 'a' may have 0 turns"),
        (lambda: pipeline({"a": agent()}), "agent 'a' has no model"),
        (lambda: pipeline({"a": agent(model="m", max_retries=-1)}), "max_retries is -1: expected a whole number >= 0"),
        (lambda: pipeline({"a": agent(model="m", timeout_seconds=float("nan"))}), "timeout_seconds is nan: expected"),
        (lambda: delegation({"a": agent(model="m", capabilities="law")}), "capabilities is 'law': expected a list"),
        (lambda: pipeline({"a": agent(command="echo hi")}), "command is 'echo hi': expected a list, got a text"),
        (lambda: pipeline({"a": agent(model="m", tools="Read")}), "tools is 'Read': expected a list, got a text"),
        (lambda: pipeline({"a": agent(type="robot")}), "type is 'robot': expected one of human, model, command"),
        (lambda: pipeline({"a": agent(prompt=None)}), "prompt is None: expected a text, got nothing"),  # type: ignore[arg-type]
        (lambda: pipeline({"a": CAT}, stages={"a"}), "stages is {'a'}: expected a list, got a set"),
        (lambda: ensemble(CAT, accuracy={"ensemble_0": 1}), "accuracy.ensemble_0 is 1: expected a number < 1.0"),
        (lambda: delegation({}), "Delegation requires at least one agent beside the coordinator"),
        (lambda: compound({"a": CAT}, composition_type="zigzag"), "Unknown composition type: zigzag"),
    ],
)
def test_what_does_not_fit_is_refused_at_once(make: Callable[[], Topology], said: str) -> None:
    """With the words of a file's diagnostics."""
    with pytest.raises(TopologyError) as raised:
        make()

    found: tuple[Diagnostic, ...] = tuple(raised.value.diagnostics)
    assert said in [each.message[: len(said)] for each in found]


def test_what_fills_no_slot_is_refused() -> None:
    """And told what would."""
    with pytest.raises(UsageError, match=r"slot 'mediator' is filled by an agent\(…\), .* not by 5"):
        debate(proponent=CAT, opponent=CAT, mediator=5)  # type: ignore[arg-type]


@bundle(
    ("make", "said"),
    [
        (lambda: agent(model="m", command=["cat"]), "has 2 backends: model, command"),
        (lambda: agent(model="m", type="human"), "has 2 backends: model, type='human'"),
        (lambda: agent(model="m", temprature=1), "did you mean 'temperature'?"),
        (lambda: agent(modell="m"), "did you mean 'model'?"),
        (lambda: agent(model="m", max_retry=1), "did you mean 'max_retries'?"),
        (lambda: ensemble([CAT, CAT]), "pass several agents one by one"),  # type: ignore[arg-type]
        (lambda: agent(model="m", temperature="hot"), "'temperature' of an agent is a number from 0 to 2, not 'hot'"),
        (lambda: pipeline([CAT]), "slots must be a dict {NAME: agent}"),  # type: ignore[arg-type]
        (lambda: pipeline({7: CAT}), "slots must be a dict {NAME: agent}"),  # type: ignore[dict-item]
        (lambda: pipeline({"a": CAT}, name=7), "the name of a team must be a text, not 7"),  # type: ignore[arg-type]
        (lambda: pipeline({"a": CAT}, description=7), "the description of a team must be"),  # type: ignore[arg-type]
        (lambda: collaboration("x:y", {"a": CAT}), "a user-defined pattern is a function"),  # type: ignore[arg-type]
    ],
)
def test_what_says_nothing_is_refused_in_words(make: Callable[[], object], said: str) -> None:
    """Where it is written, not where it would be run."""
    with pytest.raises(UsageError) as raised:
        make()

    assert said in str(raised.value)


@bundle("given", [None, ["x"], {7: "x"}, {"task": object()}, {"task": float("nan")}])
def test_what_is_no_plain_data_is_not_given_to_a_team(given: Any, tmp_path: Path) -> None:
    """A resumed run would read something else than the one that began."""
    with pytest.raises(UsageError, match=r"named values|must be a text|JSON data"):
        asyncio.run(coterie.run(pipeline({"a": CAT}), given, state_dir=tmp_path))

    assert not list(tmp_path.iterdir())


@bundle(
    ("make", "hint"),
    [
        (lambda: ensemble(), "pass its members one by one"),
        (lambda: cross_check(CAT), "pass two checkers, or one, which is called num_checkers times"),
        (lambda: pipeline({"a": agent()}), "write agent(model=…), agent(command=[…])"),
        (lambda: coterie.run(pipeline({"a": "gpt9000"}), "x"), "agent(model=…, provider=…), pass backend=…"),
        (lambda: coterie.run(pipeline({"a": "haiku"}), "x"), "name another: agent(api_key=…), or try it without a"),
        (lambda: coterie.run(debate(proponent=CAT, opponent=CAT, mediator=CAT), {}), 'pass {"question": …}'),
        (lambda: coterie.run(delegation({"a": CAT}), {"tasks": 3}), 'pass {"tasks": ["…"]}'),
    ],
)
def test_hints_for_python_name_keywords(
    make: Callable[[], Any], hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither options of the command line nor entries of a file."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)

    async def call() -> None:
        await make()

    with pytest.raises(CoterieError) as raised:
        asyncio.run(call())

    assert hint in str(raised.value)
    assert not re.search(r"--\w|\.at\b|YAML", str(raised.value))


def test_a_tool_must_be_found_by_its_name() -> None:
    """A function of another function is not there in a run that is resumed."""
    assert agent(model="haiku", tools=[asyncio.sleep]).definition.node.extension["tools"] == {
        "sleep": "asyncio.tasks:sleep"
    }
    with pytest.raises(UsageError, match="cannot be found by its name"):
        agent(model="haiku", tools=[lambda: None])


def test_teams_lie_only_so_deep_in_each_other() -> None:
    """What is made in Python is bounded as files are."""
    team = pipeline({"a": CAT})
    for _ in range(9):
        team = pipeline({"a": team})

    with pytest.raises(TopologyError, match="more than 8 deep"):
        plan_or_raise(team)


def test_a_warning_of_the_checks_is_a_python_warning() -> None:
    """At the line of the caller, with the code of the diagnostic."""
    with pytest.warns(UserWarning, match=r"ensemble: the slot 'aggregator' is never called.*\[spare-slot\]") as caught:
        ensemble("haiku", "haiku", aggregator="haiku", aggregation_method="vote")

    assert [Path(one.filename) for one in caught] == [Path(__file__)]
