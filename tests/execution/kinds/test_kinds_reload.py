"""What the journal says when the plan of a loop is read again."""

from loop_play import ROLES, loop_plan, plan_of

from coterie.execution.kinds.loop.reload import compared
from coterie.history.journal.records import ConfigChanged, ConfigKept
from coterie.team.planning.place import RunPlace
from coterie.team.planning.plan import from_json, to_json


def test_a_plan_that_came_from_a_journal_is_what_its_files_say() -> None:
    """JSON does not keep the order of agents, and that order says nothing in a loop."""
    plan = plan_of(loop_plan())

    assert compared(from_json(to_json(plan)), plan) == ConfigKept()


def test_what_differs_is_named_as_the_settings_name_it() -> None:
    """The order of the roles counts; what is fixed at the start does not change."""
    plan = plan_of(loop_plan(place=RunPlace(state_dir="a")))
    turned = loop_plan(roles=ROLES[::-1], max_iterations=7, place=RunPlace(state_dir="b"))
    answer = compared(plan, plan_of(turned))

    assert isinstance(answer, ConfigChanged)
    assert answer.keys == ("event_loop.max_iterations", "order of roles")
    loop = from_json(answer.plan).coordination
    assert loop is not None
    assert loop.place.state_dir == "a"
