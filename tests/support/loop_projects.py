"""Folders of loops whose agents are small programs, for tests with real files."""

import asyncio
import sys
from pathlib import Path
from typing import Any

from coterie.execution.runs import launch
from coterie.execution.runs.outcome import Outcome
from coterie.execution.runs.repository import Runs
from coterie.interfaces.cli.team_file import plan_for_a_run
from coterie.team.planning.loop import LoopGiven

STATE = Path(".autoloop")

AGENT = """
import json, os, pathlib, subprocess, sys
loop = json.loads(pathlib.Path(os.environ["COTERIE_TURN_FILE"]).read_text())["loop"]
turn = os.environ["COTERIE_TURN"]
emit = os.environ["AUTOLOOP_BIN"]
exec(pathlib.Path(sys.argv[1]).read_text())
"""


def project(folder: Path, script: str, settings: str = "", handoff: str = "") -> Path:
    """A loop in *folder* with one role, `worker`, for which *script* acts: it finds `turn`, `loop` and `emit`."""
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "agent.py").write_text(AGENT)
    (folder / "script.py").write_text(script)
    (folder / "topology.toml").write_text(
        'name = "work"\ncompletion = "done"\n'
        '[[role]]\nid = "worker"\nemits = ["done", "next"]\nprompt = "Work."\n'
        f'[handoff]\n"loop.start" = ["worker"]\nnext = ["worker"]\n{handoff}'
    )
    words = [str(folder / "agent.py"), str(folder / "script.py")]
    (folder / "autoloops.toml").write_text(
        f'backend.kind = "command"\nbackend.command = {sys.executable!r}\nbackend.args = {words!r}\n'
        f'backend.prompt_mode = "stdin"\nreview.enabled = false\nevent_loop.max_iterations = 4\n{settings}'
    )
    return folder


def run(loop: Path, *overrides: str, state_dir: Path = STATE, **options: Any) -> Outcome:
    """Run the loop in the folder *loop* here."""
    plan, _ = plan_for_a_run(str(loop), LoopGiven(overrides=overrides))
    return asyncio.run(launch.start(plan, {"prompt": "go"}, state_dir=state_dir, **options))


def records(run: str, *kinds: type) -> list[Any]:
    """What the journals of a *run* here and its child runs have of some *kinds*."""
    return [one for _, one in Runs(STATE).history(run) if isinstance(one, kinds)]
