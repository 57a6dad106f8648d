"""Drives runs under an event loop that has no clock, threads, selector or files, while these are blocked.

    python foreign_loop.py SALT [SABOTAGE]

prints the journals of all runs as JSON lines. *SALT* changes the hashes of tasks, so that the order in which a set of
them is walked differs. *SABOTAGE* breaks the driver on purpose: see `SABOTAGES`.
"""

import asyncio
import builtins
import heapq
import os
import random
import sys
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar
from unittest.mock import patch

import msgspec
from loop_play import loop_plan, plan_of, waves
from pattern_play import pattern
from stage import flow

from coterie.agents.backends.base import (
    NO_ABILITIES,
    Abilities,
    Answer,
    AttemptRef,
    Emitted,
    Failure,
    OnEvent,
    Request,
    Result,
    Unknown,
)
from coterie.agents.workspace.base import Workspace
from coterie.agents.workspace.notes import Notes, NoteSettings, ShownNotes
from coterie.execution.kernel.attempt_files import AttemptFiles
from coterie.execution.kernel.event_queue import ExternalReads
from coterie.execution.kernel.owner import OwnerOptions, RunPorts
from coterie.execution.kernel.run_exit import Finalizers, RunExit, Step
from coterie.execution.kernel.run_tree import RunTree
from coterie.execution.kernel.shell import Shell
from coterie.execution.kinds import kind_of
from coterie.history.journal.memory import MemoryStore
from coterie.history.journal.records import AttemptLaunched, ConfigAnswer, ConfigKept, Record, RunNotified, TreeMade
from coterie.team.planning.place import RunPlace
from coterie.team.planning.plan import AgentPlan, Limits, Plan

T = TypeVar("T")

# -- the loop ---------------------------------------------------------------------------------------------------------


class ForeignLoop(asyncio.AbstractEventLoop):
    """An event loop in virtual time. What it does not have raises `NotImplementedError`."""

    def __init__(self) -> None:
        self._ready: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._now, self._n = 0.0, 0
        self.problems: list[Any] = []

    def time(self) -> float:
        return self._now

    def now(self) -> float:
        return self._now

    def slept(self) -> None:
        """Return None: timers follow this clock."""

    def call_soon(self, callback: Any, *args: Any, context: Any = None) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_later(self, delay: float, callback: Any, *args: Any, context: Any = None) -> asyncio.TimerHandle:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self._n += 1
        heapq.heappush(self._timers, (when, self._n, handle))
        return handle

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(self, coro: Any, *, name: Any = None, context: Any = None) -> asyncio.Task[Any]:
        return asyncio.Task(coro, loop=self, name=name)

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.problems.append(context)

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Do nothing: a cancelled timer is dropped when it is due."""

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run *main* to its end."""
        asyncio.events._set_running_loop(self)
        try:
            task: asyncio.Task[T] = self.create_task(main)
            while not task.done():
                if not self._ready:
                    self._jump()
                self._ready.popleft()._run()
            assert not self.problems, self.problems
            return task.result()
        finally:
            asyncio.events._set_running_loop(None)

    def _jump(self) -> None:
        """Go on to the next timer."""
        while self._timers and not self._ready:
            when, _, handle = heapq.heappop(self._timers)
            if not handle.cancelled():
                self._now = max(self._now, when)
                self._ready.append(handle)
        assert self._ready, "all tasks are blocked and no timer is set"


class Touched(BaseException):
    """The driver used something that it must not use."""


_BLOCKED: dict[Any, str] = {
    os: "open stat lstat listdir scandir mkdir makedirs unlink remove rename replace link symlink readlink getcwd "
    "urandom fsync write read access pipe kill fork posix_spawn getpid",
    time: "time time_ns monotonic monotonic_ns perf_counter perf_counter_ns sleep localtime gmtime",
    random: "random randint choice choices shuffle sample uniform getrandbits Random SystemRandom",
    builtins: "open",
}


@contextmanager
def nothing_else() -> Iterator[None]:
    """Files, clocks, randomness and threads are blocked."""

    def refuse(name: str, *_: Any, **__: Any) -> Any:
        raise Touched(name)

    blocked = [(module, name) for module, names in _BLOCKED.items() for name in names.split()]
    patches = [patch.object(module, name, partial(refuse, name)) for module, name in blocked]
    patches += [
        patch.object(threading.Thread, "start", partial(refuse, "thread")),
        patch.object(asyncio, "to_thread", partial(refuse, "to_thread")),
    ]
    for one in patches:
        one.start()
    try:
        yield
    finally:
        for one in patches:
            one.stop()


