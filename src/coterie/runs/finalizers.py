"""The steps before a run ends or stops: merge its work tree, clear it, call `notify.command`.

The shell records each step before the next one begins, and each can be repeated after a kill. Only a merge that is not
possible fails the run; `notify.json` in the run's folder keeps the result of the notification.
"""

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from coterie import files
from coterie.backends.processes import unmarked
from coterie.backends.secrets import Secrets
from coterie.ids import folder_name
from coterie.journal.records import Record, RunNotified, TreeCleared, TreeMerged
from coterie.kernel.run_exit import Finalizers, RunExit, Step
from coterie.kinds import kind_of
from coterie.planning.place import RunPlace
from coterie.planning.plan import Plan
from coterie.runs.outcome import exit_of
from coterie.waits import waiting
from coterie.workspace.trees import disposal, report, worktree
from coterie.workspace.trees.git import in_thread
from coterie.workspace.trees.worktree import WorkTree

NOTIFY_WITHIN = 30.0
"""Time limit of `notify.command`, in seconds."""
SAID_MOST = 500
"""Characters of its output that are shown if it fails."""


class LocalFinalizers(Finalizers):
    """The steps before one root run ends or stops, in this process.

    Args:
        state_dir: Where the run is kept.
        run: Its id.
        cwd: Where `notify.command` starts unless the plan says.
        has_tree: Whether the run has a work tree.
    """

    def __init__(self, state_dir: Path, run: str, cwd: Path, *, has_tree: bool = False) -> None:
        self._state_dir, self._run, self._cwd, self._has_tree = state_dir, run, cwd, has_tree

    def closes(self, plan: Plan) -> bool:
        """Whether there is a work tree to merge, or a command to call."""
        return self._has_tree or kind_of(plan).notify != ()

    async def next_step(self, plan: Plan, done: Sequence[Record], ended: RunExit) -> Step | None:
        """The next step that is not among *done*, which takes its time on a thread."""
        step = self.step(plan, done, ended)
        return partial(in_thread, step) if step is not None else None

    def step(self, plan: Plan, done: Sequence[Record], ended: RunExit) -> Callable[[], Record] | None:
        """The next step that is not among *done*; None: there is none."""
        kinds = {type(record) for record in done}
        tree = worktree.read(self._state_dir, self._run) if ended.status != "stopped" else None
        if tree is not None:
            unmerged = tree.by_itself and ended.status == "completed"
            if unmerged and TreeMerged not in kinds:
                return partial(disposal.merge_at_end, self._state_dir, tree)
            if TreeMerged not in kinds and tree.status in ("running", "completed", "failed"):
                tree = disposal.set_status(self._state_dir, tree, ended.status)
            if TreeCleared not in kinds and tree.by_itself and (tree.removed or disposal.is_removal_due(tree)):
                return partial(disposal.remove_at_end, self._state_dir, tree)
        if kind_of(plan).notify and RunNotified not in kinds:
            place = kind_of(plan).place or RunPlace()
            started_in = Path(place.work_dir) if place.work_dir else self._cwd
            tree = worktree.read(self._state_dir, self._run)
            return partial(notified, plan, ended, self._state_dir, started_in, tree)
        return None


def notified(plan: Plan, ended: RunExit, state_dir: Path, cwd: Path, tree: WorkTree | None = None) -> RunNotified:
    """Call `notify.command` of *plan* in *cwd*, and say what became of it."""
    kind = kind_of(plan)
    document = message(plan, kind.place or RunPlace(), ended, state_dir, tree)
    folder = state_dir / "runs" / folder_name(ended.run)
    return RunNotified(status=ended.status, problem=notify(kind.notify, document, cwd, folder))


def notices(state_dir: Path, run: str, steps: Sequence[Record]) -> Iterator[str]:
    """What to say of a run that ended or stopped: where its work is, and which of the *steps* before that failed."""
    tree = worktree.read(state_dir, run)
    if tree is not None:
        yield from report.describe(tree)
        yield from report.unmerged_branches(state_dir, tree)
    for record in steps:
        match record:
            case TreeCleared(problem=problem) if problem:
                yield f"the work tree {record.path} could not be removed: {problem}"
            case RunNotified(problem=problem) if problem:
                yield f"notify.command: {problem}"


def message(plan: Plan, place: RunPlace, outcome: RunExit, state_dir: Path, tree: WorkTree | None) -> dict[str, Any]:
    """What is said of the end of a run, as JSON."""
    result = outcome.result if isinstance(outcome.result, dict) else {}
    return {
        "run": outcome.run,
        "topology": plan.name,
        "preset": place.preset,
        "status": outcome.status,
        "reason": str(result.get("reason", "")) or outcome.reason,
        "exit": exit_of(outcome),
        "iterations": outcome.iterations,
        "text": result.get("text", ""),
        "cost_usd": outcome.usage.cost,
        "turns": outcome.usage.turns,
        "seconds": outcome.usage.seconds,
        "folder": str((state_dir / "runs" / folder_name(outcome.run)).resolve()),
        "project": place.project,
        "work_dir": place.work_dir,
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
        with unmarked():
            process = subprocess.Popen(
                argv, cwd=cwd, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, start_new_session=True
            )
    except (OSError, ValueError) as error:
        return f"{argv[0]} cannot be started: {error}"
    with process:
        try:
            with waiting(f"{argv[0]}, the notify.command"):
                said, _ = process.communicate(given, timeout=NOTIFY_WITHIN)
        except subprocess.TimeoutExpired:
            return f"{argv[0]} took longer than {NOTIFY_WITHIN:g} s and was ended"
        finally:
            with suppress(ProcessLookupError, PermissionError):  # what it left behind goes with it
                os.killpg(process.pid, signal.SIGKILL)
    text = said.decode("utf-8", "replace").strip()[-SAID_MOST:]
    return f"{argv[0]} ended with {process.returncode}" + (f": {text}" if text else "") if process.returncode else ""
