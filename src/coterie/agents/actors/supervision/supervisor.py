"""A running supervisor: it starts, watches, restarts and stops its children as `policy` decides.

As in OTP, it handles one event at a time, in order of arrival: ends of children, requests, and due restarts. A delay
before a restart is a timer, so it delays neither other children nor requests.
"""

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import assert_never

from coterie.agents.actors.exits import Available, Change, Crashed, Down, Exit, Lost, Normal, Shutdown, Terminated
from coterie.agents.actors.supervision.entries import ChildEntry, ChildRequest, ChildState, StartFailed
from coterie.agents.actors.supervision.policy import RestartHistory, RestartPolicy, is_restarted
from coterie.agents.actors.supervision.spec import (
    CRASHED,
    KILLED,
    RESTART,
    SHUTDOWN,
    ChildSpec,
    Supervised,
    WorkerAbsent,
)
from coterie.errors import AgentCrashed, SpawnError, WorkerLost, error_line
from coterie.history.journal.records.actor import ActorStarted, ActorStopped, RestartPlanned, SupervisorFailed
from coterie.history.journal.records.base import Record
from coterie.history.views.words import plural

Ended = Callable[[ChildSpec, str], None]


class SupervisorActor:
    """Keeps a group of children running; it is itself a child of another supervisor, unless it is the root.

    Children start in order and stop in reverse. Beyond its limit it stops all children and ends with `Shutdown`, which
    is a failure for its own supervisor.

    Args:
        spec: Its own name and rules.
        children: The initial children, in start order, used at each of its starts.
        sink: Receives the records.
        path: The names of the supervisors above it, from the root, joined with `/`.
        ended: Called when a spawned child has ended for good, with the reason: `clean_exit`, `crashed`, `despawned`,
            `restarts_exhausted` or `shutdown`.
        chance: Returns random numbers for jitter, from 0 to below 1.

    Attributes:
        added: How many children were started on request, over its lifetime.
    """

    def __init__(
        self,
        spec: ChildSpec,
        policy: RestartPolicy,
        children: Iterable[Supervised] = (),
        *,
        sink: Callable[[Record], None] | None = None,
        path: str = "",
        ended: Ended | None = None,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.spec = spec
        self.report: Callable[[Change], None] = lambda change: None
        self.policy = policy
        self.path = path
        self.incarnation = 0
        self.is_running = False
        self.added = 0
        self._initial = {child.spec.name: self._entry(child) for child in children}
        self._entries = dict(self._initial)
        self._sink = sink or (lambda record: None)
        self._ended = ended or (lambda *_: None)
        self._chance = chance
        self._history = RestartHistory(policy.limit.window)
        self._inbox: deque[Change | ChildRequest | Callable[[], Awaitable[None]]] = deque()
        self._worker: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        """Its name."""
        return self.spec.name

    @property
    def children(self) -> Sequence[ChildEntry]:
        """Its children, in start order."""
        return tuple(self._entries.values())

    def child(self, name: str) -> ChildEntry | None:
        """The child of that name, if there is one."""
        return self._entries.get(name)

    # As a child of its own supervisor

    async def start(self, incarnation: int) -> None:
        """Start the children, in order.

        Raises:
            Exception: From the start of a child; the children before it are stopped, in reverse.
        """
        self.incarnation = incarnation
        self._history = RestartHistory(self.policy.limit.window)
        self._inbox.clear()
        self._entries = dict(self._initial)
        try:
            for entry in self._initial.values():
                try:
                    await self._start(entry)
                except StartFailed as failed:
                    if not isinstance(failed.error, WorkerLost):
                        raise
                    self._try_again(failed)
        except StartFailed as failed:
            await self._stop_all(SHUTDOWN)
            raise failed.error from None
        except BaseException:
            await self._stop_all(SHUTDOWN)
            raise
        self.is_running = True
        self._sink(ActorStarted(name=self.name, kind=self.spec.kind, path=self.path, incarnation=incarnation))
        self._wake()

    async def stop(self, reason: str) -> None:
        """Stop the children in reverse order, within `spec.shutdown` seconds; then they are cancelled."""
        was_running, self.is_running = self.is_running, False
        try:
            async with asyncio.timeout(None if reason == KILLED else self.spec.shutdown):
                await self._end_work(is_urgent=reason == KILLED)
                await self._stop_all(reason)
        except TimeoutError:
            reason = KILLED
            await self._end_work(is_urgent=True)
            await self._stop_all(KILLED)
        if was_running:
            word = KILLED if reason == KILLED else SHUTDOWN
            self._sink(ActorStopped(name=self.name, incarnation=self.incarnation, reason=word))

    async def _end_work(self, *, is_urgent: bool) -> None:
        """Wait for the current event; a start, which may take long, is cancelled."""
        if self._worker is not None:
            if is_urgent or any(entry.state is ChildState.STARTING for entry in self._entries.values()):
                self._worker.cancel()
            await asyncio.wait([self._worker])

    # Requests

    async def start_child(self, child: Supervised, check: Callable[[], None] = lambda: None) -> None:
        """Start a further child, after all others; a failed start leaves nothing behind.

        Args:
            check: Called directly before the start, without other events in between; raises to refuse.

        Raises:
            SpawnError: If the supervisor is not running, or it is just starting the caller, which would deadlock.
            Exception: From *check*, or from the start of the child.
        """

        async def work() -> None:
            check()
            entry = self._entries[child.spec.name] = self._entry(child, is_added=True)
            try:
                await self._start(entry)
            except BaseException as error:
                del self._entries[entry.name]
                await child.stop(SHUTDOWN)
                raise error.error if isinstance(error, StartFailed) else error from None
            self.added += 1

        await self._request(work, child.spec.spawner, child.spec.name)

    async def stop_child(self, name: str, caller: str = "") -> bool:
        """Stop a child without a restart, regardless of its type; False: there is no child of that name.

        Unless it was spawned or is temporary, it stays in the list and starts again with its siblings, as in OTP.
        """
        return await self._do_with(name, caller, lambda entry: self._leave(entry, "despawned"))

    async def restart_child(self, name: str, caller: str = "") -> bool:
        """Stop a child and start its next incarnation, which keeps the mailbox; False: there is no child of that name.

        The limit does not count this as a restart, unless the start fails.

        Raises:
            SpawnError: If the supervisor is not running.
            Exception: From the start of the child.
        """

        async def restart(entry: ChildEntry) -> None:
            await self._stop(entry, RESTART)
            try:
                await self._start(entry)
            except StartFailed as failed:
                self._try_again(failed)
                raise failed.error from None
            entry.restarts += 1

        return await self._do_with(name, caller, restart)

    async def _do_with(self, name: str, caller: str, work: Callable[[ChildEntry], Awaitable[None]]) -> bool:
        """Do *work* with the child *name*; False if there is none by then."""
        entry = self._entries.get(name)

        async def checked() -> None:
            if entry is not None and self._entries.get(name) is entry:
                await work(entry)

        await self._request(checked, caller, name)
        return entry is not None

    async def _request(self, work: Callable[[], Awaitable[None]], caller: str, name: str) -> None:
        if not self.is_running:
            raise SpawnError(name, f"supervisor {self.name!r} is not running")
        if self._is_held_up_by(caller):
            raise SpawnError(name, f"supervisor {self.name!r} waits for {caller!r} to start or stop: ask it in handle")
        request = ChildRequest(work, caller)
        self._post(request)
        await request.done

    def _is_held_up_by(self, caller: str) -> bool:
        entry = self._entries.get(caller)
        return entry is not None and entry.state in (ChildState.STARTING, ChildState.STOPPING)

    # One thing at a time

    def _entry(self, child: Supervised, *, is_added: bool = False) -> ChildEntry:
        child.report = self._post
        return ChildEntry(child, is_added=is_added)

    def _post(self, event: Change | ChildRequest | Callable[[], Awaitable[None]]) -> None:
        self._inbox.append(event)
        self._wake()

    def _wake(self) -> None:
        if self.is_running and self._worker is None and self._inbox:
            self._worker = asyncio.get_running_loop().create_task(self._work(), name=f"supervisor {self.name}")

    async def _work(self) -> None:
        try:
            while self._inbox and self.is_running:
                event = self._inbox.popleft()
                match event:
                    case Down():
                        await self._handle_downs((event,))
                    case Lost():
                        await self._handle_lost(event)
                    case Available():
                        await self._handle_available(event)
                    case ChildRequest():
                        await self._answer(event)
                    case _:
                        await event()
        finally:
            self._worker = None
            if not self.is_running:
                self._refuse_requests()

    async def _answer(self, request: ChildRequest) -> None:
        try:
            await request.work()
        except Exception as error:  # it belongs to the caller
            request.fail(error)
        except asyncio.CancelledError:
            request.fail(SpawnError(request.caller, f"supervisor {self.name!r} is stopping"))
            raise
        else:
            if not request.done.done():
                request.done.set_result(None)

    def _refuse_requests(self, caller: str = "") -> None:
        """Refuse the waiting requests of *caller*, or all, so that stopping nodes are not delayed."""
        for event in list(self._inbox):
            if isinstance(event, ChildRequest) and caller in ("", event.caller):
                self._inbox.remove(event)
                event.fail(SpawnError(event.caller, f"supervisor {self.name!r} is stopping"))

    # What follows from the end of a child

    async def _handle_downs(self, downs: Iterable[Down]) -> None:
        """Handle ends with a common cause as one failure."""
        failed: list[tuple[ChildEntry, Exit]] = []
        for down in downs:
            entry = self._ended_now(down)
            if entry is None:
                continue  # stopped or replaced in the meantime
            entry.state = ChildState.STOPPED
            entry.error = next(iter(causes(entry.name, down.reason)), "")
            if is_restarted(entry.spec.restart, down.reason):
                failed.append((entry, down.reason))
            else:
                await self._leave(entry, _word_of(down.reason))
        if failed:
            await self._replace_or_give_up(*failed[0], [entry for entry, _ in failed])

    async def _handle_lost(self, lost: Lost) -> None:
        if lost.is_failure:
            await self._handle_downs(lost.downs)
            return
        for entry in filter(None, map(self._ended_now, lost.downs)):
            entry.state = ChildState.ABSENT

    async def _handle_available(self, available: Available) -> None:
        entry = self._entries.get(available.name)
        if entry is not None and entry.state is ChildState.ABSENT:
            await self._start_or_try_again(entry)

    def _ended_now(self, down: Down) -> ChildEntry | None:
        """The child of *down*, if *down* is about its present incarnation or a start that just failed."""
        entry = self._entries.get(down.name)
        if entry is None or entry.incarnation != down.incarnation:
            return None
        failed_to_start = entry.state is ChildState.WAITING and entry.timer is None
        return entry if entry.state is ChildState.RUNNING or failed_to_start else None

    async def _replace_or_give_up(self, entry: ChildEntry, reason: Exit, failed: Sequence[ChildEntry] = ()) -> None:
        """Count one failure, that of *entry*, and replace the children that the strategy selects for *failed*."""
        loop = asyncio.get_running_loop()
        self._history.add(entry.name, loop.time())
        chance = self._chance() if self.policy.backoff.jitter > 0 else 0.0
        delay = self.policy.delay(entry.name, self._history, chance)
        if delay is None:
            await self._give_up(entry, reason)
            return
        leaders, group = self._replaced(failed or (entry,))
        self._sink(
            RestartPlanned(
                supervisor=self.name,
                name=entry.name,
                names=tuple(one.name for one in group),
                count=len(self._history),
                limit=self.policy.limit.max_restarts,
                delay=delay,
            )
        )
        await self._stop_group(failed or (entry,), group)
        for leader in leaders:
            if delay:
                leader.state = ChildState.WAITING
                leader.timer = loop.call_later(delay, self._post, partial(self._due, leader))
            else:
                await self._start_group(leader)

    def _replaced(self, failed: Sequence[ChildEntry]) -> tuple[list[ChildEntry], list[ChildEntry]]:
        """The *failed* children that no earlier one already replaces, and all children to replace."""
        leaders: list[ChildEntry] = []
        group: list[ChildEntry] = []
        for entry in failed:
            if entry not in group:
                leaders.append(entry)
                group += self._affected(entry)
        return leaders, group

    async def _due(self, entry: ChildEntry) -> None:
        if entry.state is ChildState.WAITING:
            entry.timer = None
            await self._stop_group((entry,), self._affected(entry))  # siblings that have started since then
            await self._start_group(entry)

    def _affected(self, entry: ChildEntry) -> Sequence[ChildEntry]:
        return self.policy.strategy.affected(entry, self._entries.values())

    async def _stop_group(self, failed: Sequence[ChildEntry], group: Sequence[ChildEntry]) -> None:
        for entry in reversed(group):
            if entry in failed:
                continue
            if entry.spec.restart == "temporary":  # never started again
                await self._leave(entry, "shutdown")
            elif entry.state is not ChildState.STOPPED:
                await self._stop(entry, RESTART)

    async def _start_group(self, failed: ChildEntry) -> None:
        for entry in self._affected(failed):
            if not await self._start_or_try_again(entry):
                return
            entry.restarts += 1

    async def _start_or_try_again(self, entry: ChildEntry) -> bool:
        """Start *entry*; return whether that succeeded. A failure counts, and leads to another try."""
        try:
            await self._start(entry)
        except StartFailed as failed:
            self._try_again(failed)
            return False
        return True

    def _try_again(self, failed: StartFailed) -> None:
        entry, error = failed.entry, failed.error
        reason = Crashed(error.error if isinstance(error, AgentCrashed) else error_line(error))
        entry.error = next(iter(causes(entry.name, reason)))
        entry.state = ChildState.WAITING
        self._post(lambda: self._retry(entry, reason))

    async def _retry(self, entry: ChildEntry, reason: Exit) -> None:
        if entry.state is ChildState.WAITING and entry.timer is None:
            await self._replace_or_give_up(entry, reason)

    async def _leave(self, entry: ChildEntry, reason: str) -> None:
        """Remove a child that has ended for good; unless it is temporary or spawned, it keeps its place in the list."""
        await self._stop(entry, CRASHED if reason == CRASHED else SHUTDOWN)
        if entry.is_added or entry.spec.restart == "temporary":
            del self._entries[entry.name]
        if entry.is_added:
            self._ended(entry.spec, reason)

    async def _give_up(self, failed: ChildEntry, reason: Exit) -> None:
        self.is_running = False
        limit = self.policy.limit
        allowed = plural(limit.max_restarts, "restart")
        lines = (
            f"supervisor {self.name!r} gave up: more than {allowed} within {limit.window:g} s",
            *causes(failed.name, reason),
        )
        self._sink(
            SupervisorFailed(
                name=self.name,
                child=failed.name,
                restarts=limit.max_restarts,
                window=limit.window,
                reason="\n".join(lines),
            )
        )
        await self._stop_all(SHUTDOWN, failed)
        self.report(Down(self.name, self.incarnation, Shutdown(lines)))

    # Starting and stopping children

    async def _start(self, entry: ChildEntry) -> None:
        entry.cancel_timer()
        entry.incarnation += 1
        entry.state = ChildState.STARTING
        try:
            await entry.child.start(entry.incarnation)
        except WorkerAbsent:
            entry.incarnation -= 1
            entry.state = ChildState.ABSENT
            return
        except Exception as error:
            entry.state = ChildState.STOPPED
            raise StartFailed(entry, error) from None
        except BaseException:
            entry.state = ChildState.STOPPED
            raise
        entry.state = ChildState.RUNNING

    async def _stop(self, entry: ChildEntry, reason: str) -> None:
        entry.cancel_timer()
        entry.state = ChildState.STOPPING
        self._refuse_requests(entry.name)
        await entry.child.stop(reason)
        entry.state = ChildState.STOPPED

    async def _stop_all(self, reason: str, exhausted: ChildEntry | None = None) -> None:
        """Stop all children in reverse order; before a restart, only children that return keep their mailbox."""
        for entry in reversed(self.children):
            await self._stop(entry, SHUTDOWN if entry.is_added and reason == RESTART else reason)
            if entry.is_added:
                del self._entries[entry.name]
                self._ended(entry.spec, "restarts_exhausted" if entry is exhausted else "shutdown")

    def walk(self) -> Iterator[tuple["SupervisorActor", ChildEntry]]:
        """All nodes below it, each with its supervisor, in the order of the tree."""
        for entry in self.children:
            yield self, entry
            if isinstance(entry.child, SupervisorActor):
                yield from entry.child.walk()


def causes(name: str, reason: Exit) -> tuple[str, ...]:
    """Why the child *name* ended, one line each, the innermost last."""
    match reason:
        case Normal():
            return (f"{name!r} ended by itself",)
        case Shutdown():
            return reason.causes or (f"{name!r} was shut down",)
        case Terminated() | Crashed():
            return (f"{name!r} crashed: {reason.error}",)
        case _:
            assert_never(reason)


def _word_of(reason: Exit) -> str:
    match reason:
        case Normal() | Shutdown():
            return "clean_exit"
        case Terminated():
            return "despawned"
        case Crashed():
            return CRASHED
        case _:
            assert_never(reason)
