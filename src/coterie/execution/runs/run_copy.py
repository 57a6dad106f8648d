"""Copy the beginning of a run into a separate store, as the beginning of a fork.

The copy is history: running processes belong to the original, and running attempts are over in the copy. Child runs are
copied as well, each up to the same time.
"""

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import overload

from msgspec import Struct
from msgspec.structs import replace

from coterie.agents.workspace.trees.git import readable
from coterie.base.clock import Clock
from coterie.base.ids import child_run_id
from coterie.errors import NoSuchRun, ReplayMismatch
from coterie.execution.kernel.commands import Turn
from coterie.execution.kernel.core import Core, CoreDuties
from coterie.execution.kinds import kind_of
from coterie.execution.runs.repository import Runs
from coterie.history.journal import records as r
from coterie.history.journal.lines import rare
from coterie.history.journal.writer import JsonlWriter
from coterie.team.planning.plan import Plan, to_json

_AT_ONCE = 1_000
"""How many records are written at once."""
LARGEST_FILE = 256 << 20
"""Bytes of a file of an attempt that a fork gets; a sparse one may have terabytes."""
_NAMED = 20
"""How many of the files that it does not get are named."""


class ChangedRecords(Sequence[r.Record]):
    """*records*, which begin with the first of their journal, with other ones in place of some, by number."""

    def __init__(self, records: Sequence[r.Record], changes: Mapping[int, r.Record]) -> None:
        self._records, self._changes = records, changes

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[r.Record]:
        return (self._changes.get(one.seq, one) for one in self._records)

    @overload
    def __getitem__(self, at: int) -> r.Record: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[r.Record]: ...

    def __getitem__(self, at: int | slice) -> r.Record | Sequence[r.Record]:
        if isinstance(at, slice):
            return ChangedRecords(self._records[at], self._changes)
        return self._changes.get((one := self._records[at]).seq, one)


