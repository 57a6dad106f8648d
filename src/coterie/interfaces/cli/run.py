"""`coterie run`, `resume` and `replay`."""

import shlex
import time
from collections.abc import Callable, Container, Coroutine
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from coterie.base.waits import waiting
from coterie.interfaces.cli.loop_options import LoopOptions, home, loop_given
from coterie.interfaces.cli.options import (
    AsJson,
    Backend,
    DriveOptions,
    HomeOptions,
    InputFile,
    LimitOptions,
    Named,
    Prompt,
    Run,
    Set,
    ThreadOptions,
)
from coterie.interfaces.cli.output import at_terminal, complain, error_width, print_result, report, say, say_json
from coterie.interfaces.cli.parameters import Arg, Opt
from coterie.interfaces.cli.places import show_place
from coterie.interfaces.cli.system_options import SystemOptions

if TYPE_CHECKING:
    from coterie.base.diagnostics import Diagnostic
    from coterie.execution.runs.outcome import Outcome
    from coterie.execution.runs.repository import Runs, Where
    from coterie.interfaces.cli.team_file import Examined
    from coterie.interfaces.cli.watcher import Watch
    from coterie.proofs.preflight import Preflight
    from coterie.team.planning.loop import LoopGiven
    from coterie.team.planning.plan import Limits, Plan


def run(
    target: Annotated[
        str | None, Arg("TARGET", "An .at or .yaml file, the folder of a loop, or a preset; else topology.yaml.")
    ] = None,
    prompt: Prompt = None,
    named: Named = None,
    input_file: InputFile = None,
    params: Set = None,
    backend: Backend = None,
    rehearse: Annotated[
        str | None,
        Opt(
            "--rehearse [SCRIPT.json]",
            "Run in virtual time with scripted agents instead of backends, following the script if given.",
            is_value=lambda word: word.endswith(".json"),
        ),
    ] = None,
    imports: Annotated[bool, Opt("--import", "Let a rehearsal import custom patterns, which are Python code.")] = False,
    yes: Annotated[
        bool, Opt("-y, --yes", "Ask nothing before the run: use a backend that is ready, and these files.")
    ] = False,
    no_snapshots: Annotated[
        bool, Opt("--no-snapshots", "Do not store the state of the files in git after each turn.")
    ] = False,
    id: Annotated[str | None, Opt("--id ID", "The run's id; the same id, plan and input again find that run.")] = None,
    *,
    limits: LimitOptions,
    drive: DriveOptions,
    loop: LoopOptions,
    system: SystemOptions,
    thread: ThreadOptions,
) -> int:
    """Run a team. Words behind `--` are further arguments for the backend of a loop.

    Without a target, topology.yaml of this directory runs. A supervised system without a prompt runs until Ctrl-C or
    SIGTERM, its normal end; with a prompt its entry answers, and the system stops.

    Exit status: 0 completed, 1 failed, 3 stopped by a limit, 4 waiting for a human, 130 interrupted.
    """
    from msgspec.structs import replace

    from coterie.errors import UsageError
    from coterie.execution.kinds import check_start
    from coterie.execution.runs import given_ids, launch, named_runs, run_ids
    from coterie.execution.runs.index import place_of
    from coterie.execution.runs.repository import LocalRuns, Runs
    from coterie.execution.runs.threads import follow
    from coterie.interfaces.cli.before import Beginning, ask_objective
    from coterie.interfaces.cli.inputs import gather
    from coterie.interfaces.cli.team_file import is_preset, locating_plugins
    from coterie.team.formats.programs import is_program
    from coterie.team.planning.loop import LoopPlan

    continues = thread.continues
    target, words = system.target(target, prompt or [])
    given = gather(" ".join(words) if words else None, input_file, named or ())
    if given and system.process is not None:
        raise UsageError("a worker answers no prompt: ask the process of the supervisors, without --process")
    said = loop_given(target, loop, backend, [*(params or ()), *system.overrides()])
    plan, found = plan_for(target, said, system.applied)
    if rehearse is not None:
        imports = imports or is_program(target)  # it is imported already
        return _rehearse(plan, given, rehearse, limits.limits(None), as_json=drive.as_json, imports=imports)
    asks = not drive.as_json and at_terminal()
    if isinstance(plan.coordination, LoopPlan) and not str(given.get("prompt") or plan.coordination.objective).strip():
        if is_preset(target):
            given["prompt"] = ask_objective(target, asks=asks)
        else:
            again = f'coterie run {shlex.quote(target)} "…"'
            complain(f"this loop has no objective; to give one: {again}, or event_loop.prompt in its settings")
    tape = drive.recording()

    def replan(flag: str, setting: str) -> "Plan":
        overrides = (*said.overrides, *filter(None, [setting]))
        again = replace(said, backend=flag or said.backend, overrides=overrides)
        return plan_for(target, again, system.applied, found.warnings)[0]

    beginning = Beginning(
        asks=asks,
        as_json=drive.as_json,
        yes=yes,
        limits=limits.limits(),
        is_recorded=tape is not None and tape.replays,
        home=lambda plan: home(plan, loop.state_dir),
        replan=replan,
    )
    if not found.is_system:  # whose plugins would be made once more to be checked
        check_start(plan, given)
    plan, before = beginning.ready(plan, is_preset=is_preset(target))
    state_dir = home(plan, loop.state_dir)
    state_dir = (id and place_of(id, state_dir)) or state_dir

    name = id or ("" if continues is None else run_ids.choose_id(plan, state_dir))

    def main(watch: "Watch") -> Coroutine[Any, Any, "Outcome"]:
        start: Callable[..., Coroutine[Any, Any, Outcome]] = partial(
            launch.start,
            plan,
            given,
            run_id=name or None,
            state_dir=state_dir,
            limits=limits.limits(),
            quota="wait" if drive.wait_quota else "park",
            cassette=tape,
            snapshots=not no_snapshots,
            place=loop.place(),
            tell=complain,
        )
        runs, how = Runs(state_dir), watch.drives()
        if continues is not None:
            watched = how.pop("observe")
            start = partial(follow, runs, name, plan, continues, partial(start, **how), observe=watched, tell=complain)
            how = {}
        if id is None:
            return start(**how)
        is_new = given_ids.claim(id, state_dir)
        return named_runs.begun(runs, id, plan, given, partial(start, **how), is_new=is_new, observe=watch.observe)

    with locating_plugins(found):
        return _watched(main, drive, LocalRuns(state_dir).option, before)


