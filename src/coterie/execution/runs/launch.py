"""Start and resume runs on disk and drive them until they end or stop, for the command line and for programs."""

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypedDict, TypeVar, Unpack

from msgspec import Struct
from msgspec.structs import replace

from coterie.agents.actors.context import silent_functions
from coterie.agents.backends.needs import absent_programs
from coterie.agents.backends.processes import marks_of
from coterie.agents.workspace.trees import worktree
from coterie.agents.workspace.trees.branches import isolates
from coterie.agents.workspace.trees.confinement import guards_of, strictest_sandbox
from coterie.agents.workspace.trees.git import in_thread
from coterie.agents.workspace.trees.gitignore import hide_state
from coterie.agents.workspace.trees.workspace import GitWorkspace
from coterie.agents.workspace.trees.worktree import WorkTree
from coterie.base.clock import Clock, SystemClock
from coterie.base.waits import waiting
from coterie.errors import Fenced, JournalFailed, RunDeleted, RunIsFinished, UsageError
from coterie.execution.kernel.opening import RootOpening
from coterie.execution.kernel.owner import Approver, Observers, OwnerOptions, RunPorts
from coterie.execution.kernel.plan_secrets import hold, refuse_lost
from coterie.execution.kernel.plan_secrets import read as read_held
from coterie.execution.kernel.run_exit import RunExit
from coterie.execution.kernel.shell import Shell
from coterie.execution.kernel.turns import Turns
from coterie.execution.kinds import Kind, Observe, check_read, check_start, kind_of
from coterie.execution.runs import given_ids, index, run_ids
from coterie.execution.runs.attempt_folders import AttemptFolders
from coterie.execution.runs.authority import check_operator
from coterie.execution.runs.backend_setup import AskHuman, agents_of, ready_turns, unconfined
from coterie.execution.runs.finalizers import LocalFinalizers, notices
from coterie.execution.runs.isolation import isolate
from coterie.execution.runs.messages.inbox import Inbox
from coterie.execution.runs.note_files import NoteFiles
from coterie.execution.runs.notifications import Notifier, own_settings, tree_place
from coterie.execution.runs.outcome import Outcome, outcome_of
from coterie.execution.runs.removal import clear_ended, clear_removed
from coterie.execution.runs.repository import Runs
from coterie.execution.runs.retry import retriable
from coterie.execution.runs.sidecars import Sidecars
from coterie.history.journal.records import ConfigAnswer, ConfigChanged, Record, RunFinished, ThreadStart
from coterie.history.journal.relocation import place_in
from coterie.history.journal.runs import EarlierRecords, Journal, RunRecord
from coterie.team.planning.place import RunPlace
from coterie.team.planning.plan import Limits, Plan

if TYPE_CHECKING:
    from coterie.agents.backends.models.cassette import Cassette

T = TypeVar("T")


class HowToDrive(TypedDict, total=False):
    """Further arguments of `start` and `resume`, which configure this owner.

    Keys:
        limits: The limits of the whole tree. For `resume`, a `max_turns` or `max_cost` of None keeps the earlier limit,
            and -1 lifts it.
        park: Stop with `waiting` when the run waits only for humans and timers; the default.
        quota: What to do when all turns wait for a quota: `park` stops the run until it opens, `wait` waits in this
            process; `now`, for `resume`, is as `park` but tries waiting turns at once.
        observe: Called with the run's id and each record, in order, once it is durable.
        on_quota: Called when a turn begins to wait for its quota, with its run, the turn, and the opening time in Unix
            seconds.
        human: Called to ask a human at a terminal; without it humans answer through the inbox.
        attendant: Answers requests of attempts that need a person; without it the answer comes from the inbox or the
            agent's policy.
        turns: Starts attempts; by default the backends of this process.
        cassette: Replaces the providers of models; by default the cassette that `COTERIE_CASSETTE` names.
        attach: Called with the shell that will drive the run, for programs that run beside it.
    """

    limits: Limits | None
    park: bool
    quota: str
    observe: Observe | None
    on_quota: Callable[[str, str, float], object]
    human: AskHuman | None
    attendant: Approver | None
    turns: Turns | None
    cassette: "Cassette | None"
    attach: Callable[[Shell], object] | None
    clock: Clock | None


