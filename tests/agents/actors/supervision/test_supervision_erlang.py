"""Supervisors compared with Erlang/OTP's: the same trees and crash scripts, the same starts, stops and ends."""

import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from supervised import FakeChild, Log, LoggedSupervisor, settled

from coterie.agents.actors.exits import Crashed, Exit, Normal, Shutdown
from coterie.agents.actors.supervision.policy import Backoff, RestartLimit, RestartPolicy, RestartStrategy
from coterie.agents.actors.supervision.spec import SHUTDOWN, ChildSpec, RestartType
from coterie.base.clock import VirtualClock

PLAYER = Path(__file__).parents[3] / "data" / "supervision" / "play.escript"
TYPES: list[RestartType] = ["permanent", "transient", "temporary"]
REASONS: dict[str, Exit] = {"normal": Normal(), "shutdown": Shutdown(), "boom": Crashed("Boom: boom")}


class Agent(NamedTuple):
    """A leaf of a tree."""

    name: str
    restart: RestartType

    def erlang(self) -> str:
        return f"{{agent,{self.name},{self.restart}}}"


class Sup(NamedTuple):
    """A supervisor of a tree."""

    name: str
    strategy: RestartStrategy
    limit: int
    restart: RestartType
    children: "list[Agent | Sup]"

    def erlang(self) -> str:
        children = ",".join(child.erlang() for child in self.children)
        return f"{{sup,{self.name},{self.strategy.value.lower()},{self.limit},{self.restart},[{children}]}}"

    def walk(self) -> "Iterator[Sup]":
        yield self
        for child in self.children:
            if isinstance(child, Sup):
                yield from child.walk()


class Fail(NamedTuple):
    """The next starts of an agent fail."""

    name: str
    count: int

    def erlang(self) -> str:
        return f"{{fail,{self.name},{self.count}}}"


class Exits(NamedTuple):
    """Agents of one supervisor end at once."""

    exits: list[tuple[str, str]]

    def erlang(self) -> str:
        return "{exits,[" + ",".join(f"{{{name},{reason}}}" for name, reason in self.exits) + "]}"


class Terminate(NamedTuple):
    """A child is stopped for good."""

    sup: str
    name: str

    def erlang(self) -> str:
        return f"{{terminate,{self.sup},{self.name}}}"


class Case(NamedTuple):
    """A tree, the failures of its first starts, and what happens to it."""

    tree: Sup
    fails: list[tuple[str, int]]
    steps: list[Fail | Exits | Terminate]

    def erlang(self) -> str:
        fails = ",".join(f"{{{name},{count}}}" for name, count in self.fails)
        return f"{{{self.tree.erlang()},[{fails}],[{','.join(step.erlang() for step in self.steps)}]}}."


def random_case(chance: random.Random) -> Case:
    """A tree of at most three levels and up to twelve steps."""
    count = 0

    def name(letter: str) -> str:
        nonlocal count
        count += 1
        return f"{letter}{count}"

    def tree(level: int) -> Sup:
        own = name("s")
        children: list[Agent | Sup] = []
        for _ in range(chance.randint(1, 4)):
            if level < 3 and chance.random() < 0.35:
                children.append(tree(level + 1))
            else:
                children.append(Agent(name("a"), restart()))
        return Sup(own, chance.choice(list(RestartStrategy)), chance.choice([0, 1, 1, 2, 3, 5]), restart(), children)

    def restart() -> RestartType:
        return chance.choices(TYPES, [6, 3, 2])[0]

    root = tree(1)
    sups = list(root.walk())
    agents = [child.name for sup in sups for child in sup.children if isinstance(child, Agent)]
    with_agents = [sup for sup in sups if any(isinstance(child, Agent) for child in sup.children)]

    def step() -> Fail | Exits | Terminate:
        kind = chance.random()
        if kind < 0.2 and agents:
            return Fail(chance.choice(agents), chance.randint(1, 4))
        if kind < 0.27:
            sup = chance.choice(sups)
            return Terminate(sup.name, chance.choice(sup.children).name)
        names = [child.name for child in chance.choice(with_agents).children if isinstance(child, Agent)]
        ending = chance.sample(names, min(len(names), chance.choice([1, 1, 1, 2, 3])))
        return Exits([(one, chance.choices(list(REASONS), [1, 1, 4])[0]) for one in ending])

    fails = [(chance.choice(agents), 1)] if agents and chance.random() < 0.05 else []
    return Case(root, fails, [step() for _ in range(chance.randint(1, 12))] if agents else [])


