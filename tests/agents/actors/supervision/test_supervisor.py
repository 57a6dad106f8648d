"""A running supervisor: boot, restarts, delays, requests, giving up and stopping, in virtual time."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from supervised import Boom, FakeChild, Log, LoggedSupervisor, settled

from coterie.agents.actors.exits import Crashed, Down, Normal, Shutdown, Terminated
from coterie.agents.actors.supervision.entries import ChildState
from coterie.agents.actors.supervision.policy import Backoff, BackoffKind, RestartLimit, RestartPolicy, RestartStrategy
from coterie.agents.actors.supervision.spec import KILLED, RESTART, SHUTDOWN, ChildSpec, RestartType
from coterie.base.clock import VirtualClock
from coterie.errors import SpawnError
from coterie.history.journal.records.actor import RestartPlanned, SupervisorFailed

CRASH = Crashed("ValueError: no")
AT_ONCE = RestartPolicy(backoff=Backoff(base=0.0))


def policy(
    strategy: RestartStrategy = RestartStrategy.ONE_FOR_ONE, limit: int = 3, base: float = 0.0, **backoff: Any
) -> RestartPolicy:
    return RestartPolicy(
        strategy=strategy, limit=RestartLimit(max_restarts=limit), backoff=Backoff(base=base, **backoff)
    )


class Group:
    """A supervisor over fake children `a`, `b`, …, and what happened."""

    def __init__(self, rules: RestartPolicy, *types: RestartType, name: str = "root", **options: Any) -> None:
        self.log = options.pop("log", None) or Log()
        names = [chr(ord("a") + number) for number in range(len(types))]
        self.children = {
            one: FakeChild(ChildSpec(name=one, restart=restart), self.log)
            for one, restart in zip(names, types, strict=True)
        }
        self.supervisor = self.over(rules, list(self.children.values()), name, **options)
        self.downs: list[Down] = []
        self.supervisor.report = self.downs.append

    def over(self, rules: RestartPolicy, children: list[Any], name: str, **options: Any) -> LoggedSupervisor:
        spec = ChildSpec(name=name, shutdown=options.pop("shutdown", None))
        return LoggedSupervisor(spec, rules, children, log=self.log, **options)

    async def crash(self, name: str) -> None:
        self.children[name].end(CRASH)
        await settled()

    def states(self) -> list[str]:
        return [entry.state.value for entry in self.supervisor.children]


def virtual(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """Run a test in virtual time."""

    def run() -> None:
        VirtualClock().run(test())

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


@virtual
async def test_children_start_in_order_and_stop_in_reverse() -> None:
    """For every strategy."""
    for strategy in RestartStrategy:
        group = Group(policy(strategy), "permanent", "permanent", "permanent")
        await group.supervisor.start(1)
        await group.supervisor.stop(SHUTDOWN)

        assert group.log.text() == "+root +a +b +c -c -b -a"


@virtual
async def test_a_failing_start_at_boot_stops_what_was_started_and_surfaces() -> None:
    """In reverse order; the error is the child's own."""
    group = Group(AT_ONCE, "permanent", "permanent", "permanent")
    group.log.fails["c"] = 1

    with pytest.raises(Boom, match="c"):
        await group.supervisor.start(1)
    assert group.log.text() == "+root +a +b !c -b -a"
    assert not group.supervisor.is_running


@virtual
async def test_a_boot_that_is_cancelled_stops_what_was_started() -> None:
    """Ctrl-C while an `on_start` hangs leaves nothing behind."""
    group = Group(AT_ONCE, "permanent", "permanent")
    group.children["b"].start = _hang  # type: ignore[method-assign]
    boot = asyncio.create_task(group.supervisor.start(1))
    await settled()
    boot.cancel()

    with pytest.raises(asyncio.CancelledError):
        await boot
    assert group.log.text() == "+root +a -a"


async def _hang(*_: object) -> None:
    await asyncio.Event().wait()


