"""What is counted of patterns, against rehearsals of the same plans."""

from pathlib import Path
from time import process_time
from typing import Any

import pytest
from bundles import bundle
from msgspec import structs

from coterie.execution.runs.rehearsal import rehearse
from coterie.proofs import Prices, Report, check
from coterie.proofs.measures import attempts
from coterie.team.formats import read_text
from coterie.team.planning import plan_or_raise
from coterie.team.planning.plan import Plan, Wanted
from coterie.team.topology.model import Topology

pytestmark = pytest.mark.once

SIDES = "proponent opponent mediator"
TWICE = "{command: [cat], budget: {calls: 2}}"
TEAMS = {
    "debate": ("debate", "{max_rounds: 2, allow_early_termination: false}", SIDES),
    "ensemble": ("ensemble", "{samples: 2, layers: 2}", "ensemble_a ensemble_b aggregator"),
    "pipeline": ("pipeline", "{}", "draft review"),
    "crosscheck": ("crosscheck", "{max_revisions: 1}", "primary checker_1 checker_2"),
    "chain": ("chain", "{}", "commander lieutenant_1 worker_1"),
    "delegation": ("delegation", "{}", "one two"),
    "compound": ("compound", "{}", "one two"),
}


def team(type: str, config: str, slots: str, **more: str) -> Topology:
    lines = [f"    {slot}: {more.get(slot, '{command: [cat], max_retries: 1}')}" for slot in slots.split()]
    text = "\n".join(["pattern:", f"  type: {type}", f"  config: {config}", "  slots:", *lines])
    source = read_text(text, "team.yaml")
    assert source.topology is not None
    assert not source.has_errors
    return source.topology


def proved(topology: Topology, **more: Any) -> tuple[Plan, Report]:
    plan = plan_or_raise(topology)
    return plan, check(plan, topology=topology, **more)


def turns(document: dict[str, Any]) -> int:
    """How many turns a rehearsal took; those of teams do not count, what they asked does."""
    return sum(turns(turn["child"]) if "child" in turn else 1 for turn in document["turns"])


@bundle("name", TEAMS)
def test_a_rehearsal_takes_as_many_turns_as_usual(name: str) -> None:
    """What is counted is what happens when nothing fails; and no more than at worst."""
    plan, report = proved(team(*TEAMS[name]))
    document = rehearse(plan, {"question": "why", "task": "why", "prompt": "why"})

    assert report.usual is not None
    assert report.worst is not None
    assert document["outcome"] == "completed"
    assert turns(document) == report.usual.turns <= report.worst.turns
    assert (report.method, report.ends) == ("bound", True)


def test_a_team_in_a_slot_is_counted_as_often_as_it_is_asked() -> None:
    """By the path of its agents, once more for each retry of the slot."""
    inner = "{max_retries: 1, pattern: {type: pipeline, slots: {a: {command: [cat]}, b: {command: [cat]}}}}"
    plan, report = proved(team("debate", "{max_rounds: 2}", SIDES, opponent=inner))

    assert report.usual is not None
    assert report.worst is not None
    assert report.usual.agents == {"proponent": 2, "opponent/a": 2, "opponent/b": 2, "mediator": 1}
    assert report.worst.agents == {"proponent": 2, "opponent/a": 4, "opponent/b": 4, "mediator": 1}
    assert turns(rehearse(plan, {"question": "why"})) <= report.usual.turns


def test_whoever_stands_in_counts_as_often_as_the_slot() -> None:
    """Every turn of the slot may fail; a budget bounds both."""
    for budget, most in (("", 3), (", budget: {calls: 2}", 2)):
        own = f"{{command: [cat], fallback: other{budget}}}"
        slots = f"{{proponent: {own}, opponent: {{command: [cat]}}, mediator: {{command: [cat]}}}}"
        text = f"pattern:\n  type: debate\n  config: {{max_rounds: 3}}\n  slots: {slots}\n"
        topology = read_text(f"{text}agents:\n  other: {{command: [cat]}}\n", "t.yaml").topology
        assert topology is not None
        _, report = proved(topology)

        assert report.worst is not None
        assert report.worst.agents == {"proponent": most, "other": most, "opponent": 3, "mediator": 1}


