"""Plan the loop in a folder, when a run begins and again while it runs."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from coterie import formats
from coterie.planning.loop import LoopGiven, LoopPlan
from coterie.planning.loops.resolve import Found, plan_loop
from coterie.planning.plan import Plan
from coterie.planning.resolve import teams_of


def plan_folder(
    folder: Path, *, given: LoopGiven | None = None, work_dir: Path | None = None, env: Mapping[str, str] | None = None
) -> tuple[Plan | None, Found]:
    """The plan of the loop in *folder* and all diagnostics; no plan if one is an error.

    Args:
        given: Options of the command line.
        work_dir: Where the run is started; by default the current folder.
        env: The environment, which locates the user's settings; by default this process's.
    """
    return _plan(folder, given=given, work_dir=work_dir, env=env)


def reread(plan: Plan, *, env: Mapping[str, str] | None = None) -> tuple[Plan | None, Found]:
    """Plan a running loop again from its current files and original command line; None if they are invalid.

    Settings fixed at the start keep their values. Each settings file is read with the same grammar as then.

    Raises:
        TypeError: If *plan* is not a loop read from a folder.
    """
    loop = plan.coordination
    if not isinstance(loop, LoopPlan) or not loop.place.project:
        raise TypeError(f"{plan.name!r} is not a loop read from a folder")
    place = loop.place
    return _plan(Path(place.project), given=loop.given, work_dir=Path(place.work_dir), env=env, before=loop)


def _plan(folder: Path, **how: Any) -> tuple[Plan | None, Found]:
    """The plan of the loop in *folder*; *how*: see `plan_loop`."""
    source = formats.read(folder)
    if source.topology is None or source.has_errors:
        return None, list(source.diagnostics)
    team = teams_of(Path(source.topology.file))
    made, found = plan_loop(source.topology, text=source.text, team=team, **how)
    return made, [*source.diagnostics, *found]
