"""Random programs: trees of statements, and a program that does what its tree says; and a stage to play programs.

A tree is a list of statements; each is a list that begins with its word. What is asked are texts that hold the values
so far, so that another answer would lead to other questions.
"""

import hashlib
import random
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from pattern_play import Troupe

from coterie import AgentFailed, agent, note, now, program, together
from coterie import random as chance
from coterie.agents.backends.base import Answer, Failure, Request, Result
from coterie.base.clock import VirtualClock
from coterie.execution.kernel.owner import OwnerOptions, RunPorts
from coterie.execution.kernel.run_exit import RunExit
from coterie.execution.kernel.shell import Shell
from coterie.execution.kinds import kind_of
from coterie.history.journal.memory import MemoryStore
from coterie.history.journal.records import Record
from coterie.team.planning import as_plan
from coterie.team.planning.plan import Limits

a = agent("a", command=["cat"], outputs=int, max_retries=1)
b = agent("b", command=["cat"], outputs={"n": int}, max_retries=0)
c = agent("c", command=["cat"], max_retries=0)
AGENTS = {"a": a, "b": b, "c": c}


def _number(name: str, answer: Any) -> int:
    return {"a": lambda: answer, "b": lambda: answer.n, "c": lambda: len(answer)}[name]()


def _enough(bound: int, known: list[Any]) -> bool:
    return len(known) >= bound


class _Interpreter:
    def __init__(self) -> None:
        self.value = 0

    def question(self, name: str, k: int) -> Any:
        return AGENTS[name](f"{self.value} {k}", n=k) if k % 2 else AGENTS[name]([self.value, k])

    async def ask(self, name: str, k: int) -> None:
        self.value = self.value * 31 + _number(name, await self.question(name, k))

    async def run(self, tree: Sequence[Any]) -> None:
        for word, *rest in tree:
            self.value %= 1_000_003
            match word:
                case "ask":
                    await self.ask(*rest)
                case "note":
                    note(f"{rest[0]}: {self.value}")
                case "chance":
                    self.value += chance().randrange(1000)
                case "if":
                    await self.run(rest[1] if self.value % 3 == rest[0] else rest[2])
                case "loop":
                    for _ in range(self.value % rest[0]):
                        await self.run(rest[1])
                case "try":
                    try:
                        await self.run(rest[0])
                    except AgentFailed as failure:
                        self.value += len(failure.kind)
                    finally:
                        self.value += now() > 0
                case "together":
                    names, at_once, bound, failures = rest
                    until = partial(_enough, bound) if bound else None
                    questions = [self.question(name, k) for k, name in enumerate(names)]
                    found: list[Any] = await together(  # type: ignore[call-overload]
                        questions, at_once=at_once, until=until, failures=failures
                    )
                    for name, one in zip(names, found, strict=True):
                        known = one is not None and not isinstance(one, AgentFailed)
                        self.value = self.value * 31 + (_number(name, one) if known else 7)


@program(agents=list(AGENTS.values()), max_turns=200)
async def interpreted(tree: list[Any]) -> int:
    one = _Interpreter()
    await one.run(tree)
    return one.value


def random_tree(dice: random.Random, depth: int = 0) -> list[Any]:
    """A tree of one to four statements."""
    return [_statement(dice, depth) for _ in range(dice.randint(1, 4 if depth == 0 else 2))]


def _statement(dice: random.Random, depth: int) -> list[Any]:
    names, word = list(AGENTS), dice.choice(["ask", "ask", "together", "note", "chance", "if", "loop", "try"])
    match word if depth < 3 else "ask":
        case "together":
            many = [dice.choice(names) for _ in range(dice.randint(0, 4))]
            return ["together", many, dice.choice([None, 1, 2]), dice.choice([0, 0, 1, 2]), dice.random() < 0.6]
        case "note" | "chance":
            return [word, dice.randrange(9)]
        case "if":
            return ["if", dice.randrange(3), random_tree(dice, depth + 1), random_tree(dice, depth + 1)]
        case "loop":
            return ["loop", dice.randint(2, 4), random_tree(dice, depth + 1)]
        case "try":
            return ["try", random_tree(dice, depth + 1)]
        case _:
            return ["ask", dice.choice(names), dice.randrange(5)]


def answers(seed: int) -> Callable[[str, Request], tuple[Result, float]]:
    """Agents whose answers follow from the question, and so are the same after a kill."""

    def says(path: str, request: Request) -> tuple[Result, float]:
        asked = re.split("# (An earlier attempt was|Your last attempt)", request.prompt)[0].strip()
        drawn = hashlib.sha256(f"{seed} {path} {asked}".encode()).digest()
        seconds = 1.0 + drawn[1] % 7
        if drawn[0] < 40:
            return Failure(kind="failed", reason="it cannot"), seconds
        return Answer(text="x" * (drawn[2] % 50), outputs={"result": drawn[2], "n": drawn[3]}), seconds

    return says


class Play:
    """A run of a program, in virtual time, begun anew or after its first *records*.

    Attributes:
        ended: How it ended.
        records: Its journal.
        asked: The turns whose attempts were started, in order.
    """

    def __init__(self, team: Any, given: Any, says: Any, records: Sequence[Record] = (), at: float = 0.0) -> None:
        clock, store = VirtualClock(at or (records[-1].at if records else 0.0)), MemoryStore()
        self.troupe, plan = Troupe(says, clock), as_plan(team)
        ports = RunPorts(store=store, turns=self.troupe, clock=clock, make_kind=kind_of)
        shell = Shell(ports, OwnerOptions(limits=Limits(max_parallel=None)))
        if records:
            store.fill("r", records)
        beginning = shell.resume("r", plan) if records else shell.start("r", plan, given)
        self.ended: RunExit = clock.run(beginning)
        self.records = list(store.read("r"))
        self.asked = [request.turn for _, request in self.troupe.asked]