async def start(
    plan: Plan,
    given: dict[str, Any],
    *,
    state_dir: Path,
    run_id: str | None = None,
    cwd: Path | None = None,
    snapshots: bool = False,
    place: RunPlace | None = None,
    tell: Callable[[str], object] = lambda notice: None,
    runs: Runs | None = None,
    thread: ThreadStart | None = None,
    **how: Unpack[HowToDrive],
) -> Outcome:
    """Run *plan* once with the input *given*; its journal is kept under *state_dir*.

    Args:
        given: The run's input: `prompt`, and further named values.
        cwd: The agents' working directory; by default the current one. A loop may get a separate work tree instead.
        snapshots: Keep a snapshot of the files at each turn's end, if there is a git work tree.
        place: Whether the run has a separate work tree, where its settings do not say.
        tell: Called with each notice before the run begins.
        runs: The runs of *state_dir*, if another store keeps their journals.
        thread: What it continues; `coterie.execution.runs.threads.follow` finds that.
        how: See `HowToDrive`.

    Raises:
        TopologyError: If no backend is configured for an agent, its model cannot be used, or there is no coordination.
        UsageError: If the name of the topology's folder is not text, a cassette cannot be read, a required work tree is
            not possible, a required input is missing, or the runs in *state_dir* belong to another user.
        GitFailed: If that work tree could not be made.
        JournalFailed: If the journal could not be written.

    Cancelling the task interrupts the run: attempts are ended, and the outcome is `stopped` with the reason
    `interrupted`.
    """
    check_start(plan, given)
    index.check_readable(state_dir)
    kind, runs = kind_of(plan), runs or Runs(state_dir)
    owner = await _Owner.of(plan, how)
    check_read(plan, given)  # of functions that have been imported since
    _check_name(plan.folder)
    run = run_id or run_ids.choose_id(plan, state_dir)
    with given_ids.claimed(runs.folder(run)):
        cwd = (cwd or Path.cwd()).resolve()
        plan = _held(run, plan, runs)
        tree, said = None, list[str]()
        own = own_settings(plan, cwd, os.environ)
        about, place = (
            tree_place(plan, own, place),
            kind.project.place or (place if place is not None and place.worktree else None),
        )
        with waiting("git to look at the working directory"):
            if place is not None:
                tree = await in_thread(isolate, run, cwd, state_dir, about, said.append)
            if tree is None and isolates(plan):
                await in_thread(worktree.needed, cwd, "isolation: worktree")
        for line in said:
            tell(line)
        started_in, cwd = cwd, Path(tree.cwd) if tree is not None else cwd
        with suppress(OSError):  # if nothing can be written, the journal reports it
            hide_state(state_dir, place, cwd)
        folder, now = str(runs.folder(run).resolve()), owner.clock.now()
        kind_word = plan.coordination.tag if plan.coordination is not None else ""
        entry = index.Entry(
            run=run, folder=folder, topology=plan.name, started=now, cwd=str(started_in), kind=kind_word
        )
        index.add(entry)
        if tree is not None:
            tree = replace(tree, guards=guards_of(plan, tree), sandbox=strictest_sandbox(plan))
            worktree.write(state_dir, tree)  # before its files: a kill from here on leaves a tree that is known
        marks, where = marks_of() or (), place_in(started_in, state_dir)
        opening = RootOpening(warnings=owner.warnings, begun_by=marks, place=where, thread=thread)
        for line in own.problems:
            tell(line)
        files = _RunFiles(runs, run, cwd, tree, snapshots, Notifier(runs, run, plan, own), about)
        try:
            return await owner.drive(
                files,
                kind,
                Journal(runs, run, ()),
                opening,
                lambda shell, opening: shell.start(run, plan, given, opening),
            )
        except JournalFailed as error:
            if isinstance(error, Fenced | RunDeleted) or runs.has_begun(run):
                raise
            raise JournalFailed(run, error.reason, began=False) from None


