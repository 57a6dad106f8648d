"""Decide for `resume --retry` which turns of a failed run are retried, or why none can be."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from coterie.agents.workspace.trees import worktree
from coterie.base.clock import SystemClock
from coterie.base.diagnostics import did_you_mean
from coterie.base.ids import attempt_id, child_run_id
from coterie.errors import RetryRefused, RunIsOwned
from coterie.execution.kernel.fold import Fold
from coterie.execution.kernel.kind import MakeKind
from coterie.execution.kernel.opening import reported
from coterie.execution.kinds import kind_of
from coterie.execution.runs.repository import Runs
from coterie.history.journal.records import (
    AttemptFailed,
    RunFinished,
    RunReopened,
    RunStopped,
    SetStarted,
    TurnCancelled,
    TurnFailed,
    TurnFinished,
    TurnStarted,
)
from coterie.history.journal.runs import Journal

_ATTEMPT = re.compile(r"(#\d+)\.\d+(?=/)")

_MORE = {"max_turns": " --max-turns N", "max_cost": " --max-cost USD", "max_iterations": " --add-iterations N"}
"""What a stopped run needs to continue, by the reason for its stop."""


class _Failure(Struct):
    """The failure that ended one run.

    Attributes:
        since: The seq of the record that ended it; 0: the run completed, but its parent did not receive the result.
        is_called_off: Whether its parent ended it.
        turns: The turns to continue, each with its current attempt and whether its failure ended the run.
        below: The failures of child runs of these attempts that can be continued, by attempt.
    """

    since: int
    is_called_off: bool = False
    turns: list[tuple[str, int, bool]] = []
    below: "dict[str, _Failure]" = {}

    @property
    def goes_on(self) -> bool:
        """Whether anything in it can be retried."""
        return self.is_called_off or any(self.faults())

    def faults(self, path: str = "") -> Iterator[str]:
        """The innermost turns whose failure ended the run; a turn of a child run has the path to it."""
        for turn, n, is_fault in self.turns:
            attempt = attempt_id(turn, n)
            if attempt in self.below and (found := list(self.below[attempt].faults(f"{path}{attempt}/"))):
                yield from found if is_fault else ()
            elif is_fault:
                yield path + turn

    def retried(self, wanted: Sequence[str], path: str = "") -> tuple[list[str], dict[str, int]]:
        """The turns to retry and the child runs to reopen, if only *wanted* of the turns at fault are retried."""
        turns, below = list[str](), dict[str, int]()
        for turn, n, is_fault in self.turns:
            attempt = attempt_id(turn, n)
            if is_fault and not any(one == path + turn or one.startswith(f"{path}{attempt}/") for one in wanted):
                continue
            if (child := self.below.get(attempt)) is None:
                turns.append(path + turn)
                continue
            below[path + attempt] = child.since
            # a run that its parent cancelled is not at fault; turns in it that failed by themselves are retried with it
            more = child.retried(wanted if is_fault else list(child.faults(f"{path}{attempt}/")), f"{path}{attempt}/")
            turns, below = turns + more[0], below | more[1]
        return turns, below


def retriable(runs: Runs, journals: Sequence[Journal], turn: str = "", by: str = "") -> RunReopened:
    """The record that reopens a failed run, if it can continue with its files.

    Raises:
        RunIsOwned: If a process drives it.
        RetryRefused: As for `reopening`, or if its work was merged.
    """
    run = journals[0].run
    if runs.is_owned(run):
        raise RunIsOwned(run)
    reopened = reopening(journals, SystemClock().now(), turn, by)
    tree = worktree.read(runs.root, run)
    if tree is not None and tree.status == "merged":
        merged = f"its work was merged into {tree.base_branch or tree.origin}, where a retry would begin anew"
        line = f"`coterie fork {run} --at {before_failure(journals)}` begins a new run with the files of that moment"
        raise RetryRefused(run, merged, line)
    return reopened


def reopening(
    journals: Iterable[Journal], now: float, turn: str = "", by: str = "", kinds: MakeKind = kind_of
) -> RunReopened:
    """The record that reopens a failed run.

    Args:
        journals: The journal of the run, then those of its child runs.
        turn: The turn or the set to retry, if several failed the run; by default all of them. A turn of a child run is
            `team#1/coder#2`.
        by: The attempt in whose process this runs; empty: an operator's process.
        kinds: Makes the kind of a plan.

    Raises:
        RetryRefused: If the run has not failed, or not because of *turn*, or nothing in it can be retried.
    """
    known = {journal.run: journal for journal in journals}
    run, journal = next(iter(known.items()))
    last = _end_of(run, journal, kinds)
    failure = _failure(known, run, kinds)
    faults = list(failure.faults()) if failure is not None else []
    if failure is None or not faults:
        line = f"`coterie fork {run} --at {_before(journal, failure)}` begins a new run before that"
        raise RetryRefused(run, f"no failed turn ended it, but this: {last.reason}", line)
    sets = _sets(known.values()) if "@" in turn else {}
    wanted = [one for one in faults if not turn or _plain(turn) in _names(_plain(one), sets)]
    if not wanted:
        line = f"`coterie resume {run} --retry {faults[0]}` retries a turn that failed the run"
        raise RetryRefused(run, _why_not(turn, faults, known), line)
    turns, below = failure.retried(wanted)
    return RunReopened(
        seq=last.seq + 1,
        at=max(now, last.at),
        source="agent" if by else "operator",
        turns=tuple(turns),
        below=below,
        since=failure.since,
        reported=reported(journal.records, below),
        by=by or "operator",
        reason=last.reason,
    )


def before_failure(journals: Iterable[Journal]) -> int | None:
    """The seq of the last record before the turn that failed a run began; None if the run has not failed."""
    known = {journal.run: journal for journal in journals}
    run, journal = next(iter(known.items()))
    last = journal.records[-1] if journal.records else None
    failed = isinstance(last, RunFinished) and last.outcome == "failed"
    return _before(journal, _failure(known, run, kind_of)) if failed else None


def _before(journal: Journal, failure: "_Failure | None") -> int:
    """The seq of the last record before the turns of *failure* began, or else before the end of the run."""
    records, since = journal.records, failure.since if failure is not None else journal.records[-1].seq
    faults = {turn for turn, _, is_fault in failure.turns if is_fault} if failure is not None else set()
    turns = faults or {getattr(records[since - 1], "turn", "")}
    began = [one.seq for one in records if isinstance(one, TurnStarted) and one.turn in turns]
    return min(began, default=since) - 1


def _end_of(run: str, journal: Journal, kinds: MakeKind) -> RunFinished:
    """The end of the failed *run*.

    Raises:
        RetryRefused: If it has not failed, or only a program could continue it.
    """
    last, kind = journal.records[-1], kinds(journal.plan())
    if not isinstance(last, RunFinished):
        state = f"stopped ({last.reason})" if isinstance(last, RunStopped) else "cut off"
        more = _MORE.get(getattr(last, "reason", ""), "")
        raise RetryRefused(run, f"it did not fail, it was {state}", f"`coterie resume {run}{more}` continues it")
    if last.outcome == "completed":
        line = f"`coterie fork {run} --at SEQ` begins a new run at one of its records"
        raise RetryRefused(run, "it has completed", line)
    if kind.decides_elsewhere:
        raise RetryRefused(run, f"its turns are those of {kind.decides_elsewhere}, which has ended", "start that again")
    return last


def _failure(known: Mapping[str, Journal], run: str, kinds: MakeKind) -> _Failure | None:
    """The failure that ended *run*; None if it did not begin or end, or was not ended by its engine."""
    journal = known.get(run)
    last = journal.records[-1] if journal is not None and journal.records else None
    if journal is None or not isinstance(last, RunFinished):
        return None
    if last.outcome == "completed":
        return _Failure(0)
    if (kind := kinds(journal.plan())).decides_elsewhere:
        return None
    fold = Fold(run, kind)
    fold.fold(journal.records)
    ended = [record for record in journal.records if isinstance(record, TurnFailed | TurnCancelled)]
    earlier = max([one.seq for one in journal.records if isinstance(one, RunReopened)], default=0)
    faults = set[str]()
    if last.outcome == "cancelled":
        called_off = [one.seq for one in ended if one.cause is None and one.source == "harness" and one.seq > earlier]
        since = min(called_off, default=last.seq)
    elif fold.ending is not None:
        since = fold.ending[0]
        faults = {one.turn for one in ended if isinstance(one, TurnFailed) or one.seq >= since} & {*fold.at_fault}
        answer = journal.records[since - 1]
        if isinstance(answer, TurnFinished) and answer.turn in fold.at_fault:  # it gave a list that cannot be mapped
            faults.add(answer.turn)
    else:
        return None
    found = _Failure(since, is_called_off=last.outcome == "cancelled")
    over = {(r.turn, r.attempt) for r in journal.records[earlier:] if isinstance(r, AttemptFailed)}
    cancelled = {one.turn for one in ended if isinstance(one, TurnCancelled) and one.seq >= since}
    for name, turn in fold.turns.items():
        if name not in faults and name not in cancelled:
            continue
        found.turns.append((name, turn.attempt, name in faults))
        if name in cancelled and (name, turn.attempt) in over:
            continue  # its next attempt was still to come
        below = _failure(known, child_run_id(run, name, turn.attempt), kinds)
        if below is not None and (below.goes_on if below.since else name not in faults):
            found.below[attempt_id(name, turn.attempt)] = below
    return found


def _plain(path: str) -> str:
    """The *path* of a turn without attempts, and with a trailing slash."""
    return _ATTEMPT.sub(r"\1", f"{path}/")


def _sets(journals: Iterable[Journal]) -> dict[str, str]:
    """The set of each turn that works on an item, both as plain paths."""
    found = dict[str, str]()
    for journal in journals:
        path = _plain(journal.run).partition("/")[2]
        starts = (one for one in journal.records if isinstance(one, TurnStarted) and one.set)
        found |= {f"{path}{one.turn}/": f"{path}{one.set}/" for one in starts}
    return found


def _names(path: str, sets: Mapping[str, str]) -> set[str]:
    """The plain *path* of a turn, those of the turns above it, and those of their *sets*."""
    turns = {path[: end.end()] for end in re.finditer("/", path)}
    return turns | {sets[one] for one in turns if one in sets}


def _why_not(turn: str, faults: Sequence[str], known: Mapping[str, Journal]) -> str:
    """Why *turn*, which is not among *faults*, is not retried."""
    states: dict[str, str] = {}
    for journal in known.values():
        path = _plain(journal.run).partition("/")[2]
        for record in journal.records:
            name = path + (getattr(record, "turn", "") or getattr(record, "set", "")) + "/"
            match record:
                case TurnStarted() | SetStarted():
                    states[name] = "did not fail"
                case TurnFailed():
                    states[name] = "failed, but that did not end the run"
                case TurnCancelled():
                    states[name] = "was cancelled: it is retried together with what failed the run"
    if (state := states.get(_plain(turn))) is not None:
        return f"{turn} {state}"
    hint = did_you_mean(turn, [one.rstrip("/") for one in states])
    return f"it has no turn {turn!r}" + (f"; {hint}" if hint else "")
