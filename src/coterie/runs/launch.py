"""Start and resume runs on disk, and drive them until their owner lets go: what the command line and programs call."""

import asyncio
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from coterie.backends.processes import marks_of
from coterie.clock import Clock, SystemClock
from coterie.errors import Fenced, JournalFailed, RunDeleted, RunIsFinished, UsageError
from coterie.journal.records import ConfigAnswer, ConfigChanged, Record, RunFinished
from coterie.journal.relocation import place_in
from coterie.journal.runs import EarlierRecords, Journal, RunRecord
from coterie.kernel.attendance import Attendant
from coterie.kernel.plan_secrets import hold, refuse_lost
from coterie.kernel.plan_secrets import read as read_held
from coterie.kernel.run_tree import RunTree
from coterie.kernel.shell import Shell
from coterie.kernel.turns import Turns
from coterie.kinds import Kind, LastReading, Observe, check_start, kind_of, trust_of
from coterie.planning.plan import Limits, Plan
from coterie.runs import index, run_ids
from coterie.runs.attempt_folders import AttemptFolders
from coterie.runs.authority import check_operator
from coterie.runs.backend_setup import AskHuman, absent_programs, ready_turns, unconfined
from coterie.runs.closing_steps import LocalClosingSteps, notices
from coterie.runs.companions import Companions
from coterie.runs.isolation import isolate
from coterie.runs.messages.inbox import Inbox
from coterie.runs.note_files import NoteFiles
from coterie.runs.outcome import Outcome, outcome_of
from coterie.runs.removal import clear_removed
from coterie.runs.repository import Runs
from coterie.waits import waiting
from coterie.workspace.trees import worktree
from coterie.workspace.trees.git import in_thread
from coterie.workspace.trees.gitignore import hide_state
from coterie.workspace.trees.workspace import GitWorkspace
from coterie.workspace.trees.worktree import WorkTree

if TYPE_CHECKING:
    from coterie.backends.models.cassette import Cassette


async def start(
    plan: Plan,
    given: dict[str, Any],
    *,
    state_dir: Path,
    limits: Limits | None = None,
    park: bool = True,
    quota: str = "park",
    observe: Observe | None = None,
    human: AskHuman | None = None,
    attendant: Attendant | None = None,
    run_id: str | None = None,
    turns: Turns | None = None,
    cassette: "Cassette | None" = None,
    cwd: Path | None = None,
    snapshots: bool = False,
    tell: Callable[[str], object] = str,
    attach: Callable[[Shell], object] | None = None,
    clock: Clock | None = None,
) -> Outcome:
    """Run *plan* once, asked *given*, with its journal under *state_dir*.

    Args:
        given: The run's input: `prompt`, and further named values.
        park: Stop with `waiting` when nothing runs but humans and timers.
        quota: When only a quota that opens later lets the run go on: `park` stops it until then, `wait` waits here.
        observe: Called with the run's id and each record, in order, once it is durable.
        human: Asks a human at a terminal; without it humans answer through the inbox.
        attendant: Answers what attempts need a person for; without it, the inbox or the policy of the agent does.
        turns: Who starts attempts; by default the backends of this process.
        cassette: Answers for the providers of models; by default the one that `COTERIE_CASSETTE` names.
        cwd: The agents' working directory; by default the current one. A loop may get a separate work tree instead.
        snapshots: Keep a snapshot of the files at each turn's end, if there is a git work tree.
        tell: Called with each notice before the run begins.
        attach: Called with the shell that will drive the run, for programs that run beside it.

    Raises:
        TopologyError: If no backend is configured for an agent, its model cannot be used, or there is no coordination.
        UsageError: If the name of the topology's folder cannot be written down, or a cassette not be read, or it
            must have a separate work tree and cannot, or a required input is missing.
        GitFailed: If that work tree could not be made.
        JournalFailed: If the journal could not be written.

    Cancelling the task interrupts the run: attempts are ended, the outcome is `stopped`, `interrupted`.
    """
    check_start(plan, given)
    kind = kind_of(plan)
    warnings: tuple[str, ...] = ()
    if turns is None:
        turns = ready_turns(plan, human, cassette)
        warnings = (*await unconfined(plan), *absent_programs(plan))
    _check_name(plan.folder)
    run, clock = run_id or run_ids.choose_id(plan, state_dir), clock or SystemClock()
    companions = Companions(clock, turns, observe)
    cwd = (cwd or Path.cwd()).resolve()
    runs = Runs(state_dir)
    plan = _held(run, plan, runs)
    tree, said = None, list[str]()
    if kind.place is not None:
        with waiting("git to look at the working directory"):
            tree = await in_thread(isolate, run, cwd, state_dir, kind.place, said.append)
    for line in said:
        tell(line)
    started_in, cwd = cwd, Path(tree.cwd) if tree is not None else cwd
    with suppress(OSError):  # where nothing can be written, the journal says so
        hide_state(state_dir, kind.place, cwd)
    folder = str(runs.folder(run).resolve())
    index.add(index.Entry(run=run, folder=folder, topology=plan.name, started=clock.now(), cwd=str(started_in)))
    if tree is not None:
        worktree.write(state_dir, tree)  # before its files: a kill from here on leaves a tree that is known
    observe = _observers(kind, runs, Journal(runs, run, ()), companions.observe)
    shell = _shell(run, runs, turns, clock, limits, park, quota, observe, attendant, cwd, tree, snapshots)
    shell.tree.warnings, shell.tree.begun_by = warnings, marks_of() or ()
    shell.tree.place = place_in(started_in, state_dir)
    companions.attach(shell)
    if attach is not None:
        attach(shell)
    try:
        return await _drive(shell, runs, run, shell.start(run, plan, given), clock, companions)
    except JournalFailed as error:
        if isinstance(error, Fenced | RunDeleted) or runs.has_begun(run):
            raise
        raise JournalFailed(run, error.reason, began=False) from None


