"""The plan of a supervised system is plain data."""

from coterie.team.planning.plan import Plan, from_json, to_json
from coterie.team.planning.system import (
    ActorPlan,
    DynamicPlan,
    EvalPlan,
    GatewayPlan,
    SupervisorPlan,
    SystemPlan,
    TopologyServerPlan,
    TransportPlan,
    TurnActorPlan,
)


def test_a_plan_of_a_system_is_read_back_from_its_json() -> None:
    """Every kind of child keeps its class and its fields."""
    inner = SupervisorPlan(name="inner", strategy="ONE_FOR_ALL", children=(ActorPlan(name="a", type="m.A"),))
    children = (
        inner,
        DynamicPlan(name="d"),
        GatewayPlan(name="g"),
        TopologyServerPlan(name="t"),
        EvalPlan(name="e", class_="m.E"),
        TurnActorPlan(name="f", runs="flow"),
    )
    plan = Plan(name="root", coordination=SystemPlan(root=SupervisorPlan(name="root", children=children), entry="f"))

    assert from_json(to_json(plan)) == plan


def test_one_server_is_a_list_of_one() -> None:
    """`servers` may be a single URL."""
    assert TransportPlan(servers="nats://a") == TransportPlan(servers=("nats://a",))
