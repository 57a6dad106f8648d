"""`coterie simulate`: crash a team everywhere, in virtual time, before it is real."""

import shlex
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coterie.cli.options import STATE_DIR, AsJson, Set
from coterie.cli.output import complain, say, say_json

if TYPE_CHECKING:
    from coterie.planning.plan import Plan
    from coterie.testing.series import Broken, Series

SEEDS = 1000
"""How many schedules there are, unless somebody says otherwise."""

_Share = partial(typer.Option, min=0.0, max=1.0, metavar="R", show_default=False)


def simulate(
    target: Annotated[str, typer.Argument(metavar="TARGET", help="An .at or .yaml file.", show_default=False)],
    seeds: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="How many schedules; by default 1000.", show_default=False)
    ] = None,
    first: Annotated[
        int | None,
        typer.Option("--from", min=0, metavar="S", help="The seed of the first; by default 0.", show_default=False),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="K", help="Over how many processes; by default one a processor.", show_default=False
        ),
    ] = None,
    accuracy: Annotated[
        str | None,
        typer.Option(
            metavar="A",
            help="Compare the options of a pattern whose agents are right so often: 0.7, or 0.7,primary=0.8, or with "
            "how often a wrong answer is rejected 0.7,checker=0.9/0.6.",
            show_default=False,
        ),
    ] = None,
    correlation: Annotated[float | None, _Share(help="How often all agents stand or fall together.")] = None,
    habit: Annotated[float | None, _Share(help="How often an agent repeats itself when it is asked again.")] = None,
    bias: Annotated[float | None, _Share(help="How often who chooses takes the first it reads.")] = None,
    conformity: Annotated[float | None, _Share(help="How often an answer of others is taken over.")] = None,
    overconfidence: Annotated[float | None, _Share(help="How far confidence lies above accuracy.")] = None,
    failures: Annotated[float | None, _Share(help="How often an attempt fails.")] = None,
    wrong: Annotated[
        int | None, typer.Option(min=1, metavar="K", help="In how many ways one can be wrong.", show_default=False)
    ] = None,
    runs: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="How many questions each option is asked; by default 1000.", show_default=False
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(metavar="S", help="Other questions than those of seed 0.", show_default=False)
    ] = None,
    svg: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where the comparison is drawn as well.", show_default=False)
    ] = None,
    params: Set = None,
    as_json: AsJson = False,
    state_dir: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Where the records of a schedule that broke a promise go (.coterie).",
            show_default=False,
        ),
    ] = None,
) -> int:
    """Crash a team everywhere, in virtual time, before it is real; or compare what a pattern could buy.

    Each schedule runs the team with stand-ins that answer, fail and take time at random, kills its owner at random
    places, takes the run up again, and checks that nothing was lost, repeated or decided otherwise. Nobody is asked
    and no command of the team is run. Equal seeds give equal schedules, over however many processes. The status is 1
    when a promise was broken: then the seed, its records and the command that repeats it are told. Of a file that is
    wrong --json says what `topology validate` would: {"file", "valid", "diagnostics"}; the status is 1, too.

    With --accuracy, TARGET is a pattern, and nothing crashes: agents that are right as often as it says answer many
    questions, to the team as it is, to what could be changed about it, and to one agent alone. A table and a picture
    show how often each is right and how many calls that takes. The options from --correlation to --svg go with it;
    --seeds, --from, --jobs and --state-dir are about crashes, and do not.
    """
    from coterie.cli.team_file import plan_for_a_run
    from coterie.errors import TopologyError
    from coterie.planning.loop import LoopGiven

    shares: dict[str, Any] = {
        "correlation": correlation,
        "habit": habit,
        "bias": bias,
        "conformity": conformity,
        "overconfidence": overconfidence,
        "failures": failures,
        "wrong": wrong,
    }
    assumed = {name: value for name, value in shares.items() if value is not None}
    if accuracy is None:
        why = "--{} goes with --accuracy, which says how often the agents of a pattern are right"
        _refuse({**assumed, "runs": runs, "seed": seed, "svg": svg}, why)
    else:
        why = "--{} is about crashes, and --accuracy compares options; --runs and --seed say how much is asked"
        _refuse({"seeds": seeds, "from": first, "jobs": jobs, "state-dir": state_dir}, why)
    try:
        plan, found = plan_for_a_run(target, LoopGiven(overrides=tuple(params or ())))
    except TopologyError as wrong_file:
        if not as_json:
            raise
        say_json({"file": target, "valid": False, "diagnostics": [one.to_dict() for one in wrong_file.diagnostics]})
        return 1
    for diagnostic in found.of_the_command_line:
        complain(diagnostic.render(found.text).rstrip("\n"))
    if accuracy is not None:
        from coterie.cli.laboratory import compare_options

        return compare_options(plan, accuracy, assumed, runs=runs, seed=seed or 0, svg=svg, as_json=as_json)
    return _crash(
        plan, target, seeds or SEEDS, first or 0, jobs, params, as_json=as_json, state_dir=state_dir or STATE_DIR
    )