async def resume(
    run: str,
    *,
    state_dir: Path,
    limits: Limits | None = None,
    park: bool = True,
    quota: str = "park",
    observe: Observe | None = None,
    human: AskHuman | None = None,
    attendant: Attendant | None = None,
    reload: Plan | None = None,
    turns: Turns | None = None,
    cassette: "Cassette | None" = None,
    attach: Callable[[Shell], object] | None = None,
    clock: Clock | None = None,
    recall: Callable[[Iterable[RunRecord]], object] | None = None,
    runs: Runs | None = None,
) -> Outcome:
    """Continue *run* from its journal, under the recorded plan or *reload*.

    Processes that an earlier owner left are ended first; attempts that were cut off are retried,
    and their prompts say so.

    Args:
        limits: `max_turns` and `max_cost` are as before where they are None, and -1 lifts one.
        quota: As for `start`; `now` also tries at once what waits for a quota.
        recall: Called once with the records of earlier owners, those of child runs included, before *observe*.
        runs: The runs of *state_dir*, if their caller has read this one with `is_claimed_next`.

    Raises:
        NoSuchRun, RunIsOwned, RunIsFinished, JournalUnreadable: If it cannot be taken over.
        NotTheOperator: If this process belongs to an attempt that did not begin the run.
        ReplayMismatch: If the plan or today's engine decides otherwise than the journal says.
        TopologyError: If *reload* has no backend for an agent, or its model cannot be used.
        UsageError: If the folder it was started in is gone: every turn would fail for good; or if a program decides
            in it, which only that program can carry on.
    """
    runs, clock = runs or Runs(state_dir), clock or SystemClock()
    check_operator(runs, run)
    tree = runs.tree(run, is_claimed_next=True)
    with waiting(f"the journal of {run} to be read"):
        journal = next(tree)
    first = journal.started
    if isinstance(last := journal.records[-1], RunFinished):
        raise RunIsFinished(run, last.outcome)
    recorded = journal.plan()
    plan = _held(run, reload, runs) if reload is not None else recorded
    refuse_lost(plan, runs.folder(run))
    warnings: tuple[str, ...] = ()
    if turns is None:
        kind_of(plan).check_resume(run)
        turns = ready_turns(plan, human, cassette)
        warnings = (*await unconfined(plan), *absent_programs(plan))
    moved = journal.relocation
    cwd, own = Path(moved.path(first.cwd)) if first.cwd else Path.cwd(), worktree.read(state_dir, run)
    if not cwd.is_dir() and (own is None or own.status == "running"):
        raise UsageError(f"run {run!r} works in {cwd}, and there is no such folder: bring it back, then resume")
    kind = kind_of(recorded)
    with suppress(OSError):
        hide_state(state_dir, kind.place, cwd)
    companions = Companions(clock, turns, observe)
    observe = _observers(kind, runs, journal, companions.observe)
    shell = _shell(run, runs, turns, clock, limits, park, quota, observe, attendant, cwd, own, first.snapshots)
    shell.tree.warnings, shell.tree.relocation = warnings, moved
    if moved.before:
        _take_to(shell.tree, runs, journal)
    companions.attach(shell)
    if attach is not None:
        attach(shell)
    if recall is not None:
        recall((one.run, record) for one in chain((journal,), tree) for record in one.records)
    del journal, tree  # the records are only needed until they are folded
    main = shell.resume(run, plan, reloaded=reload is not None)
    return await _drive(shell, runs, run, main, clock, companions)


