"""The plan of a pattern: its whole configuration, an agent for each slot, and the teams within."""

from pathlib import Path
from typing import Any

import pytest
from bundles import bundle

from coterie.base.diagnostics import Diagnostic
from coterie.errors import UsageError
from coterie.execution.runs.backend_setup import agents_of
from coterie.team.formats import read_text
from coterie.team.planning import examine, plan
from coterie.team.planning.changes import AgentChange, change
from coterie.team.planning.pattern import PatternPlan, SlotPlan
from coterie.team.planning.plan import Plan, from_json, to_json
from coterie.team.planning.teams import as_topology


def planned(text: str, folder: Path | None = None, **more: Any) -> tuple[Plan | None, list[Diagnostic]]:
    source = read_text(text, str(folder / "team.yaml") if folder is not None else "team.yaml", folder)
    assert source.topology is not None
    assert [each.message for each in source.diagnostics if each.is_error] == []
    return plan(source.topology, **more)


def made(text: str, folder: Path | None = None, **more: Any) -> tuple[Plan, PatternPlan]:
    found, said = planned(text, folder, **more)
    assert found is not None, [each.message for each in said]
    assert isinstance(found.coordination, PatternPlan)
    return found, found.coordination


def pipeline(*slots: str, config: str = "{}", agents: str = "{}") -> str:
    lines = [f"    s{n}: {slot}" for n, slot in enumerate(slots)]
    return "\n".join(["pattern:", "  type: pipeline", f"  config: {config}", "  slots:", *lines, f"agents: {agents}"])


def ensemble(slot: str) -> str:
    return f"pattern: {{type: ensemble, slots: {{ensemble_1: {slot}}}}}"


def test_every_field_of_the_configuration_is_filled_in() -> None:
    """And the type is the stored name, whichever word the file has."""
    plan, pattern = made(
        "pattern: {type: cross_check, config: {quorum: 1}, "
        "slots: {primary: {command: [cat]}, checker: {command: [cat]}}}"
    )

    assert pattern.type == "crosscheck"
    assert (pattern.config["quorum"], pattern.config["num_checkers"], pattern.config["accuracy"]) == (1, 3, {})
    assert from_json(to_json(plan)) == plan


def test_an_agent_is_planned_for_each_slot_by_its_name() -> None:
    """Two slots may have one agent."""
    plan, pattern = made(
        "pattern: {type: ensemble, slots: {ensemble_a: ada, ensemble_b: ada}}\n"
        "agents: {ada: {command: [cat], capabilities: [x], budget: {calls: 3, cost: 0.5}}}"
    )

    assert [(name, agent.name) for name, agent in plan.agents.items()] == [(n, n) for n in ("ensemble_a", "ensemble_b")]
    assert pattern.slots == tuple(
        SlotPlan(name=name, capabilities=("x",), calls=3, cost=0.5) for name in ("ensemble_a", "ensemble_b")
    )


def test_an_agent_is_tried_four_times_and_for_five_minutes() -> None:
    """Unless it says otherwise; a team and a person have rules of their own."""
    for slot, retry, timeout in (
        ("{command: [cat]}", 3, 300.0),
        ("{command: [cat], max_retries: 0, timeout_seconds: 5}", 0, 5.0),
        ("{type: human}", 0, None),
        (f"{{{ensemble('{command: [cat]}')}}}", 0, None),
        (f"{{{ensemble('{command: [cat]}')}, max_retries: 2}}", 2, None),
    ):
        agent = made(ensemble(slot))[0].agents["ensemble_1"]
        assert (agent.retry, agent.timeout) == (retry, timeout), slot


@bundle(
    ("config", "slot", "retry", "attempts"),
    [
        ("{}", "{command: [cat]}", 2, 3),
        ("{max_stage_retries: 5}", "{command: [cat], max_retries: 1}", 5, 6),
        ("{max_stage_retries: 0}", "{command: [cat], max_retries: 1}", 0, 1),
        ("{retry_failed_stages: false}", "{command: [cat], max_retries: 1}", 1, None),
        ("{retry_failed_stages: false}", "{command: [cat]}", 0, None),
        ("{}", "{type: human}", 0, None),
    ],
)
def test_a_pipeline_counts_the_attempts_of_its_stages(config: str, slot: str, retry: int, attempts: int | None) -> None:
    """Those of the agent do not come on top."""
    stage = made(pipeline(slot, config=config))[0].agents["s0"]
    assert (stage.retry, stage.attempts) == (retry, attempts)