def _refuse(given: dict[str, Any], why: str) -> None:
    """Refuse the first of the options in *given* that was said."""
    from coterie.errors import UsageError

    for name, value in given.items():
        if value is not None:
            raise UsageError(why.format(name))


def _crash(
    plan: "Plan",
    target: str,
    seeds: int,
    first: int,
    jobs: int | None,
    params: list[str] | None,
    *,
    as_json: bool,
    state_dir: Path,
) -> int:
    """Run the crash schedules, and tell what they showed."""
    from coterie.cli.text import simulations as text
    from coterie.testing.series import Series, processors, simulate_many

    jobs = jobs or processors()
    began = time.perf_counter()
    found, shows, interrupted = Series(), sys.stderr is not None and sys.stderr.isatty(), False

    def told(series: Series) -> None:
        nonlocal found
        found = series
        if shows:
            _rewrite(text.so_far(series, seeds, time.perf_counter() - began))

    try:
        found = simulate_many(plan, seeds, first=first, jobs=jobs, told=told)
    except KeyboardInterrupt:
        interrupted = True
    seconds = time.perf_counter() - began
    if shows:
        _rewrite("")
    file = _keep(found.broken, plan.name, state_dir) if found.broken is not None else None
    given = "".join(f" --set {shlex.quote(word)}" for word in params or ())
    again = (
        f"coterie simulate {shlex.quote(target)}{given} --seeds 1 --from {found.broken.seed if found.broken else first}"
    )
    if as_json:
        say_json(_document(found, file, again, interrupted) | {"took": {"seconds": seconds, "jobs": jobs}})
    else:
        if found.schedules or found.broken is None:
            say(text.simulated(found))
        if found.broken is not None:
            say(text.broken(found.broken, str(file), again))
        complain(f"{text.so_far(found, seeds, seconds)}{', interrupted' if interrupted else ''}")
    return 130 if interrupted else int(found.broken is not None)


def _document(found: "Series", file: Path | None, again: str, interrupted: bool) -> dict[str, Any]:
    """The same as plain data; *took* apart, it depends on the seeds alone."""
    from msgspec import structs

    broken = found.broken
    return structs.asdict(found) | {
        "interrupted": interrupted,
        "broken": broken and {"seed": broken.seed, "what": broken.what, "file": str(file), "repeat": again},
    }


def _keep(broken: "Broken", team: str, state_dir: Path) -> Path:
    """Write the records of a schedule that broke a promise, one per line."""
    from coterie.ids import folder_name

    folder = state_dir / "simulations"
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{folder_name(team)}-{broken.seed}.jsonl"
    file.write_text("".join(f"{line}\n" for line in broken.journals), encoding="utf-8")
    return file


def _rewrite(line: str) -> None:
    """Put *line* in the place of the last one on the terminal."""
    sys.stderr.write(f"\r\x1b[K{line}")
    sys.stderr.flush()
