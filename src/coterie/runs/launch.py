"""Start, resume and replay runs whose journals lie on disk: what the command line and programs call."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from coterie.clock import Clock, SystemClock
from coterie.errors import Fenced, JournalFailed, JournalUnreadable, RunDeleted, RunIsFinished, UsageError
from coterie.ids import child_run_id
from coterie.journal.jsonl import JOURNAL, JsonlStore
from coterie.journal.records import NO_USAGE, PlanReloaded, Record, RunStarted, Usage
from coterie.planning.plan import Limits, Plan, from_record
from coterie.runs import index, naming
from coterie.runs.commands import phrase
from coterie.runs.ending import EXIT_COMPLETED, Ending, exit_of, notices
from coterie.runs.fold import Fold
from coterie.runs.folder import DiskPlace
from coterie.runs.held import hold, refuse_lost
from coterie.runs.inbox import Inbox
from coterie.runs.kinds import Kind, check_start, kind_of
from coterie.runs.listing import ENDS, first_line, standing
from coterie.runs.live import Ended, Observe, Place, Waiting
from coterie.runs.shell import Shell
from coterie.runs.thinkers import AskHuman, ready_turns
from coterie.runs.trees import worktree
from coterie.runs.trees.git import in_thread
from coterie.runs.trees.hiding import hide_state
from coterie.runs.trees.isolation import isolate
from coterie.runs.trees.keeping import Trees
from coterie.runs.trees.worktree import Tree
from coterie.runs.turns import Turns

if TYPE_CHECKING:
    from coterie.backends.models.cassette import Cassette


class Outcome(Struct, frozen=True, kw_only=True):
    """How an owner's time with a run ended.

    Attributes:
        status: `completed`, `failed`, or `stopped` (it can be resumed).
        reason: Why it failed or stopped.
        exit: The exit status that says the same.
        seconds: How long the run was owned in all; *usage* adds up what its attempts took, side by side or not.
        waiting: The questions to humans that are open.
        overshoot: By how much a budget was exceeded by what was running when it was reached; empty if not.
        notices: What there is to say beside: where its work is, whom nobody could notify.
        iterations: How many a loop has begun; None: it is none.
    """

    run: str
    status: str
    reason: str = ""
    result: Any = None
    exit: int = EXIT_COMPLETED
    usage: Usage = NO_USAGE
    seconds: float = 0.0
    waiting: tuple[Waiting, ...] = ()
    overshoot: str = ""
    notices: tuple[str, ...] = ()
    iterations: int | None = None


class ReplayReport(Struct, frozen=True, kw_only=True):
    """What a replay found: today's engine agrees with every record.

    Attributes:
        records: How many records were fed to the engine, those of child runs included.
        left: What is left to do, one phrase each; nothing in a finished run.
    """

    run: str
    records: int
    left: tuple[str, ...] = ()


async def start(
    plan: Plan,
    given: dict[str, Any],
    *,
    state_dir: Path,
    limits: Limits | None = None,
    park: bool = True,
    observe: Observe | None = None,
    human: AskHuman | None = None,
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
        observe: Called with the run's id and each record, in order, once it is durable.
        human: Asks a human at a terminal; without it humans answer through the inbox.
        turns: Who starts attempts; by default the backends of this process.
        cassette: Answers for the providers of models; by default the one that `COTERIE_CASSETTE` names.
        cwd: The agents' working directory; by default the current one. A loop may get a work tree of its own instead.
        snapshots: Keep what the files are at each turn's end, where there is a git work tree.
        tell: Takes what has to be said before the run begins.
        attach: Called with who will drive the run, for programs that run beside it.

    Raises:
        TopologyError: If an agent has nobody who thinks, its model cannot be asked, or nothing says who is asked.
        UsageError: If the name of the topology's folder cannot be written down, or a cassette not be read, or it
            must have a work tree of its own and cannot, or is not given what it is to work on.
        GitFailed: If that work tree could not be made.
        JournalFailed: If the journal could not be written.

    Cancelling the task interrupts the run: attempts are ended, the outcome is `stopped`, `interrupted`.
    """
    check_start(plan, given)
    kind = kind_of(plan)
    if turns is None:
        turns = ready_turns(plan, human, cassette)
    _check_name(plan.folder)
    run, clock = run_id or naming.fresh(plan, state_dir), clock or SystemClock()
    cwd = (cwd or Path.cwd()).resolve()
    store = JsonlStore(state_dir)
    plan = _held(run, plan, store)
    tree, said = None, list[str]()
    if kind.place is not None:
        tree = await in_thread(isolate, run, cwd, state_dir, kind.place, said.append)
    for line in said:
        tell(line)
    cwd = Path(tree.cwd) if tree is not None else cwd
    with suppress(OSError):  # where nothing can be written, the journal says so
        hide_state(state_dir, kind.place, cwd)
    index.add(index.Entry(run=run, folder=str(store.folder(run).resolve()), topology=plan.name, started=clock.now()))
    if tree is not None:
        worktree.write(state_dir, tree)  # before its files: a kill from here on leaves a tree that is known
    observe = _observers(kind, store, run, cwd, observe)
    place = _place(store, run, cwd, tree, snapshots)
    shell = _shell(run, store, turns, clock, limits, park, observe, cwd, place)
    if attach is not None:
        attach(shell)
    try:
        return await _drive(shell, store, run, shell.start(run, plan, given), limits, clock)
    except JournalFailed as error:
        if isinstance(error, Fenced | RunDeleted) or first_line(store.folder(run) / JOURNAL):
            raise
        raise JournalFailed(run, error.reason, began=False) from None


