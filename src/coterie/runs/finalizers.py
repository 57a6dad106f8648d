"""The steps before a run ends or stops: merge its work tree, clear it, call `notify.command`.

The shell records each step before the next one begins, and each can be repeated after a kill. Only a merge that is not
possible fails the run; `notify.json` in the run's folder keeps the result of the notification.
"""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from coterie import files
from coterie.backends.secrets import Secrets
from coterie.ids import folder_name
from coterie.journal.records import Record, RunFinished, RunNotified, RunStopped, TreeCleared, TreeMerged
from coterie.kernel.run_exit import Finalizers, RunExit, Step
from coterie.kinds import kind_of
from coterie.planning.place import RunPlace
from coterie.planning.plan import Plan
from coterie.runs.notifications import leave, marker, problems, send
from coterie.runs.notify_process import NO_CHANNELS, WITHIN, Channels, Notification, call, claimed
from coterie.runs.outcome import exit_of
from coterie.runs.repository import Runs
from coterie.views.attention import QUOTA
from coterie.waits import waiting
from coterie.workspace.trees import disposal, report, worktree
from coterie.workspace.trees.git import in_thread
from coterie.workspace.trees.worktree import WorkTree

NOTIFY_WITHIN = WITHIN
"""Time limit of `notify.command`, in seconds."""


class LocalFinalizers(Finalizers):
    """The steps before one root run ends or stops, in this process.

    Args:
        state_dir: Where the run is kept.
        run: Its id.
        cwd: Where `notify.command` starts unless the plan says.
        has_tree: Whether the run has a work tree.
        channels: Where the operator wants messages, besides the `notify.command` of a loop.
    """

    def __init__(
        self, state_dir: Path, run: str, cwd: Path, channels: Channels = NO_CHANNELS, *, has_tree: bool = False
    ) -> None:
        self._state_dir, self._run, self._cwd, self._has_tree = state_dir, run, cwd, has_tree
        self._channels = channels

    def closes(self, plan: Plan) -> bool:
        """Whether there is a work tree to merge, or a message to send."""
        return self._has_tree or bool(self._now(plan))

    def _now(self, plan: Plan) -> Channels:
        """Where messages go; a loop may have read its `notify.command` again."""
        return replace(self._channels, command=kind_of(plan).notify or self._channels.command)

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
        asks = ended.status == "stopped" and ended.reason == "waiting"  # what it waits for was sent
        if self._now(plan) and not asks and RunNotified not in kinds:
            place = kind_of(plan).place or RunPlace()
            started_in = Path(place.work_dir) if place.work_dir else self._cwd
            tree = worktree.read(self._state_dir, self._run)
            return partial(notified, plan, ended, self._state_dir, started_in, tree, self._now(plan))
        return None


def notified(
    plan: Plan,
    ended: RunExit,
    state_dir: Path,
    cwd: Path,
    tree: WorkTree | None = None,
    channels: Channels | None = None,
) -> RunNotified:
    """Send that a run of *plan* ends, or stops: call the command in *cwd*, and say what became of it.

    What was sent before a kill is not sent again: the number of ends so far identifies the message, or its quota.

    Args:
        channels: Where it goes; by default to `notify.command` of *plan*.
    """
    kind = kind_of(plan)
    document = message(plan, kind.place or RunPlace(), ended, state_dir, tree)
    runs = Runs(state_dir)
    folder, problem = runs.folder(ended.run), ""
    channels = Channels(command=kind.notify) if channels is None else channels
    ends = sum(isinstance(one, RunStopped | RunFinished) for one in runs.read(ended.run)) if runs.has(ended.run) else 0
    occasion = document["reason"] if document["event"] == "quota" else str(ends)
    mark = marker(folder, "end", ended.run, occasion)
    is_new = True
    if channels.command and runs.has(ended.run):  # on a cluster its records, and what was sent, are elsewhere
        claim = claimed(Path(f"{mark}.command"))
        if is_new := claim is not None:
            os.close(claim)
    if channels.command and is_new:
        problem = notify(channels.command, document, cwd, folder)
    said = Notification(
        marker=mark,
        cwd=str(cwd),
        title=f"{plan.name}: {ended.status}",
        what=document["what"],
        answer=document["answer"],
        document=document,
    )
    leave(send(replace(channels, command=()), said))
    return RunNotified(status=ended.status, problem=problem)


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
    yield from problems(Runs(state_dir).folder(run))


def message(plan: Plan, place: RunPlace, outcome: RunExit, state_dir: Path, tree: WorkTree | None) -> dict[str, Any]:
    """What is said of the end of a run, as JSON."""
    result = outcome.result if isinstance(outcome.result, dict) else {}
    reason = str(result.get("reason", "")) or outcome.reason
    return {
        "event": "quota" if outcome.status == "stopped" and reason.startswith(QUOTA) else "end",
        "what": f"run {outcome.run} {outcome.status}" + (f": {reason}" if reason else ""),
        "answer": _next_command(outcome),
        "run": outcome.run,
        "topology": plan.name,
        "preset": place.preset,
        "status": outcome.status,
        "reason": reason,
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
    with waiting(f"{argv[0]}, the notify.command"):
        problem = secrets.hide(call(argv, json.dumps(document).encode(), cwd, NOTIFY_WITHIN))
    kept = {"command": secrets.hide_in(argv), "problem": problem}
    with suppress(OSError):
        files.write(folder / "notify.json", json.dumps(kept).encode() + b"\n")
    return problem


def _next_command(outcome: RunExit) -> str:
    """The command to go on with; none for a run that completed."""
    if outcome.status == "stopped":
        return f"coterie resume {'--when-open ' if outcome.reason.startswith(QUOTA) else ''}{outcome.run}"
    return f"coterie inspect {outcome.run}" if outcome.status == "failed" else ""