def test_many_who_stand_in_for_each_other_are_counted_at_once() -> None:
    """What is looked at grows with what there is to say, not with its square for each slot."""
    count = 300
    slots = "".join(f"    ensemble_{n}: a{n}\n" for n in range(count))
    agents = "".join(f"  a{n}: {{command: [cat], fallback: a{(n + 1) % count}}}\n" for n in range(count))
    topology = read_text(f"pattern:\n  type: ensemble\n  slots:\n{slots}agents:\n{agents}", "t.yaml").topology
    assert topology is not None
    began = process_time()
    _, report = proved(topology, prices=Prices(turn=1.0))

    assert report.worst is not None
    assert report.worst.turns == count * count
    assert process_time() - began < 2


def test_prices_give_the_cost_at_worst() -> None:
    """Of turns that succeed at once, and of turns that take all their attempts."""
    _, report = proved(team(*TEAMS["pipeline"]), prices=Prices(turn=0.5, agents={"review": 1.0}))

    assert report.cost is not None
    assert (report.cost.turns, report.cost.attempts) == (1.5, 4.5)  # 1 + max_stage_retries attempts


@bundle(
    ("code", "type", "config", "slots", "more"),
    [
        ("never-asked", "pipeline", "{stages: [a]}", "a b", {}),
        ("short-budget", "debate", "{}", SIDES, {"opponent": TWICE}),
        ("idle-stop", "debate", "{max_rounds: 1, allow_early_termination: true}", SIDES, {}),
        ("idle-stop", "debate", "{max_rounds: 2, min_rounds: 2, allow_early_termination: true}", SIDES, {}),
        ("idle-stop", "ensemble", "{aggregation_method: vote, stop_when_decided: true}", "ensemble_a ensemble_b", {}),
        ("idle-stop", "crosscheck", "{stop_when_decided: true}", "primary checker_1 checker_2", {}),
        ("per-task", "delegation", "{}", "one two", {}),
    ],
)  # fmt: skip
def test_what_is_found_has_its_place(code: str, type: str, config: str, slots: str, more: dict[str, str]) -> None:
    """Each with the line that it is about."""
    _, report = proved(team(type, config, slots, **more))

    (found,) = report.findings
    assert found.code == code
    assert found.span is not None


@bundle(
    ("type", "config", "slots", "more"),
    [
        ("crosscheck", "{stop_when_decided: true}", "primary checker_1 checker_2 checker_3", {}),
        ("crosscheck", "{stop_when_decided: true, num_checkers: 3}", "primary checker", {}),
        ("ensemble", "{aggregation_method: vote, stop_when_decided: true}", "ensemble_a ensemble_b ensemble_c", {}),
        ("ensemble", "{aggregation_method: vote, stop_when_decided: true, samples: 3}", "ensemble_a", {}),
        ("debate", "{max_rounds: 2}", SIDES, {"opponent": TWICE}),
    ],
)
def test_a_setting_that_may_have_an_effect_is_not_reported(
    type: str, config: str, slots: str, more: dict[str, str]
) -> None:
    """Three votes, of which two decide; a budget for exactly the usual turns."""
    _, report = proved(team(type, config, slots, **more))

    assert report.findings == ()


def test_a_pattern_of_ones_own_is_not_imported() -> None:
    """Nothing is known of it, and that is said."""
    _, report = proved(team("no.such.module:play", "{}", "one"))

    assert (report.worst, report.usual, [found.code for found in report.findings]) == (None, None, ["not-proved"])


