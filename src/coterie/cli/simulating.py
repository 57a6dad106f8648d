"""`coterie simulate`: crash a team everywhere, in virtual time, before it is real."""

import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coterie.cli.options import STATE_DIR, AsJson, Set, StateDir
from coterie.cli.output import complain, say, say_json

if TYPE_CHECKING:
    from coterie.testing.series import Broken, Series


def simulate(
    target: Annotated[str, typer.Argument(metavar="TARGET", help="An .at file.", show_default=False)],
    seeds: Annotated[int, typer.Option(min=1, metavar="N", help="How many schedules.")] = 1000,
    first: Annotated[int, typer.Option("--from", min=0, metavar="S", help="The seed of the first.")] = 0,
    jobs: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="K", help="Over how many processes; by default one a processor.", show_default=False
        ),
    ] = None,
    params: Set = None,
    as_json: AsJson = False,
    state_dir: StateDir = STATE_DIR,
) -> int:
    """Crash a team everywhere, in virtual time, before it is real.

    Each schedule runs the team with stand-ins that answer, fail and take time at random, kills its owner at random
    places, takes the run up again, and checks that nothing was lost, repeated or decided otherwise. Nobody is asked
    and no command of the team is run. Equal seeds give equal schedules, over however many processes. The status is 1
    when a promise was broken: then the seed, its records and the command that repeats it are told. Of a file that is
    wrong --json says what `topology validate` would: {"file", "valid", "diagnostics"}; the status is 1, too.
    """
    from coterie.cli import text
    from coterie.cli.reading import plan_for_a_run
    from coterie.errors import TopologyError
    from coterie.planning.loop import LoopGiven
    from coterie.testing.series import Series, processors, simulate_many

    try:
        plan, _ = plan_for_a_run(target, LoopGiven(overrides=tuple(params or ())))
    except TopologyError as wrong:
        if not as_json:
            raise
        say_json({"file": target, "valid": False, "diagnostics": [one.to_dict() for one in wrong.diagnostics]})
        return 1
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
