"""Start and resume runs on disk, and drive them until their owner lets go: what the command line and programs call."""

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypedDict, TypeVar, Unpack

from msgspec.structs import replace

from coterie.backends.processes import marks_of
from coterie.clock import Clock, SystemClock
from coterie.errors import Fenced, JournalFailed, RunDeleted, RunIsFinished, UsageError
from coterie.journal.records import ConfigAnswer, ConfigChanged, Record, RunFinished
from coterie.journal.relocation import place_in
from coterie.journal.runs import EarlierRecords, Journal, RunRecord
from coterie.kernel.opening import RootOpening
from coterie.kernel.owner import Approver, Observers, OwnerOptions, RunPorts
from coterie.kernel.plan_secrets import hold, refuse_lost
from coterie.kernel.plan_secrets import read as read_held
from coterie.kernel.run_exit import RunExit
from coterie.kernel.shell import Shell
from coterie.kernel.turns import Turns
from coterie.kinds import Kind, LastReading, Observe, check_start, kind_of, trust_of
from coterie.planning.plan import Limits, Plan
from coterie.runs import index, run_ids
from coterie.runs.attempt_folders import AttemptFolders
from coterie.runs.authority import check_operator
from coterie.runs.backend_setup import AskHuman, absent_programs, ready_turns, unconfined
from coterie.runs.finalizers import LocalFinalizers, notices
from coterie.runs.isolation import isolate
from coterie.runs.messages.inbox import Inbox
from coterie.runs.note_files import NoteFiles
from coterie.runs.notifications import Notifier, own_settings
from coterie.runs.outcome import Outcome, outcome_of
from coterie.runs.removal import clear_removed
from coterie.runs.repository import Runs
from coterie.runs.retry import retriable
from coterie.runs.sidecars import Sidecars
from coterie.values import dataclass
from coterie.waits import waiting
from coterie.workspace.trees import worktree
from coterie.workspace.trees.git import in_thread
from coterie.workspace.trees.gitignore import hide_state
from coterie.workspace.trees.workspace import GitWorkspace
from coterie.workspace.trees.worktree import WorkTree

if TYPE_CHECKING:
    from coterie.backends.models.cassette import Cassette

T = TypeVar("T")


