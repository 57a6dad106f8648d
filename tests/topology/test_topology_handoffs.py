"""Who hands work to whom in a loop."""

from coterie.topology.handoffs import Handing, handings, starters
from coterie.topology.loop import Handoff, Loop, Role


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


def test_an_event_leads_where_its_keys_say() -> None:
    """All of them; what no key matches leads to all roles, and what completes the loop to none."""
    team = loop(a=("x.one", "x.two", "x.one"), b=("other", "done"), c=())

    assert list(handings(team)) == [
        Handing(role="a", event="x.one", targets=("b", "c")),
        Handing(role="a", event="x.two", targets=("c",)),
        Handing(role="b", event="other", targets=("a", "b", "c")),
        Handing(role="b", event="done"),
    ]
    assert starters(team) == ("a",)


def test_a_pattern_leads_where_the_keys_do_that_it_fits() -> None:
    """One that fits none leads to all roles, like any event."""
    team = loop(a=("/x\\.o.*/", "/y/"), b=(), c=())

    assert list(handings(team)) == [
        Handing(role="a", event="/x\\.o.*/", targets=("b", "c")),
        Handing(role="a", event="/y/", targets=("a", "b", "c")),
    ]


def test_what_moves_nothing_is_left_out() -> None:
    """Events of coordination, and those that only a wave's join emits."""
    assert list(handings(loop(a=("issue.resolved", "x.one.parallel.joined"), b=(), c=()))) == []
