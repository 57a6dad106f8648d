"""Runs under ids that their callers give: claimed once, found by everybody who begins them again."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from typing import Any

from coterie.agents.backends.secrets import Secrets
from coterie.agents.workspace.trees.git import in_thread
from coterie.errors import RunExists, RunIsFinished, RunIsOwned
from coterie.execution.kernel.plan_secrets import referring
from coterie.execution.kernel.run_exit import RunExit, Waiting
from coterie.execution.kinds import Observe
from coterie.execution.runs import attention, given_ids
from coterie.execution.runs.control import LOOK_EVERY
from coterie.execution.runs.mutual_waits import check_wait
from coterie.execution.runs.outcome import Outcome, outcome_of
from coterie.execution.runs.removal import clear_ended
from coterie.execution.runs.repository import Runs
from coterie.history.journal.records import Usage
from coterie.history.views.run import fold
from coterie.team.planning.plan import Plan


async def begun(
    runs: Runs,
    run: str,
    plan: Plan,
    given: dict[str, Any],
    start: Callable[[], Awaitable[Outcome]],
    *,
    is_new: bool,
    observe: Observe | None = None,
) -> Outcome:
    """The outcome of *run*: of the one that *start* begins, or of the one that has begun under this id.

    Args:
        is_new: Whether this caller has claimed the id.

    Raises:
        RunExists: If it runs another plan, or had another input.
    """
    if not is_new and (found := await _found(runs, run, plan, given, observe)) is not None:
        return found
    try:
        with given_ids.claimed(runs.folder(run)):
            return await start()
    except (RunIsOwned, RunIsFinished):  # another process has begun it since
        found = await _found(runs, run, plan, given, observe)
        if found is None:
            raise
        return found


async def _found(runs: Runs, run: str, plan: Plan, given: dict[str, Any], observe: Observe | None) -> Outcome | None:
    """The outcome of *run*, which is followed while a process drives it; None: it has not begun.

    Raises:
        RunExists: If it runs another plan, or had another input.
        UsageError: If a turn of it calls this.
    """
    while not runs.has_begun(run):
        if not runs.is_owned(run):
            return None
        await asyncio.sleep(LOOK_EVERY)
    first = runs.first(run)
    if first.plan_hash != referring(plan).content_hash():
        raise RunExists(run, f"it runs another plan of {first.topology!r}")
    if first.input != Secrets(os.environ).hide_in(given):
        differ = [name for name in {**first.input, **given} if first.input.get(name) != given.get(name)]
        raise RunExists(run, f"it was begun with another input: {', '.join(sorted(differ))}")
    if runs.is_owned(run):
        check_wait(run)
        async for which, record in runs.follow(run):
            if observe is not None:
                observe(which, record)
    outcome = outcome_at(runs, run)
    if outcome.status != "stopped":
        await in_thread(clear_ended, runs, run)
    return outcome


def outcome_at(runs: Runs, run: str) -> Outcome:
    """The status of *run* by its journal, as its last owner left it."""
    view = fold(runs.read(run))
    status = view.state if view.state in ("completed", "failed") else "stopped"
    reason = view.reason
    if status == "stopped" and view.state == "running":
        reason = "running" if runs.is_owned(run) else "cut off"
    agents = {name for name, one in runs.plan(run).agents.items() if one.kind == "agent"}
    taken = sum(turn.agent in agents for turn in view.turns)  # those of child runs are in the usage of theirs
    questions = attention.open_in(runs, run) if status == "stopped" else []
    return outcome_of(
        RunExit(
            run=run,
            status=status,
            reason=reason,
            result=view.result,
            usage=sum((turn.usage for turn in view.turns), Usage(turns=taken)),
            seconds=view.seconds(time.time()),
            waiting=tuple(
                Waiting(run=one.run, turn=one.turn, agent=one.turn.rpartition("#")[0], prompt=one.text)
                for one in questions
                if one.kind == "question"
            ),
        )
    )
