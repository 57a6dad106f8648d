"""Copy the beginning of a run into a separate store, as the beginning of another run: a fork.

What is copied is history: processes that ran are the original's, attempts that were under way are over here. The child
runs come along, each as far as it had come.
"""

import shutil
from collections.abc import Iterable, Sequence
from itertools import takewhile
from pathlib import Path

import msgspec
from msgspec import Struct

from coterie.clock import Clock
from coterie.errors import NoSuchRun, ReplayMismatch
from coterie.ids import child_run_id
from coterie.journal import records as r
from coterie.journal.runs import Read
from coterie.journal.writer import JsonlWriter
from coterie.kernel.commands import Turn
from coterie.kernel.core import Appending, Core
from coterie.kinds import kind_of
from coterie.planning.plan import Plan, to_json
from coterie.runs.repository import Runs


class RunCopy:
    """Writes a fork, under *plan*, into the runs *there*.

    Attributes:
        now: When.
        again: The turns that are retried.
    """

    def __init__(self, here: Runs, read: Read, there: Runs, plan: Plan, *, changed: bool, clock: Clock) -> None:
        self._here, self._read, self._there, self._plan, self._changed = here, read, there, plan, changed
        self.now = clock.now()
        self.again: list[str] = []

    def root(
        self,
        origin: str,
        fork: str,
        prefix: Sequence[r.Record],
        begun_by: tuple[str, ...] = (),
        *,
        is_all: bool,
        cwd: str = "",
    ) -> None:
        """Write the fork and its child runs; *is_all*: *prefix* is all that there is of *origin*.

        Args:
            cwd: Where the fork works; by default where *origin* did.
        """
        first, *rest = prefix
        assert isinstance(first, r.RunStarted)
        forked_from = r.ForkedFrom(run=origin, seq=len(prefix))
        first = msgspec.structs.replace(
            first, run=fork, forked_from=forked_from, cwd=cwd or first.cwd, begun_by=begun_by
        )
        writer = self._there.claim_file(fork)
        try:
            core = self._write(_Journal(origin, fork, self._plan, writer), [first, *rest], 0)
            self._children(origin, fork, self._plan, prefix, None if is_all else prefix[-1].at)
            if self._changed:
                plan = to_json(self._plan).decode()
                reloaded = r.PlanReloaded(plan=plan, plan_hash=self._plan.content_hash())
                core.write(core.at, reloaded, source="operator")
            self._let_go(core)
            writer.sync()
        finally:
            writer.give_up()

    def _children(
        self, origin: str, fork: str, plan: Plan, prefix: Sequence[r.Record], before: float | None, began: int = 0
    ) -> None:
        """Bring along what lies below the attempts in *prefix*.

        Args:
            before: What child runs under way had done by then counts; None: all that they have done.
            began: The record of the root that began all this; 0: these are its own attempts.
        """
        over = _over(prefix)
        for started in prefix:
            if not isinstance(started, r.TurnStarted):
                continue
            ended = started.turn in over or (started.turn, started.attempt) in over
            child = plan.agents[started.agent].child if started.agent in plan.agents else None
            source, target = (child_run_id(run, started.turn, started.attempt) for run in (origin, fork))
            if child is not None:
                cut = before if not ended else None
                self._child(source, target, child, cut, ended, began or started.seq, prefix[-1].seq)
            elif ended and self._here.folder(source).is_dir():
                _copy_files(self._here.folder(source), self._there.folder(target))

    def _child(
        self, origin: str, fork: str, plan: Plan, before: float | None, ended: bool, began: int, upto: int
    ) -> None:
        """Bring a child run along, if it had begun; one whose turn had not *ended* goes on in the fork.

        Args:
            upto: The last record of its parent that comes along: later it may have been reopened.
        """
        try:
            lived = takewhile(lambda one: not (isinstance(one, r.RunReopened) and one.above > upto), self._read(origin))
            records = [one for one in lived if before is None or one.at < before]
        except NoSuchRun:
            return
        if not records:
            return
        first, *rest = records
        assert isinstance(first, r.RunStarted)
        first = msgspec.structs.replace(first, run=fork, parent=fork.rpartition("/")[0])
        writer = self._there.claim_file(fork)
        core = self._write(_Journal(origin, fork, plan, writer), [first, *rest], began)
        self._children(origin, fork, plan, records, before, began)
        if not ended:
            self._let_go(core)
        writer.sync()
        writer.give_up()

    def _write(self, journal: "_Journal", records: Sequence[r.Record], began: int) -> Core:
        """Write *records* and fold them, which shows whether the fork's plan agrees with them."""
        core = Core(journal.fork, kind_of(journal.plan), Appending(lambda record: journal.writer.append((record,))))
        journal.writer.append([_as_history(record) for record in records])
        try:
            core.fold(records)
        except ReplayMismatch as found:
            hint = ""
            if self._changed:
                earlier = (began or found.seq) - 1
                hint = (
                    f"with the changes, this would have been decided differently: fork the run at {earlier} or earlier"
                )
            raise ReplayMismatch(journal.origin, found.seq, found.found, found.wanted, hint) from None
        return core

    def _let_go(self, core: Core) -> None:
        """End the time of the original's owner, with its last record: what came after does not count here.

        Attempts under way belong to it, and are retried here.

        A question to a human stays open, and a child run goes on; one that had not begun is started all the same.
        """
        if core.finished is not None:
            return
        below = core.run.partition("/")[2]
        for name, turn in core.turns.items():
            if turn.status != "running":
                continue
            if core.takes_a_slot(turn.ask.agent):
                core.write(core.at, r.AttemptInterrupted(turn=name, attempt=turn.attempt, reason="forked"))
                self.again.append(f"{below}/{name}".lstrip("/"))
            elif core.kind(turn.ask.agent) == "topology" and not self._has_begun(core.run, turn):
                self.again.append(f"{below}/{name}".lstrip("/"))
        core.stop(core.at, "forked")

    def _has_begun(self, fork: str, turn: Turn) -> bool:
        return self._there.has(child_run_id(fork, turn.ask.turn, turn.attempt))


class _Journal(Struct, frozen=True):
    """The journal of a run that is being copied."""

    origin: str
    fork: str
    plan: Plan
    writer: JsonlWriter


def _over(records: Iterable[r.Record]) -> set[str | tuple[str, int]]:
    """The turns that have ended, and the attempts that have."""
    over: set[str | tuple[str, int]] = set()
    for record in records:
        match record:
            case r.TurnFinished(turn=turn) | r.TurnFailed(turn=turn) | r.TurnCancelled(turn=turn):
                over.add(turn)
            case r.AttemptFailed(turn=turn, attempt=attempt) | r.AttemptInterrupted(turn=turn, attempt=attempt):
                over.add((turn, attempt))
            case r.RunReopened():
                over.difference_update(record.asked)
                over.difference_update((turn, int(n)) for turn, _, n in (one.rpartition(".") for one in record.below))
    return over


def _as_history(record: r.Record) -> r.Record:
    """*record* as the fork keeps it: a process that ran is the original's, so the fork must not know it as its own."""
    if isinstance(record, r.AttemptLaunched):
        return msgspec.structs.replace(record, started="")  # no process has that start time: none is ended for it
    return record


def _copy_files(source: Path, target: Path) -> None:
    """Copy what an attempt left in its folder; sockets and pipes, which belong to who made them, stay."""

    def special(folder: str, names: list[str]) -> list[str]:
        paths = {name: Path(folder, name) for name in names}
        return [n for n, path in paths.items() if not (path.is_symlink() or path.is_file() or path.is_dir())]

    shutil.copytree(source, target, symlinks=True, ignore=special)
