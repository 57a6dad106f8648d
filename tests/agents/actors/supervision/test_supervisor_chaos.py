"""Random trees in virtual time: children start and stop slowly and crash at any time, with delays and requests."""

import asyncio
import random
from collections.abc import Callable

import pytest

from coterie.agents.actors.exits import Crashed, Down, Exit, Normal, Terminated
from coterie.agents.actors.supervision.entries import ChildState
from coterie.agents.actors.supervision.policy import Backoff, BackoffKind, RestartLimit, RestartPolicy, RestartStrategy
from coterie.agents.actors.supervision.spec import KILLED, SHUTDOWN, ChildSpec, RestartType, Supervised
from coterie.agents.actors.supervision.supervisor import SupervisorActor
from coterie.base.clock import VirtualClock
from coterie.errors import SpawnError
from coterie.history.journal.records.actor import RestartPlanned, SupervisorFailed
from coterie.history.journal.records.base import Record

TYPES: list[RestartType] = ["permanent", "transient", "temporary"]


class Chaos:
    """The chance of a test, all its children, and what was recorded, with the times."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.children: dict[str, SlowChild] = {}
        self.records: list[tuple[float, Record]] = []
        self.is_calm = False
        self.violations: list[str] = []

    def expect(self, holds: bool, violation: str) -> None:
        """Note a broken promise; an exception here would only be one more failure of a child."""
        if not holds:
            self.violations.append(violation)

    def sink(self, record: Record) -> None:
        self.records.append((asyncio.get_running_loop().time(), record))

    async def pause(self, longest: float) -> None:
        if self.chance.random() < 0.5:
            await asyncio.sleep(self.chance.random() * longest)


class SlowChild:
    """A child that checks how it is used: one incarnation at a time, numbers that grow, no report after a stop."""

    def __init__(self, chaos: Chaos, spec: ChildSpec) -> None:
        self.chaos, self.spec = chaos, spec
        self.report: Callable[[Down], None] = lambda down: None
        self.incarnation = 0
        self.is_alive = self.is_starting = False
        chaos.children[spec.name] = self

    async def start(self, incarnation: int) -> None:
        self.chaos.expect(not self.is_alive, f"{self.spec.name} runs already")
        self.chaos.expect(not self.is_starting, f"{self.spec.name} starts already")
        self.chaos.expect(incarnation > self.incarnation, f"{self.spec.name} starts {incarnation} again")
        self.incarnation = incarnation
        self.is_starting = True
        try:
            await self.chaos.pause(2.0)
            if not self.chaos.is_calm and self.chaos.chance.random() < (0.01 if incarnation == 1 else 0.2):
                raise ValueError("no start")
        finally:
            self.is_starting = False
        self.is_alive = True
        if not self.chaos.is_calm and self.chaos.chance.random() < 0.7:
            delay = self.chaos.chance.random() * 20
            asyncio.get_running_loop().call_later(delay, self.end, incarnation)

    def end(self, incarnation: int) -> None:
        if self.is_alive and self.incarnation == incarnation and not self.chaos.is_calm:
            self.is_alive = False
            reasons: list[Exit] = [Crashed("boom"), Crashed("bang"), Normal(), Terminated()]
            self.report(Down(self.spec.name, incarnation, self.chaos.chance.choices(reasons, [9, 9, 2, 1])[0]))

    async def stop(self, reason: str) -> None:
        self.chaos.expect(not self.is_starting, f"{self.spec.name} is stopped in the middle of its start")
        self.is_alive = False
        if reason != KILLED:
            await self.chaos.pause(1.0)


def tree(chaos: Chaos, name: str = "r", level: int = 0) -> SupervisorActor:
    """A random tree of at most three levels."""
    chance = chaos.chance
    children: list[Supervised] = []
    for number in range(chance.randint(1, 4)):
        below = f"{name}.{number}"
        if level < 2 and chance.random() < 0.3:
            children.append(tree(chaos, below, level + 1))
        else:
            spec = ChildSpec(name=below, restart=chance.choices(TYPES, [6, 2, 1])[0])
            children.append(SlowChild(chaos, spec))
    policy = RestartPolicy(
        strategy=chance.choice(list(RestartStrategy)),
        limit=RestartLimit(max_restarts=chance.choice([1, 3, 8]), window=chance.choice([5.0, 60.0])),
        backoff=Backoff(
            kind=chance.choice(list(BackoffKind)), base=chance.choice([0.0, 0.5, 3.0]), maximum=8.0, jitter=0.3
        ),
    )
    spec = ChildSpec(name=name, shutdown=chance.choice([None, None, 0.5]))
    return SupervisorActor(spec, policy, children, sink=chaos.sink, path="", chance=chance.random)


async def play(chaos: Chaos) -> None:
    root = tree(chaos)
    ended: list[Down] = []
    root.report = ended.append
    try:
        await root.start(1)
    except ValueError:
        assert not any(child.is_alive for child in chaos.children.values())
        return
    requests = [asyncio.create_task(ask(chaos, root, number)) for number in range(6)]
    await asyncio.sleep(chaos.chance.random() * 60)
    if chaos.chance.random() < 0.5:
        chaos.is_calm = True
        await asyncio.sleep(200)
        check_calm(root, ended)
    await root.stop(chaos.chance.choice([SHUTDOWN, SHUTDOWN, KILLED]))
    async with asyncio.timeout(200):
        await asyncio.gather(*requests)
    assert not any(child.is_alive or child.is_starting for child in chaos.children.values())
    count = len(chaos.records)
    await asyncio.sleep(200)
    assert len(chaos.records) == count, "something happened after the stop"


async def ask(chaos: Chaos, root: SupervisorActor, number: int) -> None:
    """A request to a random supervisor at a random time; it always ends."""
    await asyncio.sleep(chaos.chance.random() * 60)
    supervisors = [root, *(entry.child for _, entry in root.walk() if isinstance(entry.child, SupervisorActor))]
    supervisor = chaos.chance.choice(supervisors)
    try:
        if number % 2 and supervisor.children:
            await supervisor.stop_child(chaos.chance.choice(supervisor.children).name)
        else:
            child = SlowChild(chaos, ChildSpec(name=f"x{number}", restart="transient"))
            await supervisor.start_child(child)
    except (SpawnError, ValueError):
        pass


def check_calm(root: SupervisorActor, ended: list[Down]) -> None:
    """Nothing fails any more: every child of a running supervisor runs, or has ended for good."""
    assert root.is_running != bool(ended)
    for supervisor, entry in root.walk():
        if supervisor.is_running:
            assert entry.state in (ChildState.RUNNING, ChildState.STOPPED)
            assert (entry.state is ChildState.RUNNING) == alive(entry.child)
        else:
            assert not alive(entry.child)


def alive(child: Supervised) -> bool:
    return child.is_running if isinstance(child, SupervisorActor) else child.is_alive  # type: ignore[attr-defined]


def limits_hold(chaos: Chaos) -> None:
    """No window of a supervisor, between two of its failures, has more restarts than it allows."""
    planned: dict[str, list[float]] = {}
    for at, record in chaos.records:
        if isinstance(record, RestartPlanned):
            planned.setdefault(record.supervisor, []).append(at)
            assert record.count <= record.limit
        elif isinstance(record, SupervisorFailed):
            recent = [one for one in planned.pop(record.name, []) if at - one <= record.window]
            assert len(recent) >= record.restarts


@pytest.mark.parametrize("first", range(0, 400, 100))
def test_a_tree_under_chaos_keeps_its_promises(first: int) -> None:
    """One incarnation at a time, every request ends, nothing runs after a stop, all runs once it is calm."""
    failed = 0
    for seed in range(first, first + 100):
        chaos = Chaos(seed)
        try:
            VirtualClock().run(play(chaos))
            limits_hold(chaos)
            assert chaos.violations == []
        except BaseException as error:
            raise AssertionError(f"seed {seed}") from error
        failed += any(isinstance(record, SupervisorFailed) for _, record in chaos.records)
    assert 10 < failed < 100
