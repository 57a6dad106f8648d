"""Plan the loop in a folder, when a run begins and again while it runs."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from coterie.errors import TopologyError
from coterie.team import formats
from coterie.team.planning.changes import again
from coterie.team.planning.loop import LoopGiven, LoopPlan
from coterie.team.planning.loops.resolve import Found, plan_loop
from coterie.team.planning.plan import Plan, mapped
from coterie.team.planning.resolve import teams_of


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
    made, found = _plan(Path(place.project), given=loop.given, work_dir=Path(place.work_dir), env=env, before=loop)
    return again(made) if made is not None else None, found


def planned_for_copies(plan: Plan, root: str) -> Plan:
    """*plan* for agents that work on copies of *root*: its loops are read again, so that their texts name no other.

    Raises:
        TopologyError: If the files of a loop are no longer valid.
    """

    def reads(one: Plan) -> Plan:
        loop = one.coordination
        if not isinstance(loop, LoopPlan) or not loop.place.project:
            return one
        place = replace(loop.place, root=root)
        made, found = reread(replace(one, coordination=replace(loop, place=place)))
        if made is None:
            raise TopologyError([each for each in found if each.is_error])
        return replace(made, agents={name: one.agents.get(name, agent) for name, agent in made.agents.items()})

    return mapped(plan, reads)


def _plan(folder: Path, **how: Any) -> tuple[Plan | None, Found]:
    """The plan of the loop in *folder*; *how*: see `plan_loop`."""
    source = formats.read(folder)
    if source.topology is None or source.has_errors:
        return None, list(source.diagnostics)
    team = teams_of(Path(source.topology.file))
    made, found = plan_loop(source.topology, text=source.text, team=team, **how)
    return made, [*source.diagnostics, *found]
