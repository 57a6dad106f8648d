"""`coterie run`, `resume` and `replay`."""

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coterie.cli.loop_options import LoopOptions, home, loop_given
from coterie.cli.options import STATE_DIR, AsJson, DriveOptions, LimitOptions, Run, Set, StateDir
from coterie.cli.output import complain, print_result, report

if TYPE_CHECKING:
    from coterie.cli.display import Watch
    from coterie.planning.loop import LoopGiven
    from coterie.planning.plan import Limits, Plan
    from coterie.runs.outcome import Outcome

Backend = Annotated[str | None, typer.Option("--backend", "-b", metavar="B", help="The backend of agents without one.")]


def run(
    target: Annotated[
        str, typer.Argument(metavar="TARGET", help="An .at or .yaml file, the folder of a loop, or a preset.")
    ],
    prompt: Annotated[
        list[str] | None,
        typer.Argument(metavar="PROMPT", help="The prompt for the team; '-' reads it from standard input."),
    ] = None,
    named: Annotated[
        list[str] | None, typer.Option("--input", metavar="K=V", help="A named input: k=text, or k:=JSON. Repeatable.")
    ] = None,
    input_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Named inputs from a JSON object, or the prompt from any other file."),
    ] = None,
    params: Set = None,
    backend: Backend = None,
    rehearse: Annotated[
        str | None,
        typer.Option(
            metavar="[SCRIPT.json]",
            help="Run in virtual time with scripted agents instead of backends, following the script if given.",
        ),
    ] = None,
    imports: Annotated[
        bool, typer.Option("--import", help="Let a rehearsal import custom patterns, which are Python code.")
    ] = False,
    no_snapshots: Annotated[
        bool, typer.Option("--no-snapshots", help="Do not store the state of the files in git after each turn.")
    ] = False,
    *,
    limits: LimitOptions,
    drive: DriveOptions,
    loop: LoopOptions,
) -> int:
    """Run a team. Words behind `--` are further arguments for the backend of a loop.

    Exit status: 0 completed, 1 failed, 3 stopped by a limit, 4 waiting for a human, 130 interrupted.
    """
    from coterie.cli.inputs import gather
    from coterie.runs import launch

    given = gather(" ".join(prompt) if prompt else None, input_file, named or ())
    plan = _plan(target, loop_given(target, loop, backend, params or ()))
    if rehearse is not None:
        return _rehearse(plan, given, rehearse, limits.limits(None), as_json=drive.as_json, imports=imports)
    state_dir, tape = home(plan, loop.state_dir), drive.recording()

    def main(watch: "Watch") -> Coroutine[Any, Any, "Outcome"]:
        return launch.start(
            plan,
            given,
            state_dir=state_dir,
            limits=limits.limits(),
            park=watch.parks,
            observe=watch.observe,
            human=watch.human,
            cassette=tape,
            attach=watch.attach,
            snapshots=not no_snapshots,
            tell=complain,
        )

    return _watched(main, drive, state_dir)


def resume(
    run: Run,
    reload: Annotated[
        Path | None,
        typer.Option("--reload", metavar="FILE", help="Continue with the current plan of FILE, not the recorded one."),
    ] = None,
    params: Set = None,
    backend: Backend = None,
    add_iterations: Annotated[
        int, typer.Option(min=0, metavar="N", help="Allow a loop N iterations more than its plan.")
    ] = 0,
    state_dir: StateDir = STATE_DIR,
    *,
    limits: LimitOptions,
    drive: DriveOptions,
) -> int:
    """Continue a run from the end of its journal.

    Finished turns are not repeated; turns that were running are retried, with a note in their prompt. Limits include
    everything the run has used so far. Exit status as for `run`.
    """
    from coterie.errors import UsageError
    from coterie.runs import launch
    from coterie.runs.repository import find

    if backend is not None and reload is None:
        raise UsageError("the recorded plan sets the backends; --backend needs --reload FILE")
    if params and reload is None:
        raise UsageError("the recorded plan sets the parameters; --set needs --reload FILE")
    runs, run = find(run, state_dir)
    plan = plan_of(reload, backend, params) if reload is not None else None
    tape = drive.recording()

    def main(watch: "Watch") -> Coroutine[Any, Any, "Outcome"]:
        return launch.resume(
            run,
            state_dir=runs.root,
            limits=limits.limits(add_iterations=add_iterations),
            park=watch.parks,
            observe=watch.observe,
            human=watch.human,
            reload=plan,
            cassette=tape,
            attach=watch.attach,
            recall=watch.recall,
        )

    return _watched(main, drive, state_dir)


