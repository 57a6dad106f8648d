"""Secret values of a plan lie in a private file of the run, and the recorded plan refers to them."""

from pathlib import Path

from coterie.planning.plan import AgentPlan, Plan, to_json
from coterie.runs.plan_secrets import filled, hold, read

SECRET = "s3cr3t-of-the-user"


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