class RunCopy:
    """Writes a fork, under *plan*, into the runs *there*.

    Attributes:
        now: The time of the fork.
        again: The turns that are retried.
        left_out: What the fork lacks, and why: files below the folder of the original, of which so many are named.
        altered: Whether the shared records have another input or other answers than those of the original.
    """

    def __init__(
        self,
        here: Runs,
        read: Callable[[str], Sequence[r.Record]],
        there: Runs,
        plan: Plan,
        *,
        changed: bool,
        clock: Clock,
    ) -> None:
        self._here, self._read, self._there, self._plan, self._changed = here, read, there, plan, changed
        self.now = clock.now()
        self.again: list[str] = []
        self.left_out: list[str] = []
        self.altered = False

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
        """Write the fork and its child runs; *is_all*: *prefix* is the whole journal of *origin*.

        Args:
            cwd: The working directory of the fork; by default that of *origin*.
        """
        first = prefix[0]
        assert isinstance(first, r.RunStarted)
        forked_from = r.ForkedFrom(run=origin, seq=len(prefix), at=self.now)
        first = replace(first, run=fork, forked_from=forked_from, cwd=cwd or first.cwd, begun_by=begun_by)
        writer = self._there.claim_file(fork)
        try:
            records = ChangedRecords(prefix, {1: first})
            core = self._folded(journal := _Journal(origin, fork, self._plan, writer), records, 0)
            self._children(origin, fork, self._plan, prefix, None if is_all else prefix[-1].at)
            named, more = self.left_out[:_NAMED], len(self.left_out) - _NAMED
            self.left_out = [*named, *([f"and {more} more"] if more > 0 else [])]
            forked_from = replace(forked_from, left_out=tuple(self.left_out))
            journal.write(ChangedRecords(prefix, {1: replace(first, forked_from=forked_from)}))
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
        """Copy the child runs of the attempts in *prefix*.

        Args:
            before: Copy running child runs up to this time; None: copy them completely.
            began: The record of the root that began the enclosing child run; 0: these are attempts of the root.
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
                self._copy_files(origin, self._here.folder(source), self._there.folder(target))

    def _child(
        self, origin: str, fork: str, plan: Plan, before: float | None, ended: bool, began: int, upto: int
    ) -> None:
        """Copy a child run, if it had begun; one whose turn had not *ended* continues in the fork.

        Args:
            upto: The last copied record of its parent; a later one may have reopened the child run.
        """
        try:
            records = self._read(origin)
        except NoSuchRun:
            return
        reopened = (one.seq for one in rare(records) if isinstance(one, r.RunReopened) and one.above > upto)
        records = records[: next(reopened, len(records) + 1) - 1]
        if before is not None:
            records = records[: sum(one.at < before for one in records)]
        if not records:
            return
        first = records[0]
        assert isinstance(first, r.RunStarted)
        first = replace(first, run=fork, parent=fork.rpartition("/")[0])
        writer = self._there.claim_file(fork)
        lived = ChangedRecords(records, {1: first})
        core = self._folded(journal := _Journal(origin, fork, plan, writer), lived, began)
        journal.write(lived)
        self._children(origin, fork, plan, records, before, began)
        if not ended:
            self._let_go(core)
        writer.sync()
        writer.give_up()

    def _folded(self, journal: "_Journal", records: Sequence[r.Record], began: int) -> Core:
        """Fold *records*, which shows whether the fork's plan agrees with them."""
        core = Core(journal.fork, kind_of(journal.plan), CoreDuties(lambda record: journal.writer.append((record,))))
        try:
            core.fold(records)
        except ReplayMismatch as found:
            hint = ""
            if self._changed or self.altered:
                earlier = (began or found.seq) - 1
                hint = (
                    f"with the changes, this would have been decided differently: fork the run at {earlier} or earlier"
                )
            raise ReplayMismatch(journal.origin, found.seq, found.found, found.wanted, hint) from None
        return core

    def _let_go(self, core: Core) -> None:
        """End the ownership of the original's owner at its last copied record.

        Running attempts belong to that owner, and are retried here.

        A question to a human stays open, and a child run continues; one that had not begun is started anyway.
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

    def _copy_files(self, run: str, source: Path, target: Path) -> None:
        """Copy the folder of an attempt of *run* without what its agent made no file of, too large, or unreadable."""
        top = self._here.folder(run.partition("/")[0])

        def left_out(folder: str, names: list[str]) -> list[str]:
            found = {name: _why_left_out(Path(folder, name)) for name in names}
            at = Path(folder).relative_to(top)
            self.left_out += [f"{readable(str(at / name))} ({why})" for name, why in found.items() if why]
            return [name for name, why in found.items() if why is not None]

        shutil.copytree(source, target, symlinks=True, ignore=left_out)

    def _has_begun(self, fork: str, turn: Turn) -> bool:
        return self._there.has(child_run_id(fork, turn.ask.turn, turn.attempt))


class _Journal(Struct, frozen=True):
    """The journal of a run that is being copied."""

    origin: str
    fork: str
    plan: Plan
    writer: JsonlWriter

    def write(self, records: Iterable[r.Record]) -> None:
        """Write *records*, which are history."""
        left = map(_as_history, records)
        while some := [*islice(left, _AT_ONCE)]:
            self.writer.append(some)
            if len(some) == _AT_ONCE:
                self.writer.flush()  # so that they are not kept in memory


def _over(records: Iterable[r.Record]) -> set[str | tuple[str, int]]:
    """The turns and the attempts that have ended."""
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
    """*record* for the fork, which must not treat a process of the original as its own."""
    if isinstance(record, r.AttemptLaunched):
        return replace(record, started="")  # no process has that start time, so none is ended because of it
    return record


def _why_left_out(path: Path) -> str | None:
    """Why a fork does not get *path*; empty if it is no file, None if the fork gets it."""
    if path.is_symlink():
        return None
    if not path.is_file() and not path.is_dir():
        return ""
    if not os.access(path, os.R_OK | (os.X_OK if path.is_dir() else 0)):
        return "it cannot be read"
    is_large = path.is_file() and path.stat().st_size > LARGEST_FILE
    return f"larger than {LARGEST_FILE >> 20} MB" if is_large else None