def replay(run: Run, as_json: AsJson = False, state_dir: StateDir = STATE_DIR) -> int:
    """Check that the current engine makes the same decisions as a run's journal.

    Changes nothing and calls no backend. A difference is reported with its first record, and the exit status is 1.
    """
    from coterie.cli.text.outcomes import replayed
    from coterie.runs.replay import replay as replay_run
    from coterie.runs.repository import find

    runs, run = find(run, state_dir)
    found = replay_run(run, state_dir=runs.root)
    value = {"run": found.run, "agrees": True, "records": found.records, "left": found.left}
    print_result(as_json, value, lambda: replayed(found))
    return 0


def plan_of(file: Path, backend: str | None = None, params: list[str] | None = None) -> "Plan":
    """Return the plan of *file*, and print its warnings."""
    from coterie.planning.loop import LoopGiven

    return _plan(str(file), LoopGiven(backend=backend or "", overrides=tuple(params or ())))


def _plan(target: str, given: "LoopGiven") -> "Plan":
    from coterie.cli.team_file import plan_for_a_run

    plan, found = plan_for_a_run(target, given)
    report((one for one in found.warnings if one.code != "not-enforced"), found.text)
    for one in found.warnings:
        if one.code == "not-enforced":
            complain("; ".join(filter(None, (one.render().splitlines()[0], one.hint))))
    return plan


def _rehearse(
    plan: "Plan", given: dict[str, Any], script: str, limits: "Limits", *, as_json: bool, imports: bool
) -> int:
    """Rehearse *plan*, print the report, and return the status of the rehearsed run."""
    from coterie.backends.scripted import read_script
    from coterie.cli.text.rehearsals import rehearsal
    from coterie.runs.kinds import check_start, own_pattern, own_patterns
    from coterie.runs.rehearsal import rehearse

    replaced = [] if imports else list(own_patterns(plan))
    if not replaced:
        check_start(plan, given)  # imports the patterns
    for own in replaced:
        complain(
            f"{own.name}: the pattern {own_pattern(own)!r} is Python code and was not imported; "
            "this rehearsal calls each of its slots once, in order. Add --import to run the pattern"
        )
    document = rehearse(plan, given, read_script(Path(script), plan) if script else None, limits, imports=imports)
    print_result(as_json, document, lambda: rehearsal(document))
    return int(document["exit"])


def _watched(main: "Callable[[Watch], Coroutine[Any, Any, Outcome]]", options: DriveOptions, state_dir: Path) -> int:
    """Run *main* with a display, print the outcome, and return its exit status."""
    from coterie.cli.display import choose
    from coterie.cli.signals import drive
    from coterie.cli.text import outcomes as text

    with choose(options.park, options.as_json, text.state_dir_option(state_dir)) as watch:
        outcome = drive(main(watch))
    for notice in outcome.notices:
        complain(notice)
    if outcome.status == "failed" and not options.as_json:
        complain(text.outcome(outcome))
    else:
        data = text.outcome_data(outcome, watch.failed)
        print_result(options.as_json, data, lambda: text.outcome(outcome, watch.failed))
    if not options.as_json and (hint := text.next_steps(outcome, state_dir)):
        complain(hint)
    return outcome.exit