@virtual
async def test_a_start_that_fails_during_a_restart_counts_and_is_tried_again() -> None:
    """Under the same limit as crashes."""
    group = Group(policy(limit=3), "permanent", "permanent")
    await group.supervisor.start(1)
    group.log.fails["a"] = 2
    await group.crash("a")

    assert group.log.text() == "+root +a +b !a !a +a"
    group.log.fails["a"] = 9
    await group.crash("a")
    assert group.log.text() == "+root +a +b !a !a +a groot -b"
    assert group.children["a"].reasons == [SHUTDOWN], "a failed child gives its name up, too"


@virtual
async def test_a_restart_on_request_that_fails_is_tried_again() -> None:
    """The caller gets the error, and the failure counts; a restart that succeeds is none."""
    group = Group(policy(limit=1, base=2.0), "permanent")
    await group.supervisor.start(1)
    assert await group.supervisor.restart_child("a")
    group.log.fails["a"] = 1
    with pytest.raises(Boom, match="a"):
        await group.supervisor.restart_child("a")
    assert group.states() == ["waiting"]
    await asyncio.sleep(2.1)

    assert group.log.text() == "+root +a -a +a -a !a +a"
    assert group.states() == ["running"]
    assert group.children["a"].reasons == [RESTART] * 2
    assert [one.count for one in group.log.records if isinstance(one, RestartPlanned)] == [1]
    assert not await group.supervisor.restart_child("unknown")
    await group.crash("a")
    assert not group.supervisor.is_running


@virtual
async def test_the_first_restart_waits_for_the_backoff() -> None:
    """And the delay grows with the failures of the child in the window."""
    group = Group(policy(base=2.0, kind=BackoffKind.EXPONENTIAL, limit=5), "permanent")
    await group.supervisor.start(1)
    for delay in (2.0, 4.0, 8.0):
        await group.crash("a")
        await asyncio.sleep(delay - 0.1)
        assert group.states() == ["waiting"]
        await asyncio.sleep(0.2)
        assert group.states() == ["running"]

    assert [one.delay for one in group.log.records if isinstance(one, RestartPlanned)] == [2.0, 4.0, 8.0]


@virtual
async def test_two_children_that_wait_do_not_hold_up_each_other_nor_requests() -> None:
    """Delays overlap, and the supervisor answers while both wait."""
    group = Group(policy(base=10.0), "permanent", "permanent")
    await group.supervisor.start(1)
    await group.crash("a")
    await asyncio.sleep(4)
    await group.crash("b")
    assert group.states() == ["waiting", "waiting"]
    async with asyncio.timeout(0.1):
        await group.supervisor.start_child(FakeChild(ChildSpec(name="c"), group.log))
        assert await group.supervisor.stop_child("c")

    await asyncio.sleep(6.1)
    assert group.states() == ["running", "waiting"]
    await asyncio.sleep(4)
    assert group.states() == ["running", "running"]


@virtual
async def test_a_sibling_that_fails_while_a_group_waits_takes_the_group_along() -> None:
    """REST_FOR_ONE: `b` and `c` wait, then `a` fails: all three start once, when the delay of `a` is over."""
    group = Group(policy(RestartStrategy.REST_FOR_ONE, base=5.0), "permanent", "permanent", "permanent")
    await group.supervisor.start(1)
    await group.crash("b")
    await asyncio.sleep(1)
    await group.crash("a")
    await asyncio.sleep(10)

    assert group.log.text() == "+root +a +b +c -c +a +b +c"
    assert group.states() == ["running"] * 3


@virtual
async def test_siblings_keep_their_mailbox_when_they_are_replaced() -> None:
    """They are stopped for a restart; `SHUTDOWN` would answer their askers."""
    group = Group(policy(RestartStrategy.ONE_FOR_ALL), "permanent", "permanent", "temporary")
    await group.supervisor.start(1)
    await group.crash("a")

    assert group.log.text() == "+root +a +b +c -c -b +a +b"
    assert group.children["b"].reasons == [RESTART]
    assert group.children["c"].reasons == [SHUTDOWN], "a temporary child never comes back"
    assert [entry.incarnation for entry in group.supervisor.children] == [2, 2]


