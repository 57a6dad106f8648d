"""`coterie simulate`: run crash schedules of a team in virtual time, or compare the variants of a pattern."""

import shlex
import time
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coterie.cli.options import STATE_DIR, AsJson, Set
from coterie.cli.output import complain, rewrite, say, say_json

if TYPE_CHECKING:
    from coterie.planning.plan import Plan
    from coterie.testing.series import Broken, Series

SEEDS = 1000
"""How many schedules run by default."""

_Share = partial(typer.Option, min=0.0, max=1.0, metavar="R")


@dataclass(frozen=True, slots=True, kw_only=True)
class AssumptionOptions:
    """What a comparison assumes about agents besides their accuracy."""

    correlation: Annotated[float | None, _Share(help="How often all agents are right or wrong together.")] = None
    habit: Annotated[float | None, _Share(help="How often an agent repeats its answer when called again.")] = None
    bias: Annotated[float | None, _Share(help="How often a choosing agent takes the first candidate.")] = None
    conformity: Annotated[float | None, _Share(help="How often an agent adopts another agent's answer.")] = None
    overconfidence: Annotated[float | None, _Share(help="By how much confidence exceeds accuracy.")] = None
    failures: Annotated[float | None, _Share(help="How often an attempt fails.")] = None
    wrong: Annotated[int | None, typer.Option(min=1, metavar="K", help="Number of different wrong answers.")] = None


def simulate(
    target: Annotated[str, typer.Argument(metavar="TARGET", help="An .at or .yaml file.")],
    seeds: Annotated[int | None, typer.Option(min=1, metavar="N", help="Number of schedules (1000).")] = None,
    first: Annotated[int | None, typer.Option("--from", min=0, metavar="S", help="Seed of the first one (0).")] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, metavar="K", help="Number of processes (one per processor).")
    ] = None,
    accuracy: Annotated[
        str | None,
        typer.Option(
            metavar="A",
            help="Compare the variants of a pattern whose agents are right this often: 0.7, or 0.7,primary=0.8, or, "
            "with how often a wrong answer is rejected, 0.7,checker=0.9/0.6.",
        ),
    ] = None,
    runs: Annotated[int | None, typer.Option(min=1, metavar="N", help="Questions for each variant (1000).")] = None,
    seed: Annotated[int | None, typer.Option(metavar="S", help="Seed of the questions (0).")] = None,
    svg: Annotated[Path | None, typer.Option(metavar="FILE", help="Also draw the comparison into FILE.")] = None,
    params: Set = None,
    as_json: AsJson = False,
    state_dir: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where the records of a failed schedule are written (.coterie).")
    ] = None,
    *,
    assumed: AssumptionOptions,
) -> int:
    """Test that a team survives crashes, in virtual time; or compare the variants of a pattern.

    Each schedule runs the team with simulated agents that answer, fail and take time at random, kills the owner at
    random points, resumes the run, and checks that nothing was lost, repeated or decided differently. No backend is
    called and no command of the team runs. Equal seeds give equal schedules, whatever the number of processes. The exit
    status is 1 if a guarantee was violated; the output names the seed, its records and the command that repeats it. For
    an invalid file, --json prints the same as `topology validate`, {"file", "valid", "diagnostics"}, with status 1.

    With --accuracy, TARGET is a pattern and nothing crashes: agents with that accuracy answer many questions, in the
    team as it is, in variants of it, and as a single agent. A table and a plot show how often each is right and how
    many calls it takes. --runs, --seed, --svg and the assumptions from --correlation to --wrong apply only to a
    comparison; --seeds, --from, --jobs and --state-dir apply only to crash schedules.
    """
    from coterie.cli.team_file import plan_for_a_run
    from coterie.planning.loop import LoopGiven
    from coterie.planning.systems import contains_system

    assumptions = {name: value for name, value in asdict(assumed).items() if value is not None}
    if accuracy is None:
        _refuse({**assumptions, "runs": runs, "seed": seed, "svg": svg}, "--{} requires --accuracy")
    else:
        why = "--{} applies to crash schedules, not to a comparison with --accuracy; see --runs and --seed"
        _refuse({"seeds": seeds, "from": first, "jobs": jobs, "state-dir": state_dir}, why)
    plan, _ = plan_for_a_run(target, LoopGiven(overrides=tuple(params or ())))
    if contains_system(plan):
        from coterie.errors import UsageError

        what = f"{target!r} is a supervised system, or has one at a node, and its agents cannot be simulated"
        raise UsageError(f"{what}: simulate the files of flows, loops and patterns in it instead")
    if accuracy is not None:
        from coterie.cli.laboratory import compare_options

        return compare_options(plan, accuracy, assumptions, runs=runs, seed=seed or 0, svg=svg, as_json=as_json)
    given = "".join(f" --set {shlex.quote(word)}" for word in params or ())
    again = f"coterie simulate {shlex.quote(target)}{given} --seeds 1 --from"
    return _crash(plan, seeds or SEEDS, first or 0, jobs, again, as_json=as_json, state_dir=state_dir or STATE_DIR)


def _refuse(given: dict[str, Any], why: str) -> None:
    """Raise a `UsageError` for the first option of *given* that has a value."""
    from coterie.errors import UsageError

    for name, value in given.items():
        if value is not None:
            raise UsageError(why.format(name))


def _crash(
    plan: "Plan", seeds: int, first: int, jobs: int | None, again: str, *, as_json: bool, state_dir: Path
) -> int:
    """Run the crash schedules and print the results; *again* with a seed is the command that repeats one."""
    from coterie.cli.text import simulations as text
    from coterie.testing.series import Series, processors, simulate_many

    jobs = jobs or processors()
    began = time.perf_counter()
    found, interrupted = Series(), False

    def progress(series: Series) -> None:
        nonlocal found
        found = series
        rewrite(text.so_far(series, seeds, time.perf_counter() - began))

    try:
        found = simulate_many(plan, seeds, first=first, jobs=jobs, told=progress)
    except KeyboardInterrupt:
        interrupted = True
    seconds = time.perf_counter() - began
    rewrite("")
    broken = found.broken
    file = _keep(broken, plan.name, state_dir) if broken is not None else None
    again = f"{again} {broken.seed if broken is not None else first}"
    if as_json:
        say_json(_document(found, file, again, interrupted) | {"took": {"seconds": seconds, "jobs": jobs}})
    else:
        if found.schedules or broken is None:
            say(text.simulated(found))
        if broken is not None:
            say(text.broken(broken, str(file), again))
        complain(f"{text.so_far(found, seeds, seconds)}{', interrupted' if interrupted else ''}")
    return 130 if interrupted else int(broken is not None)


def _document(found: "Series", file: Path | None, again: str, interrupted: bool) -> dict[str, Any]:
    """Return the results as plain data, which depend on the seeds alone."""
    from msgspec import structs

    broken = found.broken
    return structs.asdict(found) | {
        "interrupted": interrupted,
        "broken": broken and {"seed": broken.seed, "what": broken.what, "file": str(file), "repeat": again},
    }


def _keep(broken: "Broken", team: str, state_dir: Path) -> Path:
    """Write the records of a schedule that violated a guarantee, one per line."""
    from coterie.ids import folder_name

    folder = state_dir / "simulations"
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{folder_name(team)}-{broken.seed}.jsonl"
    file.write_text("".join(f"{line}\n" for line in broken.journals), encoding="utf-8")
    return file