async def resume(
    run: str,
    *,
    state_dir: Path,
    reload: Plan | None = None,
    retry: str | None = None,
    recall: Callable[[Iterable[RunRecord]], object] | None = None,
    runs: Runs | None = None,
    **how: Unpack[HowToDrive],
) -> Outcome:
    """Continue *run* from its journal, under the recorded plan or *reload*.

    Processes that an earlier owner left are ended first; interrupted attempts are retried, and their prompts say so.

    Args:
        retry: Reopen the failed run and retry this turn of those that failed it; empty: all of them.
        recall: Called once with the records of earlier owners, including those of child runs, before any is observed.
        runs: The runs of *state_dir*, if the caller has read this run with `is_claimed_next`, or if another store keeps
            their journals.
        how: See `HowToDrive`.

    Raises:
        NoSuchRun, RunIsOwned, RunIsFinished, JournalUnreadable: If it cannot be taken over.
        RetryRefused: If nothing in it can be retried.
        NotTheOperator: If this process belongs to an attempt that did not begin the run.
        ReplayMismatch: If the plan or the present engine disagrees with the journal.
        TopologyError: If *reload* has no backend for an agent, or its model cannot be used.
        UsageError: If the folder in which it was started is gone, since every turn would fail; or if a program decides
            in it, since only that program can continue it.
    """
    runs = runs or Runs(state_dir)
    marks = check_operator(runs, run)
    tree = runs.tree(run, is_claimed_next=True)
    with waiting(f"the journal of {run} to be read"):
        journal = next(tree)
    first, tree_of, reopened = journal.started, worktree.read(state_dir, run), None
    if retry is not None:
        journals = [journal, *tree]
        reopened, tree = retriable(runs, journals, retry, marks[0] if marks else ""), iter(journals[1:])
    elif isinstance(last := journal.records[-1], RunFinished):
        clear_ended(runs, run)
        raise RunIsFinished(run, last.outcome)
    recorded = journal.plan()
    plan = _held(run, reload, runs) if reload is not None else recorded
    refuse_lost(plan, runs.folder(run))
    if how.get("turns") is None:
        kind_of(plan).check_resume(run)
    owner = await _Owner.of(plan, how)
    moved = journal.relocation
    cwd = Path(moved.path(first.cwd)) if first.cwd else Path.cwd()
    if not cwd.is_dir() and (tree_of is None or tree_of.status == "running"):
        raise UsageError(f"run {run!r} works in {cwd}, and there is no such folder: bring it back, then resume")
    kind = kind_of(recorded)
    with suppress(OSError):
        hide_state(state_dir, kind.project.place, cwd)
    opening = RootOpening(warnings=owner.warnings, relocation=moved, is_reloaded=reload is not None, reopened=reopened)
    if moved.before:
        opening = _moved(opening, runs, journal)

    def begin(shell: Shell, opening: RootOpening) -> Coroutine[Any, Any, RunExit]:
        nonlocal journal, tree
        if recall is not None:
            recall((one.run, record) for one in chain((journal,), tree) for record in one.records)
        del journal, tree  # the records are only needed until they are folded
        return shell.resume(run, plan, opening)

    started_in = Path(moved.project or (tree_of.origin if tree_of is not None else cwd))
    own = own_settings(plan, started_in, os.environ)
    notifier = Notifier(runs, run, plan, own)
    notifier.recall()
    files = _RunFiles(runs, run, cwd, tree_of, first.snapshots, notifier, tree_place(plan, own))
    return await owner.drive(files, kind, journal, opening, begin)


def _moved(opening: RootOpening, runs: Runs, journal: Journal) -> RootOpening:
    """Continue a run whose project was moved or copied in the new place, without touching the earlier one."""
    run, first, moved = journal.run, journal.started, journal.relocation
    folder = runs.folder(run).resolve()
    is_copied = Path(moved.before, first.home, "runs", folder.name, "journal.jsonl").exists()
    how = "copied" if is_copied else "moved"
    notice = f"the project was {how} from {moved.before}; the run goes on in {moved.project}"
    entry = index.Entry(
        run=run, folder=str(folder), topology=first.topology, started=index.started(first), cwd=moved.project
    )
    index.add(entry)
    return replace(opening, is_copied=is_copied, warnings=(*opening.warnings, notice))


def _writers(kind: Kind, runs: Runs, journal: Journal) -> list[Observe]:
    """The writers of files that *kind* has, as one observer of durable records.

    Args:
        journal: The records of earlier owners, which these writers catch up with.
    """
    earlier = EarlierRecords(journal)
    observers = kind.project.observers(earlier, journal.run, AttemptFolders(runs))
    if not observers:
        return []
    is_first = True

    def each(which: str, record: Record) -> None:
        nonlocal is_first
        catch_up = is_first and which == earlier.run
        if catch_up and not earlier.continues_with(record):
            earlier.forget()
        for observer in observers:
            observer(which, record)
        if catch_up:
            is_first = False
            earlier.forget()

    return [each]


def _check_name(folder: str) -> None:
    try:
        folder.encode()
    except UnicodeEncodeError:
        raise UsageError(f"the name of the folder {folder!r} is not UTF-8 text: rename it, then run") from None


class _RunFiles(Struct, frozen=True):
    """A run whose files lie on disk: where it works, in a separate *tree* or not, and whether that is kept.

    *place* says what new work trees of its turns are like.
    """

    runs: Runs
    run: str
    cwd: Path
    tree: WorkTree | None
    snapshots: bool
    notifier: Notifier
    place: RunPlace

    def ports(self, kind: Kind, turns: Turns, clock: Clock) -> RunPorts:
        """The stores and services of the run, which is of *kind*."""
        runs, run = self.runs, self.run
        with suppress(OSError):
            clear_removed(runs.root)
        folder = runs.folder(run)
        held = read_held(folder)
        read = kind.project.reading(run, lambda found: hold(found, folder), lambda: runs.history(run))

        async def read_again(child: str, plan: Plan) -> ConfigAnswer:
            nonlocal held
            answer = read(child, plan)
            if isinstance(answer, ConfigChanged):
                held = read_held(folder)
            return answer

        return RunPorts(
            store=runs.local,
            turns=turns,
            clock=clock,
            make_kind=kind_of,
            reload=read_again,
            files=AttemptFolders(runs),
            notes=NoteFiles(runs),
            workspace=GitWorkspace(
                runs.root,
                run,
                self.cwd,
                runs.status,
                tree=self.tree,
                saves=self.snapshots,
                begin=turns.start,
                place=self.place,
            ),
            finalizers=LocalFinalizers(
                runs.root, run, self.cwd, has_tree=self.tree is not None, channels=self.notifier.own.channels
            ),
            held=lambda: held,
            environment=os.environ,
            cwd=self.cwd,
        )