def resume(
    run: Annotated[list[str], Arg("RUN", "A run's id, the beginning of one, or 'last'; several with --when-open.")],
    reload: Annotated[
        Path | None, Opt("--reload FILE", "Continue with the current plan of FILE, not the recorded one.")
    ] = None,
    params: Set = None,
    backend: Backend = None,
    add_iterations: Annotated[
        int, Opt("--add-iterations N", "Allow a loop N iterations more than its plan.", min=0)
    ] = 0,
    when_open: Annotated[
        bool, Opt("--when-open", "Wait until the quotas open that the runs wait for, then resume each.")
    ] = False,
    try_now: Annotated[
        bool, Opt("--try-now", "Try at once what waits for a quota, for example after buying more.")
    ] = False,
    here: Annotated[
        bool, Opt("--here", "Continue a run of a cluster on this machine, with a copy of its journal.")
    ] = False,
    retry: Annotated[
        str | None,
        Opt(
            "--retry [TURN]",
            "Continue a failed run: retry what failed it, or only TURN, which may be a set.",
            is_value=lambda word: "#" in word or "@" in word,
        ),
    ] = None,
    *,
    home: HomeOptions,
    limits: LimitOptions,
    drive: DriveOptions,
) -> int:
    """Continue a run from the end of its journal.

    Finished turns are not repeated; turns that were running are retried, with a note in their prompt. A failed run goes
    on with --retry: the turns that failed it, and those that this cancelled, are retried. Limits include everything
    the run has used so far. A turn that waits for a quota is not started before it opens: the run stops again and says
    when that is. With --when-open this command waits, without owning the runs, and resumes each once its quota is
    open, again if need be, until none waits for a quota. Exit status as for `run`; of several runs, the highest.
    """
    from coterie.errors import ReplayMismatch, UsageError
    from coterie.execution.runs import control
    from coterie.execution.runs.control import RemoteRuns
    from coterie.execution.runs.repository import LocalRuns, find, location_at

    if retry is not None and (when_open or len(run) > 1):
        line = f"write coterie resume {run[0]} --retry, or --retry NAME#N for one turn of it"
        what = f"for {' and '.join(run)}" if len(run) > 1 else "with --when-open"
        raise UsageError(f"--retry is for one run, not {what}; {line}")
    if len(run) > 1 and not when_open:
        raise UsageError("one run at a time can be resumed; several need --when-open")
    if backend is not None and reload is None:
        raise UsageError("the recorded plan sets the backends; --backend needs --reload FILE")
    if params and reload is None:
        raise UsageError("the recorded plan sets the parameters; --set needs --reload FILE")
    plan = plan_of(reload, backend, params) if reload is not None else None
    bounds, tape = limits.limits(add_iterations=add_iterations), drive.recording()
    quota = "now" if try_now else "wait" if drive.wait_quota else "park"
    where = home.where

    def again(name: str) -> int:
        runs, run = find(name, where, show_place)
        control.await_stop(runs, run)
        runs = runs.here(run, complain) if here and isinstance(runs, RemoteRuns) else runs
        option = LocalRuns(runs.root).option if here else location_at(where).option
        try:
            return carry_on(runs, run, option, bounds, drive, reload=plan, retry=retry, cassette=tape, quota=quota)
        except ReplayMismatch as error:
            if reload is not None:
                error.args = (f"{error}; add --reload {shlex.quote(str(reload))} to take its plan there",)
            raise

    return _resume_when_open(run, again, where) if when_open else again(run[0])


