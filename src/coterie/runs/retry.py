"""What `resume --retry` does with a failed run: the turns that are retried, or why none can be."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from coterie.clock import SystemClock
from coterie.diagnostics import did_you_mean
from coterie.errors import RetryRefused, RunIsOwned
from coterie.ids import attempt_id, child_run_id
from coterie.journal.records import (
    AttemptFailed,
    RunFinished,
    RunReopened,
    RunStopped,
    TurnCancelled,
    TurnFailed,
    TurnStarted,
)
from coterie.journal.runs import Journal
from coterie.kernel.fold import Fold
from coterie.kernel.kind import MakeKind
from coterie.kernel.reopening import reported
from coterie.kinds import kind_of
from coterie.runs.repository import Runs
from coterie.workspace.trees import worktree

_ATTEMPT = re.compile(r"(#\d+)\.\d+(?=/)")

_MORE = {"max_turns": " --max-turns N", "max_cost": " --max-cost USD", "max_iterations": " --add-iterations N"}
"""What a stopped run needs to continue, by the reason of its stop."""


@dataclass
class _Failure:
    """What ended one run.

    Attributes:
        since: The record that did; 0: the run completed, and its parent did not hear of it.
        is_called_off: Whether its parent did.
        turns: The turns that are to go on, each with its current attempt and whether its failure ended the run.
        below: The child runs that such attempts are, by attempt, if they can go on.
    """

    since: int
    is_called_off: bool = False
    turns: list[tuple[str, int, bool]] = field(default_factory=list)
    below: "dict[str, _Failure]" = field(default_factory=dict)

    @property
    def goes_on(self) -> bool:
        """Whether there is something to retry in it."""
        return self.is_called_off or any(self.faults())

    def faults(self, path: str = "") -> Iterator[str]:
        """The turns whose failure ended the run, the deepest; one of a child run has the path to it."""
        for turn, n, is_fault in self.turns:
            attempt = attempt_id(turn, n)
            if attempt in self.below and (found := list(self.below[attempt].faults(f"{path}{attempt}/"))):
                yield from found if is_fault else ()
            elif is_fault:
                yield path + turn

    def retried(self, wanted: Sequence[str], path: str = "") -> tuple[list[str], dict[str, int]]:
        """The turns to retry, and the child runs to reopen, if of those at fault only *wanted* are."""
        turns, below = list[str](), dict[str, int]()
        for turn, n, is_fault in self.turns:
            attempt = attempt_id(turn, n)
            if is_fault and not any(one == path + turn or one.startswith(f"{path}{attempt}/") for one in wanted):
                continue
            if (child := self.below.get(attempt)) is None:
                turns.append(path + turn)
                continue
            below[path + attempt] = child.since
            # what its parent cancelled has no fault, and what had failed there by itself is retried with it
            more = child.retried(wanted if is_fault else list(child.faults(f"{path}{attempt}/")), f"{path}{attempt}/")
            turns, below = turns + more[0], below | more[1]
        return turns, below


def retriable(runs: Runs, journals: Sequence[Journal], turn: str = "", by: str = "") -> RunReopened:
    """The record by which a failed run is reopened, which can go on where it left its work.

    Raises:
        RunIsOwned: If a process drives it.
        RetryRefused: As `reopening`, or if its work was merged.
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
    """The record by which a failed run is reopened.

    Args:
        journals: Its own, then those of its child runs.
        turn: The turn to retry, of several that failed the run; by default all of them. One of a child run is
            `team#1/coder#2`.
        by: The attempt in whose process this is; empty: an operator's.
        kinds: Gives the kind of a plan.

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
    wanted = [one for one in faults if not turn or _plain(one).startswith(_plain(turn))]
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
    """The last record before the turn began that failed a run; None if the run has not failed."""
    known = {journal.run: journal for journal in journals}
    run, journal = next(iter(known.items()))
    last = journal.records[-1] if journal.records else None
    failed = isinstance(last, RunFinished) and last.outcome == "failed"
    return _before(journal, _failure(known, run, kind_of)) if failed else None


def _before(journal: Journal, failure: "_Failure | None") -> int:
    """The last record before the turns began that *failure* is about, or else before the end of the run."""
    records, since = journal.records, failure.since if failure is not None else journal.records[-1].seq
    faults = {turn for turn, _, is_fault in failure.turns if is_fault} if failure is not None else set()
    turns = faults or {getattr(records[since - 1], "turn", "")}
    began = [one.seq for one in records if isinstance(one, TurnStarted) and one.turn in turns]
    return min(began, default=since) - 1


def _end_of(run: str, journal: Journal, kinds: MakeKind) -> RunFinished:
    """The end of the failed *run*.

    Raises:
        RetryRefused: If it has not failed, or only a program could go on with it.
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
    """What ended *run*; None if it did not begin or end, or was not ended by its engine."""
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
    """*path* of a turn without the attempts in it, and with a slash behind it."""
    return _ATTEMPT.sub(r"\1", f"{path}/")


def _why_not(turn: str, faults: Sequence[str], known: Mapping[str, Journal]) -> str:
    """Why *turn*, which is none of *faults*, is not retried."""
    states: dict[str, str] = {}
    for journal in known.values():
        path = _plain(journal.run).partition("/")[2]
        for record in journal.records:
            name = path + getattr(record, "turn", "") + "/"
            match record:
                case TurnStarted():
                    states[name] = "did not fail"
                case TurnFailed():
                    states[name] = "failed, but that did not end the run"
                case TurnCancelled():
                    states[name] = "was cancelled: it is retried together with what failed the run"
    if (state := states.get(_plain(turn))) is not None:
        return f"{turn} {state}"
    hint = did_you_mean(turn, [one.rstrip("/") for one in states])
    return f"it has no turn {turn!r}" + (f"; {hint}" if hint else "")