async def resume(
    run: str,
    *,
    state_dir: Path,
    limits: Limits | None = None,
    park: bool = True,
    observe: Observe | None = None,
    human: AskHuman | None = None,
    reload: Plan | None = None,
    turns: Turns | None = None,
    cassette: "Cassette | None" = None,
    attach: Callable[[Shell], object] | None = None,
    clock: Clock | None = None,
) -> Outcome:
    """Carry *run* on from its journal, under the recorded plan or *reload*.

    What an earlier owner left alive is ended first; attempts that were cut off are asked again and told so.

    Raises:
        NoSuchRun, RunIsOwned, RunIsFinished, JournalUnreadable: If it cannot be taken over.
        ReplayMismatch: If the plan or today's engine decides otherwise than the journal says.
        TopologyError: If *reload* has nobody who thinks for an agent, or its model cannot be asked.
        UsageError: If the folder it was started in is gone: every turn would fail for good; or if a program decides
            in it, which only that program can carry on.
    """
    store, clock = JsonlStore(state_dir), clock or SystemClock()
    first = first_record(store, run)
    if (state := standing(store.folder(run))) in ENDS:
        raise RunIsFinished(run, state)
    plan = _held(run, reload, store) if reload is not None else recorded_plan(store, run)
    refuse_lost(plan, store.folder(run))
    if turns is None:
        kind_of(plan).check_resume(run)
        turns = ready_turns(plan, human, cassette)
    cwd, tree = Path(first.cwd) if first.cwd else Path.cwd(), worktree.read(state_dir, run)
    if not cwd.is_dir() and (tree is None or tree.status == "running"):
        raise UsageError(f"run {run!r} works in {cwd}, and there is no such folder: bring it back, then resume")
    kind = kind_of(recorded_plan(store, run))
    with suppress(OSError):
        hide_state(state_dir, kind.place, cwd)
    observe = _observers(kind, store, run, cwd, observe)
    place = _place(store, run, cwd, tree, first.snapshots)
    shell = _shell(run, store, turns, clock, limits, park, observe, cwd, place)
    if attach is not None:
        attach(shell)
    main = shell.resume(run, plan, reloaded=reload is not None)
    return await _drive(shell, store, run, main, limits, clock)


def replay(run: str, *, state_dir: Path) -> ReplayReport:
    """Feed the journal of *run* and its child runs to today's engines; nothing is written and nobody is asked.

    Raises:
        ReplayMismatch: If an engine decides otherwise than its journal says.
    """
    store = JsonlStore(state_dir)
    return _replay(store, run, recorded_plan(store, run))


def first_record(store: JsonlStore, run: str) -> RunStarted:
    """The record a run began with.

    Raises:
        NoSuchRun, JournalUnreadable: If there is none to read.
    """
    first = next(store.read(run), None)
    if not isinstance(first, RunStarted):
        place = str(store.folder(run) / JOURNAL)
        raise JournalUnreadable(place, 1, "it does not begin with run.started, so the run never began; start it anew")
    return first