def salted(salt: int) -> type[asyncio.Task[Any]]:
    """Tasks whose hashes rise or fall with their number."""
    made = 0

    class Salted(asyncio.Task[Any]):
        def __init__(self, *args: Any, **named: Any) -> None:
            nonlocal made
            made += 1
            self._hash = salt * made
            super().__init__(*args, **named)

        def __hash__(self) -> int:
            return self._hash

        def __eq__(self, other: object) -> bool:
            return self is other

    return Salted


# -- the outside ------------------------------------------------------------------------------------------------------


class Outside(AttemptFiles, Notes, Workspace, Finalizers):
    """Fake ports: each answer takes its time."""

    def __init__(self) -> None:
        self.calls = self.verdicts = 0

    async def how_far(self, ref: AttemptRef) -> str:
        await asyncio.sleep(0.2)
        return f"half of {ref.turn}"

    async def shown(self, run: str, settings: NoteSettings | None) -> ShownNotes:
        await asyncio.sleep(0.3)
        self.calls += 1
        return ShownNotes(memory=f"memory {self.calls}", tasks="- [ ] one")

    async def open_tasks(self, run: str, settings: NoteSettings | None) -> tuple[str, ...]:
        await asyncio.sleep(0.1)
        self.verdicts += run == "loop"
        return ("task-1 (write tests)",) if self.verdicts < 8 else ()

    async def read(self, name: str) -> str | None:
        await asyncio.sleep(0.4)
        return None if name == "gone.md" else f"text of {name}"

    async def begin_tree(self, place: str, agent: AgentPlan, plan: Plan) -> TreeMade | None:
        await asyncio.sleep(0.5)
        return TreeMade(run=place, path=f"/trees/{place}", branch="b", base="0")

    def closes(self, plan: Plan) -> bool:
        return True

    async def next_step(self, plan: Plan, done: Sequence[Record], ended: RunExit) -> Step | None:
        async def notify() -> Record:
            await asyncio.sleep(0.1)
            return RunNotified(status=ended.status)

        return notify if not any(isinstance(one, RunNotified) for one in done) else None

    async def reload(self, run: str, plan: Plan) -> ConfigAnswer:
        await asyncio.sleep(0.2)
        return ConfigKept()


class Actors:
    """Agents that answer after a while; some attempts fail, are lost, or are cut off."""

    def __init__(self) -> None:
        self.failures = {
            "c#1.1": Failure(kind="transient", reason="busy"),
            "d#1.1": Failure(kind="lost", reason="its worker is gone"),
            "y#1.1": Failure(kind="interrupted", reason="cut"),
        }

    async def start(self, request: Request, on_event: OnEvent) -> "Act":
        return Act(self, request, on_event)

    def uses_context(self, agent: AgentPlan) -> bool:
        return False

    def abilities(self, agent: AgentPlan) -> Abilities:
        return NO_ABILITIES

    async def find(self, request: Request, on_event: OnEvent) -> Unknown:
        return Unknown()

    async def end(self, run: str, launched: Sequence[AttemptLaunched], spared: Sequence[AttemptRef] = ()) -> None:
        await asyncio.sleep(0.1)

    async def close(self) -> None:
        """Nothing to close."""


class Act:
    def __init__(self, actors: Actors, request: Request, on_event: OnEvent) -> None:
        self._actors, self._request, self._on_event = actors, request, on_event

    async def result(self) -> Result:
        request = self._request
        await asyncio.sleep(1.0)
        name = f"{request.turn}.{request.attempt}"
        if (failure := self._actors.failures.get(name)) is not None:
            return failure
        if "AUTOLOOP_ALLOWED_EVENTS" in request.env:
            self._on_event(Emitted(event=self._event(), payload="- one\n- two\n- three"))
        return Answer(text=f"{name} of {request.run}: {request.prompt}")

    def _event(self) -> str:
        allowed = self._request.env["AUTOLOOP_ALLOWED_EVENTS"].split(",")
        if self._request.turn == "iteration#1" and "/" not in self._request.run:
            return "tasks.ready.parallel"
        done = self._request.env["AUTOLOOP_COMPLETION_EVENT"]
        return done if done in allowed else allowed[0]

    async def interrupt(self) -> None:
        """Nothing to do: it ends soon."""

    async def steer(self, text: str) -> bool:
        return False