def test_a_pattern_in_a_flow_is_counted(tmp_path: Path) -> None:
    """The numbers of the flow are then bounds, and it is said why."""
    (tmp_path / "p.pattern.yaml").write_text("pattern: {type: pipeline, slots: {a: {command: [cat]}}}\n")
    topology = read_text(
        'topology t : [pipeline] {\n import "p.pattern.yaml" as p\n agent w { model: haiku }\n flow { w -> p }\n}',
        str(tmp_path / "t.at"),
        tmp_path,
    ).topology
    assert topology is not None
    _, report = proved(topology)

    assert report.worst is not None
    assert report.worst.agents == {"w": 1, "p/a": 2}
    assert [found.code for found in report.findings] == ["counted"]


LOOP = """\
name = "work"
[[role]]
id = "a"
emits = ["ready"]
prompt = "p"
[[role]]
id = "b"
emits = ["ready"]
prompt = "p"
[handoff]
"loop.start" = ["a"]
"ready" = ["b"]
"""
LOOP_SETTINGS = """\
event_loop.max_iterations = 4
event_loop.completion_event = "done"
parallel.enabled = true
parallel.max_branches = 2
review.every = 2
backend.kind = "command"
backend.command = "true"
"""


def with_loop(folder: Path, text: str, name: str = "t.yaml") -> tuple[Plan, Report]:
    """A team of *text* beside a loop `work`, and what is proved of it, a turn costing a dollar."""
    (folder / "work").mkdir()
    (folder / "work" / "topology.toml").write_text(LOOP)
    (folder / "work" / "autoloops.toml").write_text(LOOP_SETTINGS)
    topology = read_text(text, str(folder / name), folder).topology
    assert topology is not None
    return proved(topology, prices=Prices(turn=1.0))


def test_a_loop_in_a_slot_is_counted_by_its_iterations(tmp_path: Path) -> None:
    """As if it took all of them, with a wave in each; it is said which."""
    plan, report = with_loop(tmp_path, "pattern: {type: pipeline, slots: {a: {command: [cat]}, b: {loop: work}}}")
    assert report.worst is not None
    assert report.cost is not None

    once = {"b/a": 4, "b/b": 3, "b/@branch/a": 8, "b/@branch/b": 8, "b/@review": 1}
    attempts = 3  # of a stage, each of which may be a run of the loop
    assert report.worst.agents == {"a": 1, **{path: turns * attempts for path, turns in once.items()}}
    assert report.worst.turns == 1 + (4 + 4 * 2 + 1) * attempts == report.cost.turns
    assert (report.ends, report.usual, report.method) == (True, None, "bound")
    [found] = report.findings
    assert (found.code, found.message) == ("counted", "'b' is a loop: it is counted as if it took all its iterations")
    wave = [{"emits": [{"topic": "ready.parallel", "payload": "- one\n- two"}]}]
    document = rehearse(plan, {"prompt": "x"}, {"b/a": wave, "b/b": wave})
    assert 12 < turns(document) <= report.worst.turns


def test_a_loop_at_a_node_of_a_flow_is_counted(tmp_path: Path) -> None:
    text = """topology t : [pipeline] {
      agent w { model: m  extensions { coterie { backend: scripted } } }
      agent l { extensions { coterie { topology: "work/topology.toml" } } }
      flow { w -> l }
    }"""
    _, report = with_loop(tmp_path, text, "t.at")

    assert report.worst is not None
    assert (report.ends, report.worst.turns) == (True, 1 + 13 * 2)
    assert "'l' is a loop: the counts come" in report.findings[0].message


def test_attempts_that_a_pipeline_counts_are_all_there_are() -> None:
    """And the repair of an invalid reply that comes with the last of them."""
    plan = plan_or_raise(team(*TEAMS["pipeline"]))
    draft = structs.replace(plan.agents["draft"], outputs=(Wanted(name="verdict"),))

    assert attempts(plan.agents["draft"]) == 3
    assert attempts(draft) == 4
    assert attempts(structs.replace(draft, attempts=None)) == 5
