"""`coterie simulate`: run crash schedules of a team in virtual time."""

import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from coterie.interfaces.cli.options import STATE_DIR, AsJson, Set
from coterie.interfaces.cli.output import complain, rewrite, say, say_json
from coterie.interfaces.cli.parameters import Arg, Opt

if TYPE_CHECKING:
    from coterie.team.planning.plan import Plan
    from coterie.testing.series import Broken, Series

SEEDS = 1000
"""How many schedules run by default."""


def simulate(
    target: Annotated[str, Arg("TARGET", "An .at or .yaml file.")],
    seeds: Annotated[int, Opt("--seeds N", "Number of schedules (1000).", min=1)] = SEEDS,
    first: Annotated[int, Opt("--from S", "Seed of the first one.", min=0)] = 0,
    jobs: Annotated[int | None, Opt("--jobs K", "Number of processes (one per processor).", min=1)] = None,
    params: Set = None,
    as_json: AsJson = False,
    state_dir: Annotated[
        Path, Opt("--state-dir DIR", "Where the records of a failed schedule are written (.coterie).")
    ] = STATE_DIR,
) -> int:
    """Test that a team survives crashes, in virtual time.

    Each schedule runs the team with simulated agents that answer, fail and take time at random, kills the owner at
    random points, resumes the run, and checks that nothing was lost, repeated or decided differently. No backend is
    called and no command of the team runs. Equal seeds give equal schedules, whatever the number of processes. The exit
    status is 1 if a guarantee was violated; the output names the seed, its records and the command that repeats it. For
    an invalid file, --json prints the same as `topology validate`, {"file", "valid", "diagnostics"}, with status 1.
    """
    from coterie.interfaces.cli.team_file import plan_for_a_run
    from coterie.team.planning.loop import LoopGiven
    from coterie.team.planning.systems import contains_system

    plan, _ = plan_for_a_run(target, LoopGiven(overrides=tuple(params or ())))
    if contains_system(plan):
        from coterie.errors import UsageError

        what = f"{target!r} is a supervised system, or has one at a node, and its agents cannot be simulated"
        raise UsageError(f"{what}: simulate the files of flows, loops and patterns in it instead")
    given = "".join(f" --set {shlex.quote(word)}" for word in params or ())
    again = f"coterie simulate {shlex.quote(target)}{given} --seeds 1 --from"
    return _crash(plan, seeds, first, jobs, again, as_json=as_json, state_dir=state_dir)


def _crash(
    plan: "Plan", seeds: int, first: int, jobs: int | None, again: str, *, as_json: bool, state_dir: Path
) -> int:
    """Run the crash schedules and print the results; *again* with a seed is the command that repeats one."""
    from coterie.interfaces.cli.text import simulations as text
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
    from coterie.base.ids import folder_name

    folder = state_dir / "simulations"
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{folder_name(team)}-{broken.seed}.jsonl"
    file.write_text("".join(f"{line}\n" for line in broken.journals), encoding="utf-8")
    return file