def _resume_when_open(names: list[str], again: "Callable[[str], int]", where: "Where") -> int:
    """Resume each of the runs *names* when its quota is open, again and again until none waits for one."""
    from coterie.base.clock import iso_time
    from coterie.execution.runs.quotas import opens, sleep_until

    left, worst = list(dict.fromkeys(names)), 0
    while left:
        due, name = min((opens(name, where), k, name) for k, name in enumerate(left))[::2]
        if due > time.time():
            complain(f"{name} waits until {iso_time(due)} for its quota; Ctrl-C leaves it as it is")
            sleep_until(due)
            continue  # another process may have resumed it meanwhile
        status = again(name)
        if not opens(name, where):
            left.remove(name)
            worst = max(worst, status)
    return worst


def carry_on(
    runs: "Runs",
    run: str,
    option: str,
    limits: "Limits",
    drive: DriveOptions,
    *,
    before: "Preflight | None" = None,
    **how: Any,
) -> int:
    """Resume *run* of *runs*, print the outcome, and return its exit status.

    Args:
        option: Names their place to further commands.
        before: What was known before the run, for --json.
        how: See `coterie.execution.runs.launch.resume`.
    """

    from coterie.execution.runs.control import resume as resume_run

    def main(watch: "Watch") -> Coroutine[Any, Any, "Outcome"]:
        return resume_run(
            runs,
            run,
            limits=limits,
            recall=watch.recall,
            **watch.drives(),
            **how,
        )

    return _watched(main, drive, option, before)


def replay(run: Run, as_json: AsJson = False, *, home: HomeOptions) -> int:
    """Check that this version decides as a run's journal says.

    Changes nothing and calls no backend. A difference is reported with its first record, and the exit status is 1.
    """
    from coterie.execution.runs.replay import replay_in
    from coterie.execution.runs.repository import find
    from coterie.interfaces.cli.text.outcomes import replayed

    found = replay_in(*find(run, home.where))
    value = {"run": found.run, "agrees": True, "records": found.records, "left": found.left}
    print_result(as_json, value, lambda: replayed(found))
    return 0


