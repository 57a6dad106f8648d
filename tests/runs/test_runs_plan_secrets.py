"""Secret values of a plan lie in a private file of the run, and the recorded plan refers to them."""

from pathlib import Path

from coterie.backends.secrets import Secrets
from coterie.planning.plan import AgentPlan, Plan, environments, to_json
from coterie.planning.system import ActorPlan, PluginPlan, PluginsPlan, SupervisorPlan, SystemPlan
from coterie.runs.plan_secrets import filled, filled_system, hold, literal, read

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