def test_whoever_stands_in_is_planned_too() -> None:
    """By its own name, or by that of the slot that it fills."""
    plan, _ = made(
        pipeline(
            "{command: [cat], fallback: ada}",
            "{command: [cat], fallback: bob}",
            "bob",
            agents="{ada: {command: [cat], fallback: eve}, bob: {command: [cat]}, eve: {command: [cat]}}",
        )
    )

    assert {name: agent.fallback for name, agent in plan.agents.items()} == {
        "s0": "ada",
        "s1": "s2",
        "s2": "",
        "ada": "eve",
        "eve": "",
    }
    assert plan.agents["s0"].on_fail == "fallback"


def test_whoever_stands_in_cannot_go_by_the_name_of_another_slot() -> None:
    """It would be asked under a name that is taken."""
    made_, (found,) = planned(
        pipeline("{command: [cat], fallback: s1}", "bob", agents="{s1: {command: [cat]}, bob: {command: [cat]}}")
    )

    assert made_ is None
    assert found.code == "duplicate-name"


def test_a_provider_that_nobody_knows_is_told_at_once() -> None:
    """A rehearsal would not show that it was misspelt."""
    found, said = planned(ensemble("{model: some-model, provider: antropic}"))

    assert (found, [each.code for each in said]) == (None, ["no-provider"])
    assert "'antropic' is not declared" in said[0].message


def test_what_does_not_fit_goes_by_the_name_that_the_file_has() -> None:
    """Not by that of the other notation."""
    _, said = planned(ensemble("{command: [cat], on_interrupt: maybe, prompt_via: pigeon}"))

    assert [each.message.partition(" of ")[0] for each in said] == ["'on_interrupt'", "'prompt_via'"]


def test_a_model_thinks_where_its_provider_is_known() -> None:
    """Another is left open, so that the file can be rehearsed; `--backend` comes before both."""
    text = pipeline("{model: haiku}", "{model: m}", "{model: m, base_url: 'http://localhost'}", "{command: [cat]}")

    assert [agent.backend for agent in made(text)[0].agents.values()] == ["model", "", "model", "command"]
    told = made(text, backend="scripted")[0].agents.values()
    assert [agent.backend for agent in told] == ["scripted", "scripted", "scripted", "command"]


def test_a_setting_that_does_not_fit_is_told_where_it_stands() -> None:
    """As the entry of an agent that it is, not as the first of them."""
    found, said = planned(pipeline("{model: haiku, temperature: 0, top_p: 3}"))

    assert found is None
    assert [(each.message, each.span and each.span.column) for each in said] == [
        ("'top_p' of agent 's0' must be a number from 0 to 1, not 3", 40)
    ]


def test_teams_within_are_planned_with_their_files(tmp_path: Path) -> None:
    """In place, another pattern, a flow, a loop; each in its own folder."""
    (tmp_path / "p.pattern.yaml").write_text(ensemble("{command: [cat]}"))
    (tmp_path / "f.at").write_text(
        "topology f : [pipeline] { agent a { model: haiku } flow { a -> b } agent b { model: haiku } }"
    )
    (tmp_path / "l").mkdir()
    (tmp_path / "l" / "topology.toml").write_text('name = "l"\n[[role]]\nid = "a"\nemits = ["x"]\nprompt = "p"\n')
    text = pipeline("{pattern: p.pattern.yaml}", "{flow: f.at}", "{loop: l}", f"{{{ensemble('{command: [cat]}')}}}")
    plan, _ = made(text, tmp_path)

    assert [agent.kind for agent in plan.agents.values()] == ["topology"] * 4
    children = [agent.child for agent in plan.agents.values()]
    assert [child.name for child in children if child is not None] == ["p", "f", "l", "s3"]
    assert {child.folder for child in children if child is not None} == {str(tmp_path), str(tmp_path / "l")}