def recorded_plan(store: JsonlStore, run: str, upto: int | None = None) -> Plan:
    """The plan in the journal of *run*: the one it was started with, or that was taken instead at a resume.

    Args:
        upto: The record at which it obeys it; by default the last one.

    Raises:
        NoSuchRun, JournalUnreadable: If there is none to read.
    """
    found: RunStarted | PlanReloaded = first_record(store, run)
    for record in store.read(run):
        if isinstance(record, PlanReloaded) and (upto is None or record.seq <= upto):
            found = record
    try:
        return from_record(found.plan, found.plan_hash)
    except ValueError as error:
        reason = f"the plan in record {found.seq} is damaged, or of another coterie ({error}); restore it from a backup"
        path, key = store.folder(run) / JOURNAL, b'"seq":%d,' % found.seq
        with path.open("rb") as file:
            line = next((n for n, text in enumerate(file, 1) if key in text), 1)
        raise JournalUnreadable(str(path), line, reason) from error


def _observers(kind: Kind, store: JsonlStore, run: str, cwd: Path, observe: Observe | None) -> Observe | None:
    """What hears of durable records: the writers of files that *kind* has, then *observe*."""
    hearing = kind.observers(store, run, DiskPlace(store, cwd)) + ([observe] if observe is not None else [])
    if len(hearing) < 2:
        return hearing[0] if hearing else None

    def each(which: str, record: Record) -> None:
        for hear in hearing:
            hear(which, record)

    return each


def _check_name(folder: str) -> None:
    try:
        folder.encode()
    except UnicodeEncodeError:
        raise UsageError(f"the name of the folder {folder!r} is not UTF-8 text: rename it, then run") from None


def _place(store: JsonlStore, run: str, cwd: Path, tree: Tree | None, snapshots: bool) -> DiskPlace:
    """Where the files of a run lie, and those that its agents work on."""
    trees = Trees(store.root, cwd, store.folder, lambda run: standing(store.folder(run)), tree=tree, saves=snapshots)
    return DiskPlace(store, cwd, trees, Ending(store.root, run, cwd))


def _shell(
    run: str,
    store: JsonlStore,
    turns: Turns,
    clock: Clock,
    limits: Limits | None,
    park: bool,
    observe: Observe | None,
    cwd: Path,
    place: Place,
) -> Shell:
    """A shell for a run whose files lie on disk."""
    return Shell(
        store=store,
        turns=turns,
        clock=clock,
        limits=limits,
        park=park,
        observe=observe,
        place=place,
        reload=lambda child, plan: kind_of(plan).reread(child, plan, lambda found: hold(found, store.folder(run))),
        cwd=cwd,
    )


def _held(run: str, plan: Plan, store: JsonlStore) -> Plan:
    try:
        return hold(plan, store.folder(run))
    except OSError as error:
        raise JournalFailed(run, f"{store.folder(run)}: {error.strerror or error}", began=False) from error


async def _drive(shell: Shell, store: JsonlStore, run: str, main: Any, limits: Limits | None, clock: Clock) -> Outcome:
    inbox = Inbox(store.folder(run), shell, clock.now)

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
        task.cancel()
        try:
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
        await inbox.close()
    return replace(outcome(ended, limits or Limits()), notices=tuple(notices(store.root, run, shell.steps)))


def outcome(ended: Ended, limits: Limits) -> Outcome:
    """*ended* with the exit status that says the same, and what was spent beyond *limits*."""
    return Outcome(
        run=ended.run,
        status=ended.status,
        reason=ended.reason,
        result=ended.result,
        exit=exit_of(ended),
        usage=ended.usage,
        seconds=ended.seconds,
        waiting=ended.waiting,
        overshoot=_overshoot(ended, limits),
        iterations=ended.iterations,
    )


def _overshoot(ended: Ended, limits: Limits) -> str:
    if limits.max_cost is not None and ended.usage.cost > limits.max_cost:
        over = ended.usage.cost - limits.max_cost
        return f"${over:.4f} above --max-cost, by what was running when it was reached"
    return ""


def _replay(store: JsonlStore, run: str, plan: Plan) -> ReplayReport:
    fold = Fold(run, kind_of(plan))
    left: list[str] = []
    for record in store.read(run):
        fold.apply(record)
    records = fold.seq
    left += map(phrase, fold.todo.values())
    for name, turn in fold.turns.items():
        agent = fold.agents.get(turn.ask.agent)
        for attempt in range(1, turn.attempt + 1):
            below = child_run_id(run, name, attempt)
            if not (store.folder(below) / JOURNAL).exists():
                continue
            own = first_record(store, below).plan  # a child of a loop has one
            child = recorded_plan(store, below) if own else agent.child if agent is not None else None
            if child is not None:
                report = _replay(store, below, child)
                records += report.records
                left += [f"{below}: {what}" for what in report.left] if turn.status != "ended" else []
    return ReplayReport(run=run, records=records, left=tuple(left))