@pytest.mark.parametrize(
    ("restart", "text"),
    [("permanent", "+root +a +b +a"), ("transient", "+root +a +b"), ("temporary", "+root +a +b")],
)
def test_a_clean_exit_is_judged_by_the_restart_type(restart: RestartType, text: str) -> None:
    """`self.exit()` restarts permanent children only."""

    async def main() -> None:
        group = Group(AT_ONCE, restart, "permanent")
        await group.supervisor.start(1)
        group.children["a"].end(Normal())
        await settled()
        assert group.log.text() == text

    VirtualClock().run(main())


@virtual
async def test_a_child_that_asked_to_be_stopped_is_not_restarted() -> None:
    """`ErrorAction.STOP` is OTP's terminate_child."""
    group = Group(AT_ONCE, "permanent")
    await group.supervisor.start(1)
    group.children["a"].end(Terminated("ValueError: no"))
    await settled()

    assert group.log.text() == "+root +a"
    assert group.states() == ["stopped"]


@virtual
async def test_a_report_of_an_earlier_incarnation_is_ignored() -> None:
    """A child that was replaced meanwhile does not fail twice."""
    group = Group(AT_ONCE, "permanent")
    await group.supervisor.start(1)
    await group.crash("a")
    group.supervisor.children[0].child.report(Down("a", 1, CRASH))
    await settled()

    assert group.log.text() == "+root +a +a"


@virtual
async def test_a_child_that_is_stopped_while_it_waits_stays_stopped() -> None:
    """The pending restart is dropped."""
    group = Group(policy(base=5.0), "permanent")
    await group.supervisor.start(1)
    await group.crash("a")
    assert await group.supervisor.stop_child("a")
    await asyncio.sleep(20)

    assert group.log.text() == "+root +a"
    assert not await group.supervisor.stop_child("unknown")


@virtual
async def test_the_restart_past_the_limit_ends_the_supervisor_with_the_causes() -> None:
    """Children stop in reverse, and its own supervisor gets a `Shutdown` that says why."""
    group = Group(policy(limit=1), "permanent", "permanent")
    await group.supervisor.start(1)
    await group.crash("b")
    await group.crash("b")

    assert group.log.text() == "+root +a +b +b groot -a"
    lines = ("supervisor 'root' gave up: more than 1 restart within 60 s", "'b' crashed: ValueError: no")
    assert group.downs == [Down("root", 1, Shutdown(lines))]
    assert [one.reason for one in group.log.records if isinstance(one, SupervisorFailed)] == ["\n".join(lines)]


@pytest.mark.parametrize(
    ("strategy", "text"),
    [
        (RestartStrategy.ONE_FOR_ONE, "gsub -a +sub +a +b"),
        (RestartStrategy.REST_FOR_ONE, "gsub -a -y +sub +a +b +y"),
        (RestartStrategy.ONE_FOR_ALL, "gsub -a -y -x +x +sub +a +b +y"),
    ],
)
def test_a_limit_reached_at_depth_two_is_a_failure_for_the_parent(strategy: RestartStrategy, text: str) -> None:
    """The parent replaces the supervisor as it would any child; its children start anew."""

    async def main() -> None:
        group = Group(policy(limit=0), "permanent", "permanent", name="sub")
        x, y = (FakeChild(ChildSpec(name=name), group.log) for name in "xy")
        root = group.over(policy(strategy), [x, group.supervisor, y], "root")
        await root.start(1)
        group.log.events.clear()
        await group.crash("b")
        assert group.log.text() == text
        assert [entry.restarts for entry in root.children][1] == 1

    VirtualClock().run(main())


@virtual
async def test_the_chain_of_causes_reaches_the_root() -> None:
    """One line for each supervisor, the innermost last."""
    group = Group(policy(limit=0), "permanent", name="sub")
    root = group.over(policy(limit=0), [group.supervisor], "root")
    downs: list[Down] = []
    root.report = downs.append
    await root.start(1)
    await group.crash("a")

    assert downs[0].reason == Shutdown(
        (
            "supervisor 'root' gave up: more than 0 restarts within 60 s",
            "supervisor 'sub' gave up: more than 0 restarts within 60 s",
            "'a' crashed: ValueError: no",
        )
    )