# -- the runs ---------------------------------------------------------------------------------------------------------


def reading(name: str, *files: str, **fields: Any) -> AgentPlan:
    return AgentPlan(name=name, reads=files, **fields)


def plans() -> dict[str, Plan]:
    """A flow, a loop with a wave, a pattern, and a nested team."""
    wide = flow("a -> [b, c, d, f]", "[b, c, d, f] -> e", b=reading("b", "one.md"), c=reading("c", "two.md", "gone.md"))
    inner = flow("x -> [y, z]", "[y, z] -> w", z=reading("z", "three.md"), y=reading("y", "four.md"))
    nested = flow("p -> team", "team -> q", team=AgentPlan(name="team", kind="topology", child=inner))
    loop = loop_plan(parallel=waves(), place=RunPlace(project="/w/loop", work_dir="/w"))
    return {
        "flow": wide,
        "loop": plan_of(loop),
        "pattern": pattern("ensemble", ["a", "b"], samples=3, aggregation_method="concat"),
        "nested": nested,
    }


def journals() -> dict[str, list[Record]]:
    """The journals of all runs, child runs included, each driven under a loop of its own."""
    found: dict[str, list[Record]] = {}
    for name, plan in plans().items():
        store = MemoryStore()
        loop, actors, outside = ForeignLoop(), Actors(), Outside()
        shell = _shell(store, actors, outside, loop)
        with nothing_else():
            ended = loop.run(shell.start(name, plan, {"prompt": "go"}))
        assert ended.status == "completed", ended
        found |= {run: list(store.read(run)) for run in store._journals}
    return found


def _shell(store: MemoryStore, actors: Actors, outside: Outside, loop: ForeignLoop) -> Shell:
    return Shell(
        RunPorts(
            store=store,
            turns=actors,
            clock=loop,
            make_kind=kind_of,
            files=outside,
            notes=outside,
            workspace=outside,
            finalizers=outside,
            reload=outside.reload,
        ),
        OwnerOptions(limits=Limits(max_parallel=3)),
    )


# -- sabotage ---------------------------------------------------------------------------------------------------------


Question = Callable[[], Awaitable[Any]]
Answered = Callable[[Any], object]


def _with_a_clock() -> None:
    real = RunTree.pump

    def pump(tree: RunTree, live: Any) -> None:
        time.time()
        real(tree, live)

    RunTree.pump = pump  # type: ignore[method-assign]


def _with_a_thread() -> None:
    real = ExternalReads.ask

    def ask(
        reads: ExternalReads, question: Callable[[], Awaitable[Any]], answer: Callable[[Any], object], order: int = 0
    ) -> None:
        async def elsewhere() -> Any:
            await asyncio.get_running_loop().run_in_executor(None, str)
            return await question()

        real(reads, elsewhere, answer, order)

    ExternalReads.ask = ask  # type: ignore[method-assign]


def _with_a_set_of_tasks() -> None:
    def ask(reads: ExternalReads, question: Any, answer: Answered, order: int = 0) -> None:
        reads.pending += 1
        loop = asyncio.get_running_loop()
        tasks: dict[Any, Any] = reads.__dict__.setdefault("answers", {})
        tasks[asyncio.Task(question(), loop=loop)] = answer

        def finish() -> None:
            for task in {task for task in tasks if task.done()}:
                reads._queue.put(0, partial(reads._answered, tasks.pop(task), task.result()))

        loop.call_later(2.0, finish)

    ExternalReads.ask = ask  # type: ignore[method-assign]


SABOTAGES: dict[str, Callable[[], object]] = {
    "clock": _with_a_clock,
    "thread": _with_a_thread,
    "set": _with_a_set_of_tasks,
}


def main() -> None:
    salt, *sabotage = sys.argv[1:]
    for name in sabotage:
        SABOTAGES[name]()
    with patch.object(asyncio, "Task", salted(int(salt))):
        found = journals()
    for run, records in found.items():
        for record in records:
            print(msgspec.json.encode({"run": run, "record": record}).decode())


if __name__ == "__main__":
    main()
