"""`coterie run`, `resume` and `replay`: the journal at work."""

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coterie.cli.loop_options import (
    Arguments,
    DefaultProfiles,
    Flags,
    InWorktree,
    MaxIterations,
    MergeStrategy,
    UsedProfiles,
    Verbose,
    home,
    loop_given,
)
from coterie.cli.options import (
    STATE_DIR,
    AsJson,
    Cassette,
    MaxCost,
    MaxParallel,
    MaxTurns,
    NoSnapshots,
    OwnStateDir,
    Park,
    Run,
    Set,
    StateDir,
)
from coterie.cli.output import complain, say, say_json

if TYPE_CHECKING:
    from coterie.backends.models.cassette import Cassette as Tape
    from coterie.cli.display import Watch
    from coterie.planning.loop import LoopGiven
    from coterie.planning.plan import Limits, Plan
    from coterie.runs.launch import Outcome

DEFAULT_PARALLEL = 16
Backend = Annotated[
    str | None, typer.Option("--backend", "-b", metavar="B", help="Who thinks where no agent says otherwise.")
]


def run(
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET", help="An .at or .yaml file, the folder of a loop, or a preset.", show_default=False
        ),
    ],
    prompt: Annotated[
        list[str] | None, typer.Argument(metavar="PROMPT", help="What the team is asked.", show_default=False)
    ] = None,
    named: Annotated[
        list[str] | None,
        typer.Option("--input", metavar="K=V", help="A named input: k=text, or k:=JSON. Repeatable."),
    ] = None,
    input_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Named inputs from a JSON object, or the prompt from any other file."),
    ] = None,
    params: Set = None,
    backend: Backend = None,
    max_turns: MaxTurns = None,
    max_cost: MaxCost = None,
    max_parallel: MaxParallel = None,
    park: Park = None,
    rehearse: Annotated[
        str | None,
        typer.Option(
            metavar="[SCRIPT.json]",
            help="Try it without a model, in virtual time, with stand-ins; they follow the script, if one is given.",
        ),
    ] = None,
    imports: Annotated[
        bool,
        typer.Option("--import", help="Let a rehearsal import Python code that the files name: patterns of your own."),
    ] = False,
    cassette: Cassette = None,
    max_iterations: MaxIterations = None,
    profiles: UsedProfiles = None,
    default_profiles: DefaultProfiles = True,
    worktree: InWorktree = None,
    merge_strategy: MergeStrategy = None,
    verbose: Verbose = False,
    arguments: Arguments = None,
    as_json: AsJson = False,
    no_snapshots: NoSnapshots = False,
    state_dir: OwnStateDir = None,
) -> int:
    """Run a team; what stands behind `--` are further arguments for the backend of a loop.

    The status says how it ended: 0 completed, 1 failed, 3 stopped by a limit, 4 waiting for a human, 130 interrupted.
    """
    from coterie.cli.inputs import gather

    flags = Flags(
        max_iterations=max_iterations,
        profiles=tuple(profiles or ()),
        default_profiles=default_profiles,
        worktree=worktree,
        merge_strategy=merge_strategy,
        verbose=verbose,
        arguments=tuple(arguments or ()),
        state_dir=state_dir,
    )
    given = gather(" ".join(prompt) if prompt else None, input_file, named or ())
    plan = _planned(target, loop_given(target, flags, backend, params or ()))
    state_dir = home(plan, state_dir)
    if rehearse is not None:
        limits = _limits(max_turns, max_cost, max_parallel, None)
        return _rehearse(plan, given, rehearse, limits, as_json=as_json, imports=imports)
    limits, tape = _limits(max_turns, max_cost, max_parallel), _tape(cassette)

    from coterie.runs import launch

    def main(watch: "Watch") -> Coroutine[Any, Any, "Outcome"]:
        return launch.start(
            plan,
            given,
            state_dir=state_dir,
            limits=limits,
            park=watch.parks,
            observe=watch.observe,
            human=watch.human,
            cassette=tape,
            snapshots=not no_snapshots,
            tell=complain,
        )

    return _watched(main, park, as_json, state_dir)