@virtual
async def test_failures_outside_the_window_do_not_count() -> None:
    """The window slides with the monotonic clock."""
    group = Group(policy(limit=1), "permanent")
    await group.supervisor.start(1)
    for _ in range(5):
        await group.crash("a")
        await asyncio.sleep(60.1)

    assert group.supervisor.is_running
    assert group.supervisor.children[0].restarts == 5


@virtual
async def test_a_stop_does_not_wait_for_a_start_that_hangs() -> None:
    """The start is cancelled, and everything else stops in order."""
    group = Group(AT_ONCE, "permanent", "permanent")
    await group.supervisor.start(1)
    group.children["b"].start = _hang  # type: ignore[method-assign]
    await group.crash("b")
    async with asyncio.timeout(1):
        await group.supervisor.stop(SHUTDOWN)

    assert group.log.text() == "+root +a +b -a"


@virtual
async def test_children_are_killed_when_the_time_of_their_supervisor_is_over() -> None:
    """A supervisor with `shutdown: 2` ends within it, even if a child hangs."""
    group = Group(AT_ONCE, "permanent", "permanent", shutdown=2.0)

    async def hang_unless_killed(reason: str) -> None:
        if reason != KILLED:
            await asyncio.Event().wait()
        group.log.note("k", "b")

    group.children["b"].stop = hang_unless_killed  # type: ignore[method-assign]
    await group.supervisor.start(1)
    began = asyncio.get_running_loop().time()
    await group.supervisor.stop(SHUTDOWN)

    assert asyncio.get_running_loop().time() - began == pytest.approx(2.0)
    assert group.log.text() == "+root +a +b kb -a"


@virtual
async def test_a_request_to_a_supervisor_that_stops_is_refused() -> None:
    """A requester never waits for a supervisor that does not answer any more."""
    group = Group(AT_ONCE, "permanent")
    await group.supervisor.start(1)
    await group.supervisor.stop(SHUTDOWN)

    with pytest.raises(SpawnError, match="'root' is not running"):
        await group.supervisor.start_child(FakeChild(ChildSpec(name="x"), group.log))


@virtual
async def test_a_child_started_later_stops_first_and_vanishes_when_it_has_ended() -> None:
    """A failed start of one leaves nothing; its end is reported once it is final."""
    ends: list[tuple[str, str]] = []
    group = Group(AT_ONCE, "permanent", ended=lambda spec, reason: ends.append((spec.name, reason)))
    await group.supervisor.start(1)
    group.log.fails["x"] = 1
    for name in "xyz":
        child = FakeChild(ChildSpec(name=name, restart="transient"), group.log)
        group.children[name] = child
        if name == "x":
            with pytest.raises(Boom):
                await group.supervisor.start_child(child)
        else:
            await group.supervisor.start_child(child)
    await group.crash("y")
    group.children["y"].end(Normal())
    await settled()
    assert [entry.name for entry in group.supervisor.children] == ["a", "z"]
    await group.supervisor.stop(SHUTDOWN)

    assert group.log.text() == "+root +a !x +y +z +y -z -a"
    assert ends == [("y", "clean_exit"), ("z", "shutdown")]


@virtual
async def test_a_request_of_a_child_that_starts_or_stops_fails_at_once() -> None:
    """The supervisor waits for this child: waiting for the supervisor would never end."""
    group = Group(AT_ONCE, "permanent")
    errors: list[str] = []

    async def spawn_while_stopping(reason: str) -> None:
        try:
            await group.supervisor.start_child(FakeChild(ChildSpec(name="x", spawner="a"), group.log))
        except SpawnError as error:
            errors.append(str(error))

    await group.supervisor.start(1)
    group.children["a"].stop = spawn_while_stopping  # type: ignore[method-assign]
    async with asyncio.timeout(1):
        await group.supervisor.stop_child("a")

    assert errors == ["supervisor 'root' waits for 'a' to start or stop: ask it in handle"]
    assert group.supervisor.children[0].state is ChildState.STOPPED