class HowToDrive(TypedDict, total=False):
    """What a caller of `start` and `resume` says of this owner.

    Keys:
        limits: What the owner allows the whole tree. For `resume`, `max_turns` and `max_cost` are as before where they
            are None, and -1 lifts one.
        park: Stop with `waiting` when nothing runs but humans and timers; by default so.
        quota: When only a quota that opens later lets the run go on: `park` stops it until then, `wait` waits here;
            `now`, for `resume`, also tries at once what waits for a quota.
        observe: Called with the run's id and each record, in order, once it is durable.
        on_quota: Called when a turn begins to wait here for its quota, with its run, itself, and Unix seconds.
        human: Asks a human at a terminal; without it humans answer through the inbox.
        attendant: Answers what attempts need a person for; without it, the inbox or the policy of the agent does.
        turns: Who starts attempts; by default the backends of this process.
        cassette: Answers for the providers of models; by default the one that `COTERIE_CASSETTE` names.
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
    tell: Callable[[str], object] = str,
    runs: Runs | None = None,
    **how: Unpack[HowToDrive],
) -> Outcome:
    """Run *plan* once, asked *given*, with its journal under *state_dir*.

    Args:
        given: The run's input: `prompt`, and further named values.
        cwd: The agents' working directory; by default the current one. A loop may get a separate work tree instead.
        snapshots: Keep a snapshot of the files at each turn's end, if there is a git work tree.
        tell: Called with each notice before the run begins.
        runs: The runs of *state_dir*, if their journals are kept by another store.
        how: See `HowToDrive`.

    Raises:
        TopologyError: If no backend is configured for an agent, its model cannot be used, or there is no coordination.
        UsageError: If the name of the topology's folder cannot be written down, or a cassette not be read, or it
            must have a separate work tree and cannot, or a required input is missing, or the runs in *state_dir* are
            those of another user.
        GitFailed: If that work tree could not be made.
        JournalFailed: If the journal could not be written.

    Cancelling the task interrupts the run: attempts are ended, the outcome is `stopped`, `interrupted`.
    """
    check_start(plan, given)
    index.check_readable(state_dir)
    kind, runs = kind_of(plan), runs or Runs(state_dir)
    owner = await _Owner.of(plan, how)
    _check_name(plan.folder)
    run = run_id or run_ids.choose_id(plan, state_dir)
    cwd = (cwd or Path.cwd()).resolve()
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
    folder, now = str(runs.folder(run).resolve()), owner.clock.now()
    index.add(index.Entry(run=run, folder=folder, topology=plan.name, started=now, cwd=str(started_in)))
    if tree is not None:
        worktree.write(state_dir, tree)  # before its files: a kill from here on leaves a tree that is known
    opening = RootOpening(warnings=owner.warnings, begun_by=marks_of() or (), place=place_in(started_in, state_dir))
    own = own_settings(plan, started_in, os.environ)
    for line in own.problems:
        tell(line)
    files = _RunFiles(runs, run, cwd, tree, snapshots, Notifier(runs, run, plan, own))
    try:
        return await owner.drive(
            files, kind, Journal(runs, run, ()), opening, lambda shell, opening: shell.start(run, plan, given, opening)
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

    Processes that an earlier owner left are ended first; attempts that were cut off are retried,
    and their prompts say so.

    Args:
        retry: Reopen the run, which has failed, and retry this turn of those that failed it; empty: all of them.
        recall: Called once with the records of earlier owners, those of child runs included, before any is observed.
        runs: The runs of *state_dir*, if their caller has read this one with `is_claimed_next`, or if their journals
            are kept by another store.
        how: See `HowToDrive`.

    Raises:
        NoSuchRun, RunIsOwned, RunIsFinished, JournalUnreadable: If it cannot be taken over.
        RetryRefused: If nothing in it is to be retried.
        NotTheOperator: If this process belongs to an attempt that did not begin the run.
        ReplayMismatch: If the plan or today's engine decides otherwise than the journal says.
        TopologyError: If *reload* has no backend for an agent, or its model cannot be used.
        UsageError: If the folder it was started in is gone: every turn would fail for good; or if a program decides
            in it, which only that program can carry on.
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
        hide_state(state_dir, kind.place, cwd)
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
    notifier = Notifier(runs, run, plan, own_settings(plan, started_in, os.environ))
    notifier.recall()
    files = _RunFiles(runs, run, cwd, tree_of, first.snapshots, notifier)
    return await owner.drive(files, kind, journal, opening, begin)


def _moved(opening: RootOpening, runs: Runs, journal: Journal) -> RootOpening:
    """Let a run whose project was moved or copied go on where that is now, and leave the earlier place alone."""
    run, first, moved = journal.run, journal.started, journal.relocation
    folder = runs.folder(run).resolve()
    is_copied = Path(moved.before, first.home, "runs", folder.name, "journal.jsonl").exists()
    how = "copied" if is_copied else "moved"
    notice = f"the project was {how} from {moved.before}; the run goes on in {moved.project}"
    entry = index.Entry(run=run, folder=str(folder), topology=first.topology, started=first.at, cwd=moved.project)
    index.add(entry)
    return replace(opening, is_copied=is_copied, warnings=(*opening.warnings, notice))


def _observers(kind: Kind, runs: Runs, journal: Journal, observe: Observe | None) -> Observe | None:
    """What hears of durable records: the writers of files that *kind* has, then *observe*.

    Args:
        journal: What earlier owners wrote, which those writers catch up with.
    """
    earlier = EarlierRecords(journal)
    observers = kind.observers(earlier, journal.run, AttemptFolders(runs))
    if not observers:
        return observe

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
        if observe is not None:
            observe(which, record)

    return each


def _check_name(folder: str) -> None:
    try:
        folder.encode()
    except UnicodeEncodeError:
        raise UsageError(f"the name of the folder {folder!r} is not UTF-8 text: rename it, then run") from None


@dataclass(frozen=True)
class _RunFiles:
    """A run whose files lie on disk: where it works, in a separate *tree* or not, and whether that is kept."""

    runs: Runs
    run: str
    cwd: Path
    tree: WorkTree | None
    snapshots: bool
    notifier: Notifier

    def ports(self, turns: Turns, clock: Clock) -> RunPorts:
        """The stores and services that such a run uses."""
        runs, run = self.runs, self.run
        with suppress(OSError):
            clear_removed(runs.root)
        folder, last = runs.folder(run), LastReading()
        held = read_held(folder)

        async def read_again(child: str, plan: Plan) -> ConfigAnswer:
            nonlocal held
            answer = kind_of(plan).reread(
                child, plan, lambda found: hold(found, folder), last, lambda: trust_of(run, runs.history(run))
            )
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
            workspace=GitWorkspace(runs.root, self.cwd, runs.folder, runs.status, tree=self.tree, saves=self.snapshots),
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


@dataclass(frozen=True)
class _Owner:
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
            warnings = (*await unconfined(plan), *absent_programs(plan))
        return cls(turns, how.get("clock") or SystemClock(), warnings, how)

    async def drive(
        self,
        files: _RunFiles,
        kind: Kind,
        journal: Journal,
        opening: RootOpening,
        begin: Callable[[Shell, RootOpening], Coroutine[Any, Any, RunExit]],
    ) -> Outcome:
        """Drive the run of *files* until this owner lets go of it.

        Args:
            kind: That of the plan with which the run began, and *journal* what earlier owners wrote.
            begin: Begins the run in a shell, or resumes it.
        """
        how, runs, run = self.how, files.runs, files.run
        sidecars = Sidecars(self.clock, self.turns, how.get("observe"))
        notifier, on_quota = files.notifier, how.get("on_quota")

        def observe(which: str, record: Record) -> None:
            sidecars.observe(which, record)
            notifier.observe(which, record)

        def waits(which: str, turn: str, due: float) -> None:
            notifier.waits(which, turn, due)
            if on_quota is not None:
                on_quota(which, turn, due)

        observers = Observers(
            observe=_observers(kind, runs, journal, observe), on_quota=waits, approver=how.get("attendant")
        )
        options = OwnerOptions(
            limits=how.get("limits") or Limits(),
            park=how.get("park", True),
            quota=how.get("quota", "park"),
            allow=notifier.own.allow,
        )
        shell = Shell(files.ports(self.turns, self.clock), options, observers)
        sidecars.attach(shell)
        if (attach := how.get("attach")) is not None:
            attach(shell)
        inbox = Inbox(runs.folder(run), shell, self.clock.now)
        main = begin(shell, replace(opening, take_waiting=inbox.take_waiting))
        try:
            ended = await _driven(shell, main, inbox, sidecars, run)
        finally:
            notifier.close()
        return replace(outcome_of(ended), notices=tuple(notices(runs.root, run, shell.steps)))


async def until_stopped(running: Coroutine[Any, Any, T]) -> T:
    """The result of *running*, which drives a run; cancelling this interrupts the run, and goes on once it has stopped.

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
                task.cancel()
    if cancelled is not None and (task.cancelled() or task.exception() is None):
        raise cancelled
    return task.result()


async def _driven(
    shell: Shell, main: Coroutine[Any, Any, RunExit], inbox: Inbox, sidecars: Sidecars, run: str
) -> RunExit:
    """Await *main*, which drives *run*, with the inbox open; cancelling stops the run."""

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
        if not sidecars.stop(run):
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
        await sidecars.close()
        await inbox.close()
    return ended
