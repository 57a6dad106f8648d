"""What happens when an owner's time with a run is over: its work goes back, and who wants to know is told.

The run's journal is closed by then. Nothing here fails a run: what goes wrong is said, and `notify.json` in the run's
folder keeps what became of the notification.
"""

import asyncio
import json
import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coterie import files
from coterie.backends.secrets import Secrets
from coterie.ids import folder_name
from coterie.planning.loop import LoopPlan
from coterie.planning.plan import Plan
from coterie.runs.trees.git import in_thread
from coterie.runs.trees.settling import settle, told

if TYPE_CHECKING:
    from coterie.runs.launch import Outcome
    from coterie.runs.trees.worktree import Tree

NOTIFY_WITHIN = 30.0
"""Seconds that the program which is notified may take."""
SAID_MOST = 500
"""Characters of what it wrote that are told when it failed."""


async def conclude(plan: Plan, outcome: "Outcome", state_dir: Path, cwd: Path) -> tuple[str, ...]:
    """Settle the work tree of a run that has ended or stopped, and notify; what there is to say of it."""
    tree = await in_thread(settle, state_dir, outcome.run, outcome.status)
    notices = list(told(tree)) if tree is not None else []
    loop = plan.coordination
    if isinstance(loop, LoopPlan) and loop.notify:
        document = message(plan, loop, outcome, state_dir, tree)
        folder = state_dir / "runs" / folder_name(outcome.run)
        started_in = Path(loop.place.work_dir) if loop.place.work_dir else cwd
        if problem := await asyncio.to_thread(notify, loop.notify, document, started_in, folder):
            notices.append(f"notify.command: {problem}")
    return tuple(notices)


def message(plan: Plan, loop: LoopPlan, outcome: "Outcome", state_dir: Path, tree: "Tree | None") -> dict[str, Any]:
    """What is said of the end of a run, as JSON."""
    result = outcome.result if isinstance(outcome.result, dict) else {}
    return {
        "run": outcome.run,
        "topology": plan.name,
        "preset": loop.place.preset,
        "status": outcome.status,
        "reason": str(result.get("reason", "")) or outcome.reason,
        "exit": outcome.exit,
        "iterations": outcome.iterations,
        "text": result.get("text", ""),
        "cost_usd": outcome.usage.cost,
        "turns": outcome.usage.turns,
        "seconds": outcome.usage.seconds,
        "folder": str((state_dir / "runs" / folder_name(outcome.run)).resolve()),
        "project": loop.place.project,
        "work_dir": loop.place.work_dir,
        "worktree": None
        if tree is None
        else {"status": tree.status, "path": tree.path, "branch": tree.branch, "files": list(tree.files)},
    }


def notify(argv: tuple[str, ...], document: dict[str, Any], cwd: Path, folder: Path) -> str:
    """Start a program with *document* as JSON on its standard input and wait for its end; what went wrong, if so."""
    secrets = Secrets(os.environ)
    problem = secrets.hide(_call(argv, json.dumps(document).encode(), cwd))
    kept = {"command": secrets.hide_in(argv), "problem": problem}
    with suppress(OSError):
        files.write(folder / "notify.json", json.dumps(kept).encode() + b"\n")
    return problem


def _call(argv: tuple[str, ...], given: bytes, cwd: Path) -> str:
    pipe = subprocess.PIPE
    try:
        process = subprocess.Popen(
            argv, cwd=cwd, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, start_new_session=True
        )
    except (OSError, ValueError) as error:
        return f"{argv[0]} cannot be started: {error}"
    with process:
        try:
            said, _ = process.communicate(given, timeout=NOTIFY_WITHIN)
        except subprocess.TimeoutExpired:
            return f"{argv[0]} took longer than {NOTIFY_WITHIN:g} s and was ended"
        finally:
            with suppress(ProcessLookupError, PermissionError):  # what it left behind goes with it
                os.killpg(process.pid, signal.SIGKILL)
    text = said.decode("utf-8", "replace").strip()[-SAID_MOST:]
    return f"{argv[0]} ended with {process.returncode}" + (f": {text}" if text else "") if process.returncode else ""
