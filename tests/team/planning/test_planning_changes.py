"""Other words for some agents of a plan: what can be said, and what is said of what cannot."""

from typing import Any

import pytest
from bundles import bundle

from coterie.errors import UsageError
from coterie.team.planning.changes import AgentChange, again, agents, change, value_of
from coterie.team.planning.loop import REVIEW, LoopPlan, ReviewPlan, RolePlan
from coterie.team.planning.plan import AgentPlan, Plan

INNER = Plan(name="inner", agents={"critic": AgentPlan(name="critic", model="small")})
PLAN = Plan(
    name="team",
    agents={
        "writer": AgentPlan(name="writer", model="small", env={"A": "1"}, options={"effort": "low"}),
        "boss": AgentPlan(name="boss", kind="human", backend="human"),
        "build": AgentPlan(name="build", kind="action", backend="command", steps=(("make",),)),
        "team": AgentPlan(name="team", kind="topology", child=INNER),
    },
)


def changed(agent: str, key: str, value: Any) -> AgentPlan:
    """The plan of *agent* after one change."""
    plan = change(PLAN, [AgentChange(agent=agent, key=key, value=value)])
    *path, name = agent.split("/")
    for step in path:
        child = plan.agents[step].child
        assert child is not None
        plan = child
    return plan.agents[name]


@pytest.mark.parametrize(
    ("agent", "key", "value", "field", "expected"),
    [
        ("writer", "prompt", "Write.", "prompt", "Write."),
        ("boss", "prompt", "Decide.", "prompt", "Decide."),
        ("writer", "role", "You write.", "role", "You write."),
        ("writer", "model", "large", "model", "large"),
        ("team/critic", "model", "large", "model", "large"),
        ("writer", "backend", "scripted", "backend", "scripted"),
        ("writer", "backend", "human", "kind", "human"),
        ("writer", "command", ["cat", "-"], "argv", ("cat", "-")),
        ("writer", "command", ["cat"], "backend", "command"),
        ("writer", "prompt-via", "file", "prompt_via", "file"),
        ("writer", "retry", "3", "retry", 3),
        ("writer", "retry", 0, "retry", 0),
        ("writer", "timeout", "5m", "timeout", 300.0),
        ("writer", "timeout", "7", "timeout", 7.0),
        ("build", "timeout", "none", "timeout", None),
        ("writer", "on-fail", "skip", "on_fail", "skip"),
        ("writer", "on-fail", "fallback boss", "fallback", "boss"),
        ("writer", "on-interrupt", "ask", "on_interrupt", "ask"),
        ("build", "cwd", "below", "cwd", "below"),
        ("writer", "env.B", "2", "env", {"A": "1", "B": "2"}),
        ("writer", "options.effort", "high", "options", {"effort": "high"}),
        ("writer", "options.limits", {"n": 1}, "options", {"effort": "low", "limits": {"n": 1}}),
    ],
)
def test_a_change_becomes_what_the_file_could_have_said(
    agent: str, key: str, value: Any, field: str, expected: Any
) -> None:
    """One field, of one agent; a team inside is reached by its node."""
    assert getattr(changed(agent, key, value), field) == expected


def test_only_what_is_named_is_changed() -> None:
    """Every other agent is the value that it was; the plan that was given stays as it is."""
    before = PLAN.content_hash()
    plan = change(PLAN, [AgentChange(agent="writer", key="model", value="large")])

    assert [name for name, agent in plan.agents.items() if agent is not PLAN.agents[name]] == ["writer"]
    assert PLAN.content_hash() == before


def test_a_change_for_all_reaches_every_agent_that_thinks() -> None:
    """Those inside teams too; people and commands have no model. What is said later of one agent wins."""
    words = [AgentChange(agent="", key="model", value="large"), AgentChange(agent="writer", key="model", value="own")]
    plan = change(PLAN, words)

    child = plan.agents["team"].child
    assert child is not None
    assert child.agents["critic"].model == "large"
    assert {name: agent.model for name, agent in plan.agents.items()} == {
        "writer": "own",
        "boss": "",
        "build": "",
        "team": "",
    }


