"""The paths of the submitted files on the node where a turn works: of fields that are paths, and of nothing else.

Prompts, earlier results, commands, variables of an agent and addresses reach a turn as they were written, and its
answer reaches the journal so. Texts name submitted files by relative paths or as `{here}`.
"""

from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from coterie.agents.backends.base import OwnRepository, Request
from coterie.execution.kinds.loop.environment import PATHS
from coterie.team.planning.loop import LoopPlan
from coterie.team.planning.plan import Plan, moved

Move = Callable[[str], str]


def moving(there: Path, here: Path) -> Move:
    """Gives a path below *here* for each below *there*, and every other one as it is."""

    def move(path: str) -> str:
        return str(here / Path(path).relative_to(there)) if Path(path).is_relative_to(there) else path

    return move


def placed_request(request: Request, move: Move, cwd: Path, repository: OwnRepository | None = None) -> Request:
    """*request* for an attempt that works in *cwd* and has *repository*, with its paths as *move* gives them.

    A node imports Python from no files of the run, which agents change: only from its own path, and from the folder
    that the submitted file had, if there is such a folder on its machine.
    """
    imports = request.agent.options.keys() & {"type", "python_tools"}
    return replace(
        request,
        agent=replace(request.agent, cwd=move(request.agent.cwd)),
        here=request.here if request.here is None or imports else Path(move(str(request.here))),
        team=tuple(Path(move(str(path))) for path in request.team),
        env={name: move(value) if name in PATHS else value for name, value in request.env.items()},
        cwd=cwd,
        repository=repository,
    )


def placed_plan(plan: Plan, there: Path, here: Path) -> Plan:
    """*plan*, whose loops are read from the files in *there*, for a copy of them in *here*."""
    loop = plan.coordination
    if isinstance(loop, LoopPlan) and not loop.place.root:  # of a release whose texts name folders of that machine
        plan = replace(plan, coordination=replace(loop, place=replace(loop.place, root=str(there))))
    return moved(plan, moving(there, here))