@bundle(
    ("slot", "file", "text", "code"),
    [
        ("{pattern: no.yaml}", "", "", "no-such-file"),
        ("{pattern: ../no.yaml}", "", "", "outside-folder"),
        ("{pattern: team.yaml}", "", "", "topology-cycle"),
        ("{pattern: p.yaml}", "p.yaml", ensemble("{pattern: team.yaml}"), "topology-cycle"),
        ("{pattern: p.yaml}", "p.yaml", "pattern: {type: pipeline}", "missing-slot"),
        ("{flow: f.at}", "f.at", "topology f : [pipeline] { agent a { model: haiku } }", "no-flow"),
        ("{flow: f.at}", "f.at", "topology f : [pipeline] { params { x: string } }", "missing-param"),
    ],
)  # fmt: skip
def test_the_whole_tree_is_looked_at_before_anything_runs(
    slot: str, file: str, text: str, code: str, tmp_path: Path
) -> None:
    """What is wrong in it is told at the slot that leads there."""
    if file:
        (tmp_path / file).write_text(text)
    (tmp_path / "team.yaml").write_text(pipeline(slot))
    plan, found = planned(pipeline(slot), tmp_path)

    assert plan is None
    assert code in [each.code for each in found]
    assert {each.span.line for each in found if each.span is not None} == {5}


def test_patterns_lie_only_so_deep_in_each_other(tmp_path: Path) -> None:
    """Files as well as what is written in place."""
    for n in range(10):
        (tmp_path / f"p{n}.yaml").write_text(ensemble(f"{{pattern: p{n + 1}.yaml}}"))
    (tmp_path / "p10.yaml").write_text(ensemble("{command: [cat]}"))
    plan, (found,) = planned(ensemble("{pattern: p0.yaml}"), tmp_path)

    assert plan is None
    assert found.code == "nested-too-deep"


def test_a_pattern_of_ones_own_is_planned_without_a_look_at_it() -> None:
    """Its configuration is as written."""
    _, pattern = made("pattern: {type: 'no.such:thing', config: {a: 1}, slots: {one: {command: [cat]}}}")

    assert (pattern.type, pattern.config) == ("no.such:thing", {"a": 1})


def test_an_agent_of_a_pattern_can_be_changed() -> None:
    """By its slot, inside a team too."""
    plan, _ = made(pipeline("{model: haiku}", f"{{{ensemble('{model: haiku}')}}}"))
    changed = change(
        plan,
        [AgentChange(agent="s0", key="prompt", value="Be brief."), AgentChange(agent="", key="model", value="opus")],
    )

    assert (changed.agents["s0"].prompt, changed.agents["s0"].model) == ("Be brief.", "opus")
    child = changed.agents["s1"].child
    assert child is not None
    assert child.agents["ensemble_1"].model == "opus"
    with pytest.raises(UsageError, match="the plan has no agent 's9'"):
        change(plan, [AgentChange(agent="s9", key="prompt", value="")])


def test_a_plan_is_seen_as_a_pattern_again() -> None:
    """For whoever shows a team that answers in another."""
    plan, pattern = made(pipeline("{command: [cat]}", "{type: human}"))
    seen = as_topology(plan).pattern
    assert seen is not None

    assert (seen.type, seen.config) == ("pipeline", pattern.config)
    assert [(slot.name, slot.node) for slot in seen.slots] == [("s0", "s0"), ("s1", "s1")]


def test_all_who_may_be_asked_must_be_there() -> None:
    """Those that stand in, too, and those of teams within."""
    plan, _ = made(
        pipeline("{command: [cat], fallback: ada}", f"{{{ensemble('{model: m}')}}}", agents="{ada: {model: m}}")
    )

    assert [name for name, agent in agents_of(plan) if not agent.backend] == ["s1/ensemble_1", "ada"]


def test_what_is_found_is_told_once() -> None:
    """Though a team within is checked when it is read and when it is planned."""
    text = pipeline(
        "{pattern: {type: pipeline, config: {stages: [a]}, slots: {a: {command: [cat]}, b: {command: [cat]}}}}"
    )

    assert [each.code for each in examine(read_text(text, "team.yaml"))[1]] == ["spare-slot"]