@bundle(
    ("agent", "key", "value", "told"),
    [
        ("writr", "model", "x", "no agent 'writr'; did you mean 'writer'?"),
        ("nobody", "model", "x", "its agents: writer, boss, build, team, team/critic"),
        ("team/critc", "model", "x", "no agent 'team/critc'; did you mean 'team/critic'?"),
        ("writer/critic", "model", "x", "no agent 'writer/critic'"),
        ("writer", "modle", "x", "'modle' cannot be set; did you mean 'model'?"),
        ("writer", "zzz", "x", "known settings: prompt, role, model"),
        ("writer", "env", "x", "'env' cannot be set"),
        ("writer", "retry.x", "1", "'retry.x' cannot be set"),
        ("build", "model", "x", "'build' is an action, which has no 'model'"),
        ("team", "model", "x", "it is a team: name one of its agents, team/NAME"),
        ("writer", "retry", "-1", "a number of retries, 0 or more, not '-1'"),
        ("writer", "retry", True, "a number of retries"),
        ("writer", "timeout", "soon", "write 30s, 5m or 1h"),
        ("writer", "on-fail", "fallback ghost", "'fallback NAME' with another agent of the plan"),
        ("writer", "on-fail", "fallback writer", "another agent"),
        ("writer", "on-interrupt", "retri", "did you mean 'retry'?"),
        ("writer", "backend", "comand", "did you mean 'command'?"),
        ("writer", "command", "cat -", "a list of words"),
        ("writer", "prompt", 3, "'prompt' of 'writer' must be a text, not 3"),
    ],
)
def test_what_does_not_fit_is_refused_and_told_how_it_would(agent: str, key: str, value: Any, told: str) -> None:
    """Names, keys and values alike."""
    with pytest.raises(UsageError) as refused:
        change(PLAN, [AgentChange(agent=agent, key=key, value=value)])
    assert told in str(refused.value)


def test_the_agents_that_can_be_changed_are_those_of_all_teams() -> None:
    """By the names that a change gives them."""
    assert [name for name, _, _ in agents(PLAN)] == ["writer", "boss", "build", "team", "team/critic"]


LOOP = Plan(
    name="loop",
    agents={name: AgentPlan(name=name, model="small", backend="command") for name in ("fixer", REVIEW, "@loop")},
    coordination=LoopPlan(roles=(RolePlan(id="fixer", prompt="Fix."),), review=ReviewPlan(every=2, prompt="Review.")),
)


def test_the_prompt_of_a_role_is_that_of_the_loop() -> None:
    """Of the reviewer too; the loop keeps changes when it reads its files again, except values that may be secret."""
    wanted = [AgentChange(agent=name, key="prompt", value=f"{name}!") for name in ("fixer", REVIEW)]
    wanted += [AgentChange(agent="", key="model", value="large"), AgentChange(agent="fixer", key="env.KEY", value="k")]
    plan = change(LOOP, wanted)
    files = Plan(name="loop", agents=LOOP.agents, coordination=plan.coordination)

    for one in (plan, again(files)):
        assert [value_of(one, agent, "prompt") for agent in one.agents.values()] == ["fixer!", f"{REVIEW}!", None]
        assert {agent.model for agent in one.agents.values()} == {"large"}
        assert not any(agent.prompt for agent in one.agents.values())
    assert plan.agents["fixer"].env == {"KEY": "k"}
    assert again(files).agents["fixer"].env == {}
    assert again(again(files)) == again(files)
    assert value_of(PLAN, PLAN.agents["build"], "model") is None


@pytest.mark.parametrize(("agent", "key"), [("fixer", "role"), ("@loop", "prompt"), ("", "role")])
def test_what_means_nothing_in_a_loop_is_refused(agent: str, key: str) -> None:
    """A loop has a prompt for each role, and no other."""
    with pytest.raises(UsageError, match=r"a loop has a prompt for each role \(fixer\)"):
        change(LOOP, [AgentChange(agent=agent, key=key, value="x")])