def _held(run: str, plan: Plan, runs: Runs) -> Plan:
    try:
        return hold(plan, runs.folder(run))
    except OSError as error:
        raise JournalFailed(run, f"{runs.folder(run)}: {error.strerror or error}", began=False) from error


class _Owner(Struct, frozen=True):
    """This process as the owner of a run: what its caller said, and what it found out before the run."""

    turns: Turns
    clock: Clock
    warnings: tuple[str, ...]
    how: HowToDrive

    @classmethod
    async def of(cls, plan: Plan, how: HowToDrive) -> Self:
        """The owner of a run of *plan*, with the backends of this process unless *how* names others."""
        turns, warnings = how.get("turns"), tuple[str, ...]()
        if turns is None:
            turns = ready_turns(plan, how.get("human"), how.get("cassette"))
            warnings = (*await unconfined(plan), *absent_programs(agents_of(plan)))
        return cls(turns, how.get("clock") or SystemClock(), warnings, how)

    async def drive(
        self,
        files: _RunFiles,
        kind: Kind,
        journal: Journal,
        opening: RootOpening,
        begin: Callable[[Shell, RootOpening], Coroutine[Any, Any, RunExit]],
    ) -> Outcome:
        """Drive the run of *files* until it ends or stops.

        Args:
            kind: The kind of the plan with which the run began; *journal* has the records of earlier owners.
            begin: Begins the run in a shell, or resumes it.
        """
        how, runs, run = self.how, files.runs, files.run
        notifier, on_quota = files.notifier, how.get("on_quota")

        def waits(which: str, turn: str, due: float) -> None:
            notifier.waits(which, turn, due)
            if on_quota is not None:
                on_quota(which, turn, due)

        observers = Observers(on_quota=waits, approver=how.get("attendant"))
        sidecars = Sidecars(self.clock, self.turns, observers)
        observers.observe.extend([*_writers(kind, runs, journal), *filter(None, [how.get("observe")])])
        notifier.attach(observers)
        options = OwnerOptions(
            limits=how.get("limits") or Limits(),
            park=how.get("park", True),
            quota=how.get("quota", "park"),
            allow=notifier.own.allow,
        )
        shell = Shell(files.ports(kind, self.turns, self.clock), options, observers)
        sidecars.attach(shell)
        if (attach := how.get("attach")) is not None:
            attach(shell)
        inbox = Inbox(runs.folder(run), shell, self.clock.now)
        main = begin(shell, replace(opening, take_waiting=inbox.take_waiting))
        try:
            ended = await _driven(shell, main, inbox, sidecars, run)
        finally:
            notifier.close()
        if ended.status != "stopped":
            await in_thread(clear_ended, runs, run)
        own = [one for name, live in shell.runs.items() if name == run for one in live.kind.notices()]
        told = (*notices(runs.root, run, shell.steps, files.cwd), *silent_functions(run), *own)
        return replace(outcome_of(ended), notices=told)


async def until_stopped(running: Coroutine[Any, Any, T]) -> T:
    """The result of *running*, which drives a run; cancelling this interrupts the run and returns once it has stopped.

    Only the first cancellation counts: a scope of anyio cancels its task in each turn of the event loop.
    """
    task = asyncio.ensure_future(running)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            if cancelled is None:
                cancelled = error
                task.cancel(*error.args)
    if cancelled is not None and (task.cancelled() or task.exception() is None):
        raise cancelled
    return task.result()


async def _driven(
    shell: Shell, main: Coroutine[Any, Any, RunExit], inbox: Inbox, sidecars: Sidecars, run: str
) -> RunExit:
    """Await *main*, which drives *run*, while its inbox is open; cancelling stops the run."""

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
    except asyncio.CancelledError as error:
        if task.cancelled():
            raise
        if not sidecars.stop(run):
            task.cancel(*error.args)  # who cancels it, see `RunStopped.by`
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
        await sidecars.close()
        await inbox.close()
    return ended