def plan_of(file: Path, backend: str | None = None, params: list[str] | None = None) -> "Plan":
    """Return the plan of *file*, and print its warnings."""
    from coterie.team.planning.loop import LoopGiven

    return plan_for(str(file), LoopGiven(backend=backend or "", overrides=tuple(params or ())))[0]


def plan_for(
    target: str,
    given: "LoopGiven",
    apply: "Callable[[Plan], Plan]" = lambda plan: plan,
    known: "Container[Diagnostic]" = (),
) -> "tuple[Plan, Examined]":
    """Return the plan of *target*, as *apply* makes it of its options, and its file; print warnings not *known*."""
    from coterie.interfaces.cli.team_file import plan_for_a_run, with_imports

    plan, found = plan_for_a_run(target, given)
    plan = apply(plan)
    if found.is_system:
        found = with_imports(found, to_run=True, process=getattr(plan.coordination, "process", ""))
        if found.errors:
            from coterie.errors import TopologyError

            raise TopologyError(found.errors, found.text)
    warnings = [one for one in found.warnings if one not in known]
    report((one for one in warnings if one.code != "not-enforced"), found.text)
    for one in warnings:
        if one.code == "not-enforced":
            complain(one.summary)
    return plan, found


def _rehearse(
    plan: "Plan", given: dict[str, Any], script: str, limits: "Limits", *, as_json: bool, imports: bool
) -> int:
    """Rehearse *plan*, print the report, and return the status of the rehearsed run."""
    from coterie.agents.backends.scripted import read_script
    from coterie.execution.kinds import check_start, own_pattern, own_patterns
    from coterie.execution.runs.rehearsal import rehearse
    from coterie.interfaces.cli.text.rehearsals import rehearsal

    replaced = [] if imports else list(own_patterns(plan))
    if not replaced:
        check_start(plan, given)  # imports the patterns
    for own in replaced:
        complain(
            f"{own.name}: the pattern {own_pattern(own)!r} is Python code and was not imported; "
            "this rehearsal calls each of its slots once, in order. Add --import to run the pattern"
        )
    with waiting("the rehearsal"):
        document = rehearse(plan, given, read_script(Path(script), plan) if script else None, limits, imports=imports)
    print_result(as_json, document, lambda: rehearsal(document))
    return int(document["exit"])


def _watched(
    main: "Callable[[Watch], Coroutine[Any, Any, Outcome]]",
    options: DriveOptions,
    option: str,
    before: "Preflight | None" = None,
) -> int:
    """Run *main* with a display, print the outcome, and return its exit status.

    Args:
        option: As for `carry_on`.
        before: What was known before the run, for --json.
    """
    from coterie.interfaces.cli.signals import drive
    from coterie.interfaces.cli.text.outcomes import outcome_data
    from coterie.interfaces.cli.watcher import choose

    with choose(options.park, options.as_json, option, log_format=options.log_format) as watch:
        outcome = drive(main(watch), watch.notice)
    for notice in outcome.notices:
        complain(notice)
    if options.as_json:
        known = {"before": before} if before is not None else {}
        say_json(outcome_data(outcome, watch.failed) | known)
    else:
        print_outcome(outcome, option, error_width(), watch)
    return outcome.exit


def print_outcome(outcome: "Outcome", option: str, width: int | None = None, watch: "Watch | None" = None) -> None:
    """Print the result of a run, how it ended, and the next steps; see `coterie.interfaces.cli.text.outcomes`."""
    from coterie.history.views import words
    from coterie.interfaces.cli.text import outcomes as text

    if outcome.result and (result := words.result(outcome.result)):
        (complain if outcome.status == "failed" else say)(result)
    complain(text.outcome(outcome, *((watch.failed, watch.causes) if watch is not None else ())))
    if hint := text.next_steps(outcome, option, width, watch.ends if watch is not None else None):
        complain(hint)