def _take_to(tree: RunTree, runs: Runs, journal: Journal) -> None:
    """Let a run whose project was moved or copied go on where that is now, and leave the earlier place alone."""
    run, first, moved = journal.run, journal.started, journal.relocation
    folder = runs.folder(run).resolve()
    tree.is_copied = Path(moved.before, first.home, "runs", folder.name, "journal.jsonl").exists()
    how = "copied" if tree.is_copied else "moved"
    tree.warnings += (f"the project was {how} from {moved.before}; the run goes on in {moved.project}",)
    entry = index.Entry(run=run, folder=str(folder), topology=first.topology, started=first.at, cwd=moved.project)
    index.add(entry)


def _observers(kind: Kind, runs: Runs, journal: Journal, observe: Observe | None) -> Observe | None:
    """What hears of durable records: the writers of files that *kind* has, then *observe*.

    Args:
        journal: What earlier owners wrote, which those writers catch up with.
    """
    earlier = EarlierRecords(journal)
    hearing = kind.observers(earlier, journal.run, AttemptFolders(runs))
    if not hearing:
        return observe

    is_first = True

    def each(which: str, record: Record) -> None:
        nonlocal is_first
        catch_up = is_first and which == earlier.run
        if catch_up and not earlier.continues_with(record):
            earlier.forget()
        for hear in hearing:
            hear(which, record)
        if catch_up:
            is_first = False
            earlier.forget()
        if observe is not None:
            observe(which, record)

    return each


def _check_name(folder: str) -> None:
    try:
        folder.encode()
    except UnicodeEncodeError:
        raise UsageError(f"the name of the folder {folder!r} is not UTF-8 text: rename it, then run") from None


def _shell(
    run: str,
    runs: Runs,
    turns: Turns,
    clock: Clock,
    limits: Limits | None,
    park: bool,
    quota: str,
    observe: Observe | None,
    attendant: Attendant | None,
    cwd: Path,
    tree: WorkTree | None,
    snapshots: bool,
) -> Shell:
    """A shell for a run whose files lie on disk."""
    with suppress(OSError):
        clear_removed(runs.root)
    last = LastReading()
    held = read_held(runs.folder(run))

    async def read_again(child: str, plan: Plan) -> ConfigAnswer:
        nonlocal held
        answer = kind_of(plan).reread(
            child, plan, lambda found: hold(found, runs.folder(run)), last, lambda: trust_of(run, runs.history(run))
        )
        if isinstance(answer, ConfigChanged):
            held = read_held(runs.folder(run))
        return answer

    return Shell(
        store=runs.local,
        turns=turns,
        clock=clock,
        make_kind=kind_of,
        limits=limits,
        park=park,
        quota=quota,
        observe=observe,
        reload=read_again,
        files=AttemptFolders(runs),
        notes=NoteFiles(runs),
        workspace=GitWorkspace(runs.root, cwd, runs.folder, runs.status, tree=tree, saves=snapshots),
        closing=LocalClosingSteps(runs.root, run, cwd, has_tree=tree is not None),
        held=lambda: held,
        environment=os.environ,
        cwd=cwd,
        attendant=attendant,
    )


def _held(run: str, plan: Plan, runs: Runs) -> Plan:
    try:
        return hold(plan, runs.folder(run))
    except OSError as error:
        raise JournalFailed(run, f"{runs.folder(run)}: {error.strerror or error}", began=False) from error


async def _drive(
    shell: Shell,
    runs: Runs,
    run: str,
    main: Any,
    clock: Clock,
    companions: Companions,
) -> Outcome:
    inbox = Inbox(runs.folder(run), shell, clock.now)

    async def serve() -> None:
        await shell.opened.wait()
        try:
            await inbox.open()
        finally:
            shell.arrived()

    shell.expect()
    task = asyncio.ensure_future(main)
    opening = asyncio.ensure_future(serve())
    try:
        ended = await asyncio.shield(task)
    except asyncio.CancelledError:
        if task.cancelled():
            raise
        if not companions.stop(run):
            task.cancel()
        try:
            with waiting("the running attempts to end"):
                ended = await task
        except asyncio.CancelledError:
            if not shell.runs:
                raise  # it never began
            ended = shell.ended(next(iter(shell.runs.values())))
        current = asyncio.current_task()
        if current is not None:
            current.uncancel()
    finally:
        opening.cancel()
        await companions.close()
        await inbox.close()
    return replace(outcome_of(ended), notices=tuple(notices(runs.root, run, shell.steps)))