def resume(
    run: Run,
    reload: Annotated[
        Path | None,
        typer.Option(
            "--reload", metavar="FILE", help="Go on with the plan of FILE as it is now, not the recorded one."
        ),
    ] = None,
    params: Set = None,
    backend: Backend = None,
    max_turns: MaxTurns = None,
    max_cost: MaxCost = None,
    max_parallel: MaxParallel = None,
    add_iterations: Annotated[
        int, typer.Option(min=0, metavar="N", help="Let a loop have N iterations more than its plan says.")
    ] = 0,
    park: Park = None,
    cassette: Cassette = None,
    as_json: AsJson = False,
    state_dir: StateDir = STATE_DIR,
) -> int:
    """Carry a run on from where its journal ends.

    Nothing that was finished is done again; what was in flight is asked again and told so. Limits count all that the
    run has done so far. The status says what that of `run` says.
    """
    from msgspec import structs

    from coterie.errors import UsageError
    from coterie.runs import launch
    from coterie.runs.repository import find

    if backend is not None and reload is None:
        raise UsageError("the recorded plan says who thinks; --backend needs --reload FILE")
    if params and reload is None:
        raise UsageError("the recorded plan holds the parameters; --set needs --reload FILE")
    runs, run = find(run, state_dir)
    plan = _plan(str(reload), backend, params) if reload is not None else None
    limits, tape = _limits(max_turns, max_cost, max_parallel), _tape(cassette)
    limits = structs.replace(limits, add_iterations=add_iterations)

    def main(watch: "Watch") -> Coroutine[Any, Any, "Outcome"]:
        return launch.resume(
            run,
            state_dir=runs.root,
            limits=limits,
            park=watch.parks,
            observe=watch.observe,
            human=watch.human,
            reload=plan,
            cassette=tape,
            recall=watch.recall,
        )

    return _watched(main, park, as_json, state_dir)


def replay(run: Run, as_json: AsJson = False, state_dir: StateDir = STATE_DIR) -> int:
    """Check that today's engine decides a run as its journal says.

    Nothing is changed and nobody is asked. Where they disagree the first such record is named, and the status is 1.
    """
    from coterie.cli.text import outcomes as text
    from coterie.runs import launch
    from coterie.runs.repository import find

    runs, run = find(run, state_dir)
    report = launch.replay(run, state_dir=runs.root)
    if as_json:
        say_json({"run": report.run, "agrees": True, "records": report.records, "left": report.left})
    else:
        say(text.replayed(report))
    return 0


def _plan(target: str, backend: str | None, params: list[str] | None = None) -> "Plan":
    """The plan of *target* with the values of its parameters; its warnings are told."""
    from coterie.planning.loop import LoopGiven

    return _planned(target, LoopGiven(backend=backend or "", overrides=tuple(params or ())))


def _planned(target: str, given: "LoopGiven") -> "Plan":
    """The plan of *target* under what the command line says; its warnings are told."""
    from coterie.cli.team_file import plan_for_a_run

    plan, found = plan_for_a_run(target, given)
    for diagnostic in found.warnings:
        complain(diagnostic.render(found.text).rstrip("\n"))
    return plan


def _limits(
    max_turns: int | None, max_cost: float | None, max_parallel: int | None, most: int | None = DEFAULT_PARALLEL
) -> "Limits":
    """What the options allow; *most* turns at once when no option says it."""
    from coterie.planning.plan import Limits

    return Limits(max_turns=max_turns, max_cost=max_cost, max_parallel=max_parallel or most)


def _tape(cassette: str | None) -> "Tape | None":
    """The recording that *cassette* names, if it names one."""
    if cassette is None:
        return None
    from coterie.backends.models.cassette import Cassette as Tape

    return Tape.named(cassette)


def _rehearse(
    plan: "Plan", given: dict[str, Any], script: str, limits: "Limits", *, as_json: bool, imports: bool
) -> int:
    """Run *plan* with stand-ins and print what happened; returns the status that a run would."""
    from coterie.backends.scripted import read_script
    from coterie.cli.text.rehearsals import rehearsal
    from coterie.runs.kinds import check_start, own_pattern, own_patterns
    from coterie.runs.rehearsal import rehearse

    replaced = [] if imports else list(own_patterns(plan))
    if not replaced:
        check_start(plan, given)  # imports the patterns
    for own in replaced:
        complain(
            f"{own.name}: the pattern {own_pattern(own)!r} is Python code and was not imported: "
            "this rehearsal asks its slots once each, in order; add --import to run it"
        )
    document = rehearse(plan, given, read_script(Path(script), plan) if script else None, limits, imports=imports)
    if as_json:
        say_json(document)
    else:
        say(rehearsal(document))
    return int(document["exit"])


def _watched(
    main: "Callable[[Watch], Coroutine[Any, Any, Outcome]]", park: bool | None, as_json: bool, state_dir: Path
) -> int:
    """Drive *main* with a display beside it, tell how it ended and return the status that says the same."""
    from coterie.cli.display import choose
    from coterie.cli.signals import drive
    from coterie.cli.text import outcomes as text

    with choose(park, as_json) as watch:
        outcome = drive(main(watch))
    for notice in outcome.notices:
        complain(notice)
    if as_json:
        say_json(text.outcome_data(outcome))
    else:
        say(text.outcome(outcome))
        if hint := text.next_steps(outcome, state_dir):
            complain(hint)
    return outcome.exit
