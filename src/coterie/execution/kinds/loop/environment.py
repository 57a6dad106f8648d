"""Environment variables that describe the loop to an agent's process.

They are informative only: the run itself decides whether an event is allowed.
"""

import os
import re
from functools import lru_cache
from pathlib import Path

from coterie.agents.backends.agentside.client import NOTES_FOLDER
from coterie.agents.workspace.notes import EntryFiles, NoteSettings
from coterie.history.engines.loop import LoopEngine
from coterie.history.views.projected_lines import wave_id
from coterie.team.planning.place import RunPlace

PATHS = frozenset(
    f"AUTOLOOP_{name}" for name in ("PROJECT_DIR", "STATE_DIR", "JOURNAL_FILE", "MEMORY_FILE", "TASKS_FILE")
)
"""The variables that are paths."""
_BRANCH = re.compile(r"wave-(\d+)\.(\d+)#")


def environment(loop: LoopEngine, notes: NoteSettings, run: str, turn: str) -> dict[str, str]:
    """The `AUTOLOOP_*` variables of the turn *turn* of *run*; the attempt adds those of its files."""
    plan, state = loop.plan, loop.prompt_state(turn)
    place, view = plan.place, state.view
    return {
        "AUTOLOOP_RUN_ID": run,
        "AUTOLOOP_ITERATION": str(state.iteration),
        "AUTOLOOP_PROJECT_DIR": place.project or place.work_dir,
        "AUTOLOOP_STATE_DIR": str(branch_folder(place, run) if plan.branch else located(place, place.state_dir)),
        "AUTOLOOP_JOURNAL_FILE": str(located(place, place.journal_file)),
        "AUTOLOOP_MEMORY_FILE": str(notes.memory),
        "AUTOLOOP_TASKS_FILE": str(notes.tasks),
        "AUTOLOOP_RECENT_EVENT": view.recent,
        "AUTOLOOP_ALLOWED_ROLES": ",".join(view.suggested),
        "AUTOLOOP_ALLOWED_EVENTS": ",".join(view.allowed),
        "AUTOLOOP_COMPLETION_EVENT": plan.completion,
        "AUTOLOOP_COMPLETION_PROMISE": plan.promise,
        "AUTOLOOP_REQUIRED_EVENTS": ",".join(plan.required),
        "AUTOLOOP_LOG_LEVEL": place.log_level,
        "AUTOLOOP_REVIEW_MODE": "metareview" if view.review else "",
    }


def branch_folder(place: RunPlace, run: str) -> Path:
    """The folder for the files of *run*, a branch of a wave; see `coterie.execution.kinds.loop.waves`."""
    parent, _, turn = run.rpartition("/")
    found = _BRANCH.match(turn)
    assert found is not None, f"{run} is not the run of a branch"
    return located(place, place.state_dir) / "waves" / wave_id(parent, int(found[1])) / f"branch-{found[2]}"


def notes_folder(files: EntryFiles | None) -> dict[str, str]:
    """The environment variable with the folder of a run's notes; empty for a run without notes."""
    return {} if files is None or files.run is None else {NOTES_FOLDER: str(files.run.parent.absolute())}


def located(place: RunPlace, name: str) -> Path:
    """The absolute path of *name*; a relative one is resolved from the directory where the run was started."""
    return _path(place.work_dir if os.path.isabs(place.work_dir) else os.path.join(os.getcwd(), place.work_dir), name)


@lru_cache
def _path(folder: str, name: str) -> Path:
    return Path(folder, name)  # asked for at each iteration
