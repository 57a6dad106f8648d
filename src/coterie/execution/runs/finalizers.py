"""The closing steps of a run: merge its work tree, remove it, call `notify.command`.

The shell records each step before the next one begins, and each can be repeated after a kill. Only an impossible merge
fails the run; `notify.json` in the run's folder keeps the result of the notification.
"""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from coterie.agents.backends.secrets import Secrets
from coterie.agents.workspace.trees import disposal, report, worktree
from coterie.agents.workspace.trees.branches import isolates
from coterie.agents.workspace.trees.git import find, in_thread
from coterie.agents.workspace.trees.worktree import WorkTree
from coterie.base import files
from coterie.base.ids import folder_name
from coterie.base.waits import waiting
from coterie.execution.kernel.run_exit import Finalizers, RunExit, Step
from coterie.execution.kinds import kind_of
from coterie.execution.runs.notifications import leave, marker, problems, send
from coterie.execution.runs.notify_process import NO_CHANNELS, WITHIN, Channels, Notification, call, claimed
from coterie.execution.runs.outcome import exit_of
from coterie.execution.runs.repository import Runs
from coterie.execution.runs.tool_files import changed_tool_files
from coterie.history.journal.records import Record, RunFinished, RunNotified, RunStopped, TreeCleared, TreeMerged
from coterie.history.views.attention import QUOTA
from coterie.team.planning.place import RunPlace
from coterie.team.planning.plan import Plan

NOTIFY_WITHIN = WITHIN
"""Time limit of `notify.command`, in seconds."""


class LocalFinalizers(Finalizers):
    """The closing steps of one root run in this process.

    Args:
        state_dir: The state directory of the run.
        run: Its id.
        cwd: Where `notify.command` starts unless the plan sets it.
        has_tree: Whether the run has a work tree.
        channels: The operator's channels for messages, in addition to the `notify.command` of a loop.
    """

    def __init__(
        self, state_dir: Path, run: str, cwd: Path, channels: Channels = NO_CHANNELS, *, has_tree: bool = False
    ) -> None:
        self._state_dir, self._run, self._cwd, self._has_tree = state_dir, run, cwd, has_tree
        self._channels = channels

    def closes(self, plan: Plan) -> bool:
        """Whether there may be a work tree to merge, or a message to send."""
        return self._has_tree or bool(self._now(plan)) or isolates(plan)

    def _now(self, plan: Plan) -> Channels:
        """The channels for messages; a loop may have read its `notify.command` again."""
        return replace(self._channels, command=kind_of(plan).project.notify or self._channels.command)

    async def next_step(self, plan: Plan, done: Sequence[Record], ended: RunExit) -> Step | None:
        """The next step that is not among *done*; it runs in a thread."""
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
        asks = ended.status == "stopped" and ended.reason == "waiting"  # the message about what it waits for was sent
        if self._now(plan) and not asks and RunNotified not in kinds:
            place = kind_of(plan).project.place or RunPlace()
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
    """Notify that a run of *plan* ends or stops: call the command in *cwd*, and record the result.

    A message that was sent before a kill is not sent again: it is identified by the number of ends so far, or by its
    quota.

    Args:
        channels: Where to send it; by default to `notify.command` of *plan*.
    """
    kind = kind_of(plan)
    document = message(plan, kind.project.place or RunPlace(), ended, state_dir, tree)
    runs = Runs(state_dir)
    folder, problem = runs.folder(ended.run), ""
    channels = Channels(command=kind.project.notify) if channels is None else channels
    ends = sum(isinstance(one, RunStopped | RunFinished) for one in runs.read(ended.run)) if runs.has(ended.run) else 0
    occasion = document["reason"] if document["event"] == "quota" else str(ends)
    mark = marker(folder, "end", ended.run, occasion)
    is_new = True
    if channels.command and runs.has(ended.run):  # on a cluster the records and the sent messages are elsewhere
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


def notices(state_dir: Path, run: str, steps: Sequence[Record], cwd: Path) -> Iterator[str]:
    """Notices about a run in *cwd* that ended or stopped: where its work is, and which closing *steps* failed."""
    tree = worktree.read(state_dir, run)
    if tree is not None:
        yield from report.describe(tree)
    yield from report.unmerged_branches(state_dir, run)
    for one in [tree] if tree is not None else [*worktree.trees_below(worktree.folder(state_dir, run))][:1]:
        yield from report.lost_commits(find(Path(one.origin)), run)
    if tree is not None:
        yield from report.unsigned(tree)
    yield from changed_tool_files(state_dir, run, tree, cwd)
    for record in steps:
        match record:
            case TreeCleared(problem=problem) if problem:
                yield f"the work tree {record.path} stays: {problem}"
            case TreeCleared(ignored=ignored) if ignored:
                yield f"with the work tree these ignored files were removed: {ignored}"
            case RunNotified(problem=problem) if problem:
                yield f"notify.command: {problem}"
    yield from problems(Runs(state_dir).folder(run))


def message(plan: Plan, place: RunPlace, outcome: RunExit, state_dir: Path, tree: WorkTree | None) -> dict[str, Any]:
    """The document about the end of a run, as JSON."""
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
    """Run a program with *document* as JSON on its standard input; return the problem, or an empty text."""
    secrets = Secrets(os.environ)
    with waiting(f"{argv[0]}, the notify.command"):
        problem = secrets.hide(call(argv, json.dumps(document).encode(), cwd, NOTIFY_WITHIN))
    kept = {"command": secrets.hide_in(argv), "problem": problem}
    with suppress(OSError):
        files.write(folder / "notify.json", json.dumps(kept).encode() + b"\n")
    return problem


def _next_command(outcome: RunExit) -> str:
    """The command that continues the run; empty for a completed run."""
    if outcome.status == "stopped":
        return f"coterie resume {'--when-open ' if outcome.reason.startswith(QUOTA) else ''}{outcome.run}"
    return f"coterie inspect {outcome.run}" if outcome.status == "failed" else ""
