"""Which roles of a loop are reached, and which of its events lead somewhere, held against trying every event."""

from hypothesis import example, given
from hypothesis import strategies as st

from coterie.team.planning.loop import LoopPlan, RolePlan
from coterie.team.planning.loops.checks import check
from coterie.team.planning.loops.texts import TextLocation
from coterie.team.topology.events import COORDINATION, START, allowed, suggested
from coterie.team.topology.loop import Handoff, Loop, Role

EVENTS = st.sampled_from(["e1", "e2", "e3", "e4", "done", "issue.resolved", "/e[12]/"])
ROLES = ("a", "b", "c", "d")
HERE = TextLocation("topology.toml")


@st.composite
def loops(draw: st.DrawFn) -> Loop:
    ids = draw(st.lists(st.sampled_from(ROLES), min_size=1, unique=True))
    plain = EVENTS.filter(lambda event: not event.startswith("/"))
    roles = [Role(id=id, emits=tuple(draw(st.lists(plain, max_size=3)))) for id in ids]
    keys = draw(st.lists(st.one_of(EVENTS, st.just(START)), max_size=5, unique=True))
    handoff = [Handoff(event=key, targets=tuple(draw(st.lists(st.sampled_from(ids), max_size=2)))) for key in keys]
    return Loop(completion="done", roles=tuple(roles), handoff=tuple(handoff))


def planned(loop: Loop) -> LoopPlan:
    return LoopPlan(
        roles=tuple(RolePlan(id=role.id, emits=role.emits) for role in loop.roles),
        handoff=tuple((one.event, one.targets) for one in loop.handoff),
        completion=loop.completion,
    )


def tried(plan: LoopPlan) -> set[str]:
    """The roles that are suggested anywhere, with every allowed event tried at every place."""
    ids = [role.id for role in plan.roles]
    emits = {role.id: role.emits for role in plan.roles}
    places, front, found = {START}, [START], set[str]()
    while front:
        roles = suggested(plan.handoff, ids, front.pop())
        found |= set(roles)
        new = {event for event in allowed(emits, roles) if event != plan.completion and event not in COORDINATION}
        front += new - places
        places |= new
    return found


def only_after(event: str) -> Loop:
    """A loop in which only *event* would lead to a role."""
    handoff = (Handoff(event=START, targets=("a",)), Handoff(event=event, targets=("b",)))
    return Loop(completion="done", roles=(Role(id="a", emits=("done", event)), Role(id="b")), handoff=handoff)


@given(loops())
@example(only_after("e1"))
@example(only_after("done"))
@example(only_after("issue.resolved"))
def test_a_role_is_told_of_if_no_way_leads_to_it(loop: Loop) -> None:
    """Neither more nor fewer."""
    plan = planned(loop)
    said = [each.message for each in check(plan, loop, HERE, HERE, lambda _: HERE) if each.code == "unreachable-role"]

    lost = [role.id for role in loop.roles if role.id not in tried(plan)]
    assert said == [f"no chain of events leads from 'loop.start' to role {id!r}" for id in lost]


@given(loops())
def test_completion_is_missed_exactly_where_nobody_may_emit_it(loop: Loop) -> None:
    """Whoever it would be."""
    plan = planned(loop)
    codes = [each.code for each in check(plan, loop, HERE, HERE, lambda _: HERE)]

    assert ("nobody-completes" in codes) == all("done" not in role.emits for role in loop.roles)
