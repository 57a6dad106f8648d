"""Secret values of a plan lie in a private file of the run, and the recorded plan refers to them."""

import asyncio
from pathlib import Path

import pytest
from bundles import bundle
from msgspec.structs import replace
from stage import Cast, flow

from coterie.agents.backends.secrets import Secrets
from coterie.errors import UsageError
from coterie.execution.kernel.plan_secrets import FILE, filled, filled_system, hold, literal, read
from coterie.execution.runs import launch
from coterie.execution.runs.fork import fork
from coterie.execution.runs.outcome import Outcome
from coterie.team.planning.plan import AgentPlan, Limits, Plan, environments, to_json
from coterie.team.planning.system import ActorPlan, PluginPlan, PluginsPlan, SupervisorPlan, SystemPlan

SECRET = "s3cr3t-of-the-user"


def test_secrets_in_the_settings_of_a_system_are_held(tmp_path: Path) -> None:
    """Of plugins and agents, at any depth; names of variables and numbers stay."""
    models = PluginPlan(type="anthropic", config={"api_key": SECRET, "api_key_env": "SHOP_KEY", "max_tokens": 9})
    state = PluginPlan(type="shop.Store", config={"login": {"user": "ada", "password": SECRET}})
    clerk = ActorPlan(
        name="clerk", type="shop.Clerk", config={"servers": [{"token": SECRET}, {"token": f"{SECRET}-2"}]}
    )
    inner = SupervisorPlan(name="inner", children=(clerk,))
    system = SystemPlan(
        root=SupervisorPlan(name="root", children=(inner,)), plugins=PluginsPlan(models=(models,), state=state)
    )
    kept = hold(Plan(name="p", coordination=system), tmp_path)

    assert SECRET not in to_json(kept).decode()
    assert b"SHOP_KEY" in to_json(kept)
    assert set(read(tmp_path)) == {
        "***@plugins.models.0.api_key",
        "***@plugins.state.login.password",
        "***@/clerk.servers.0.token",
        "***@/clerk.servers.1.token",
    }
    assert filled_system(kept.coordination, read(tmp_path)) == system
    assert hold(kept, tmp_path) == kept
    assert SECRET in Secrets(*environments(Plan(name="p", coordination=system))).values


def test_secrets_of_an_agent_its_servers_and_its_team_are_held(tmp_path: Path) -> None:
    """The values reach the backend, and only names stand in the plan; ordinary variables stay."""
    server = {"command": "serve", "env": {"API_TOKEN": SECRET, "COLOUR": "blue", "PORT": 80}}
    agent = AgentPlan(name="a", env={"DB_PASSWORD": SECRET}, options={"mcp_servers": {"files": server}})
    team = AgentPlan(name="team", kind="topology", child=Plan(name="child", agents={"a": agent}))
    plan = Plan(name="p", agents={"a": agent, "team": team})
    kept = hold(plan, tmp_path)

    assert SECRET not in to_json(kept).decode()
    assert read(tmp_path) == {
        f"***{where}": SECRET
        for where in ("a.DB_PASSWORD", "a.files.API_TOKEN", "team/a.DB_PASSWORD", "team/a.files.API_TOKEN")
    }
    assert filled(kept.agents["a"], read(tmp_path)) == agent
    child = kept.agents["team"].child
    assert child is not None
    assert filled(child.agents["a"], read(tmp_path)) == agent
    assert hold(kept, tmp_path) == kept


def test_what_comes_from_a_variable_is_not_in_the_file() -> None:
    """As `${NAME}`, with ordinary words around it; a secret beside it is one."""
    env = {"A_TOKEN": "${KEY}", "B_TOKEN": "Key ${KEY}", "C_TOKEN": f"{SECRET} ${{KEY}}", "D_TOKEN": SECRET}
    assert literal(Plan(name="p", agents={"a": AgentPlan(name="a", env=env)})) == ["a.C_TOKEN", "a.D_TOKEN"]


WITH_SECRETS = flow("a -> b", b=AgentPlan(name="b", env={"API_KEY": SECRET, "COLOUR": "blue"}))


def stopped_before_b(state: Path) -> None:
    """A run whose next turn is that of the agent with a secret."""
    begun = launch.start(
        WITH_SECRETS, {}, state_dir=state, run_id="r", turns=Cast({}, seconds=0), limits=Limits(max_turns=1)
    )
    assert asyncio.run(begun).status == "stopped"


def resumed(state: Path, run: str, reload: Plan | None = None) -> tuple[Outcome, dict[str, str]]:
    """The end of *run*, and the environment of its last agent."""
    cast = Cast({}, seconds=0)
    main = launch.resume(run, limits=Limits(max_turns=-1), state_dir=state, turns=cast, reload=reload)
    return asyncio.run(main), cast.asked[-1].agent.env


def test_a_fork_has_the_secrets_of_its_origin(tmp_path: Path) -> None:
    """Its agents start with the values, and so do those of a fork of the fork with a changed plan."""
    stopped_before_b(tmp_path)
    first = fork("r", state_dir=tmp_path)
    changed = WITH_SECRETS.agents | {"a": AgentPlan(name="a", env={"A_TOKEN": f"{SECRET}-2"})}
    second = fork(first.run, state_dir=tmp_path, change=lambda plan: replace(plan, agents=changed))

    for made in (first, second):
        ended, env = resumed(tmp_path, made.run)
        assert (ended.status, env) == ("completed", {"API_KEY": SECRET, "COLOUR": "blue"})
    assert set(read(tmp_path / "runs" / second.run)) == {"***a.A_TOKEN", "***b.API_KEY"}


@bundle("lost", ["the file", "a value", "its text"])
def test_a_run_whose_secrets_are_lost_is_resumed_with_a_plan_only(tmp_path: Path, lost: str) -> None:
    """Otherwise its agents would have the references as keys."""
    stopped_before_b(tmp_path)
    file = tmp_path / "runs" / "r" / FILE
    if lost == "the file":
        file.unlink()
    else:
        file.write_text('{"***b.OTHER": "x"}' if lost == "a value" else "{")
    with pytest.raises(UsageError, match=r"env.json has no value for API_KEY: resume with --reload FILE"):
        resumed(tmp_path, "r")

    ended, env = resumed(tmp_path, "r", WITH_SECRETS)
    assert (ended.status, env["API_KEY"]) == ("completed", SECRET)