def played_by_erlang(cases: list[Case], folder: Path) -> list[str]:
    """What OTP does with each case; one process plays all."""
    file = folder / "cases.terms"
    file.write_text("\n".join(case.erlang() for case in cases), encoding="utf-8")
    done = subprocess.run(["escript", str(PLAYER), str(file)], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    return done.stdout.splitlines()


def built(tree: Sup, log: Log, known: dict[str, FakeChild | LoggedSupervisor]) -> LoggedSupervisor:
    """The supervisors of *tree*, over children that log what happens to them."""

    def child(node: Agent | Sup) -> FakeChild | LoggedSupervisor:
        if isinstance(node, Sup):
            return built(node, log, known)
        known[node.name] = FakeChild(ChildSpec(name=node.name, restart=node.restart), log)
        return known[node.name]

    policy = RestartPolicy(
        strategy=tree.strategy,
        limit=RestartLimit(max_restarts=tree.limit, window=3600.0),
        backoff=Backoff(base=0.0),
    )
    spec = ChildSpec(name=tree.name, restart=tree.restart, shutdown=None)
    known[tree.name] = sup = LoggedSupervisor(spec, policy, [child(node) for node in tree.children], log=log)
    return sup


async def played(case: Case) -> str:
    """What our supervisors do with *case*, in the words of the Erlang program."""
    log = Log()
    log.fails.update(case.fails)
    known: dict[str, FakeChild | LoggedSupervisor] = {}
    root = built(case.tree, log, known)
    ended = []
    root.report = ended.append
    try:
        await root.start(1)
    except Exception:
        log.note("x", root.name)
        return log.text()
    await settled()
    for step in case.steps:
        log.note("|", "")
        match step:
            case Fail(name, count):
                log.fails[name] = count
            case Exits(exits):
                for name, reason in exits:
                    agent = known[name]
                    assert isinstance(agent, FakeChild)
                    agent.end(REASONS[reason])
            case Terminate(sup, name):
                supervisor = known[sup]
                assert isinstance(supervisor, LoggedSupervisor)
                if supervisor.is_running:
                    await supervisor.stop_child(name)
        await settled()
    log.note("|", "")
    if ended:
        log.note("x", root.name)
    else:
        await root.stop(SHUTDOWN)
    return log.text()


def compare(count: int, seed: int, folder: Path) -> None:
    if shutil.which("escript") is None:
        pytest.skip("Erlang is not installed: supervisors are not compared with OTP's (apt-get install erlang-base)")
    chance = random.Random(seed)
    cases = [random_case(chance) for _ in range(count)]
    theirs = played_by_erlang(cases, folder)
    assert len(theirs) == len(cases)
    for number, (case, line) in enumerate(zip(cases, theirs, strict=True)):
        ours = VirtualClock().run(played(case))
        assert ours == line, f"case {number} of seed {seed}: {case.erlang()}\nErlang: {line}\nours:   {ours}"
    assert sum(" g" in line for line in theirs) > count // 4, "too few of the supervisors gave up"
    assert sum(" !" in line for line in theirs) > count // 8, "too few starts failed"


def test_supervisors_do_what_erlangs_do(tmp_path: Path) -> None:
    """Order of starts and stops, number of restarts and who gives up agree for random trees and crash scripts."""
    compare(250, 1, tmp_path)


@pytest.mark.long
def test_supervisors_do_what_erlangs_do_in_ten_thousand_trees(tmp_path: Path) -> None:
    """The same for many more."""
    compare(10_000, 2, tmp_path)
