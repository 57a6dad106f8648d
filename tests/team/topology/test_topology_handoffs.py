"""Who hands work to whom in a loop."""

import pytest

from coterie.team.topology.handoffs import handoffs, starters
from coterie.team.topology.loop import Handoff, Loop, Role

pytestmark = pytest.mark.once


def loop(**roles: tuple[str, ...]) -> Loop:
    return Loop(
        completion="done",
        roles=tuple(Role(id=id, emits=emits) for id, emits in roles.items()),
        handoff=(
            Handoff(event="loop.start", targets=("a", "ghost")),
            Handoff(event="x.one", targets=("b",)),
            Handoff(event="/x\\..*/", targets=("c",)),
        ),
    )


def handed(team: Loop) -> list[tuple[str, str, tuple[str, ...]]]:
    return [(role.id, one.event, one.targets) for role in team.roles for one in handoffs(team, role)]


def test_an_event_leads_where_its_keys_say() -> None:
    """All of them; what no key matches leads to all roles, and what completes the loop to none."""
    team = loop(a=("x.one", "x.two", "x.one"), b=("other", "done"), c=())

    assert handed(team) == [
        ("a", "x.one", ("b", "c")),
        ("a", "x.two", ("c",)),
        ("b", "other", ("a", "b", "c")),
        ("b", "done", ()),
    ]
    assert starters(team) == ("a",)


def test_a_pattern_leads_where_the_keys_do_that_it_fits() -> None:
    """One that fits none leads to all roles, like any event."""
    team = loop(a=("/x\\.o.*/", "/y/"), b=(), c=())

    assert handed(team) == [
        ("a", "/x\\.o.*/", ("b", "c")),
        ("a", "/y/", ("a", "b", "c")),
    ]


def test_what_moves_nothing_is_left_out() -> None:
    """Events of coordination, and those that only a wave's join emits."""
    assert handed(loop(a=("issue.resolved", "x.one.parallel.joined"), b=(), c=())) == []
