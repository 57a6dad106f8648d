"""The views of `coterie inspect`: each returns a value for `--json` and its text."""

import time
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any

import msgspec

from coterie.agents.backends.base import Text as Said
from coterie.agents.workspace.notes import Memory, Tasks
from coterie.base.waits import waiting
from coterie.execution.kinds import kind_of
from coterie.execution.runs import control, endings, set_detail, statistics, turn_detail
from coterie.execution.runs.attempt_output import StreamReader
from coterie.execution.runs.attention import open_in
from coterie.execution.runs.changed_files import changed_files
from coterie.execution.runs.repository import Runs, Where, find
from coterie.history.journal.records import TurnStarted
from coterie.history.journal.rules import root_of
from coterie.history.views import failure as failure_view
from coterie.history.views import live as live_view
from coterie.history.views import timeline as timeline_view
from coterie.history.views import usage as usage_view
from coterie.history.views import why as why_view
from coterie.interfaces.cli.output import width, write
from coterie.interfaces.cli.text import plan_run, plans
from coterie.interfaces.cli.text import runs as text
from coterie.interfaces.cli.text.outcomes import ending_lines
from coterie.team.planning.plan import Plan

Shown = tuple[Any, str]
_OF_PLAN = ("runs", "teams", "nodes", "arrows", "stages", "actors")
BEGINS_WITHIN = 10.0
"""Seconds for which a run is waited for that a process has just started."""


def locate(run: str, where: Where) -> tuple[Runs, str]:
    """Return the run that *run* names: an id, the beginning of one, or `last`, with `/TURN.ATTEMPT` for a child run.

    A run has a folder and an owner before its first record, which is waited for.

    Raises:
        NoSuchRun: If there is no such run.
        JournalUnreadable: If it has no records.
    """
    runs, found = find(run, where)
    until = time.monotonic() + BEGINS_WITHIN
    with waiting(f"run {found} to begin"):
        while not runs.has_begun(found) and runs.is_owned(found) and time.monotonic() < until:
            time.sleep(0.05)
    runs.first(found)
    return runs, found


def timeline(runs: Runs, run: str, begin: int = 1, most: int | None = None) -> Shown:
    """The events of the run, from the record *begin* on, at most so many."""
    lines = timeline_view.fold(runs.read(run)).lines[begin - 1 :][:most]
    why = why_it_stands(runs, run) if begin == 1 and most is None else ""
    return lines, "\n".join(filter(None, (text.timeline(lines), why)))


def why_it_stands(runs: Runs, run: str) -> str:
    """Why the root run *run* does not go on, with the next line to type; empty if it works or completed."""
    if "/" in run:
        return ""
    facts = endings.facts_of(runs.read(run))
    asked = open_in(runs, run) if facts.state == "stopped" else []
    found = endings.ending_of(runs, run, facts, asked)
    return ending_lines(found) if found is not None else ""


def usage(runs: Runs, run: str) -> Shown:
    """Usage in total and by agent."""
    view = usage_view.fold(runs.read(run))
    return {"total": view.total, "agents": view.agents}, text.usage_table(view.agents, view.total, width=width())


def usage_by(runs: Runs, run: str, by: str) -> Shown:
    """Usage of the run and its child runs by role, model, backend or run."""
    return used(statistics.usage_by(runs.tree(run), by), by)


def used(found: Mapping[str, usage_view.Totals], by: str) -> Shown:
    """Usage in total and by a key."""
    total = usage_view.Totals()
    for totals in found.values():
        total.merge(totals)
    return {"total": total, "by": by, "used": found}, text.usage_table(found, total, by, width())


def journal(runs: Runs, run: str, begin: int = 1, most: int | None = None) -> Shown:
    """The records; as text, a page of them as JSON lines. `print_journal` prints the whole file."""
    records = list(islice(runs.read(run, begin), most))
    return records, "\n".join(msgspec.json.encode(one).decode() for one in records)


def print_journal(runs: Runs, run: str) -> None:
    """Print the unchanged file, without the white space at its end."""
    held = ""
    for part in runs.text(run):
        if shown := part.rstrip():
            write(held + shown)
            held = ""
        held += part[len(shown) :]
    write("\n")


def live(runs: Runs, run: str, since: str = "") -> Shown:
    """The run and its child runs as tables; *since* a position only what has changed."""
    plan, records = _inherited(runs, run), runs.history(run)
    if since:
        value = live_view.changes_since(records, run, live_view.read_position(since, run), plan)
    else:
        value = _folded(runs, run).state()
    at = live_view.position_text(value.get("position", {}))
    return value, "\n".join([*(f"{len(rows)} {name}" for name, rows in value.items()), f"position: {at}"])


def plan(runs: Runs, run: str) -> Shown:
    """The plan with the run on it: nodes with their state, arrows that fired, actors."""
    tables = _folded(runs, run).state(_OF_PLAN)
    shown = "\n".join(filter(None, (plan_run.plan(tables), why_it_stands(runs, run))))
    return {name: tables[name] for name in _OF_PLAN}, shown


def cost(runs: Runs, run: str) -> Shown:
    """The cost by agent, model and turn, and over time, beside the budget and the proved worst case."""
    from coterie.proofs.worst_case import costs_and_bound

    found = costs_and_bound(_folded(runs, run))
    return found, plan_run.costs(found, plan_run.worst(found.worst))


def failure(runs: Runs, run: str) -> Shown:
    """The turn that failed first, with the end of its output."""
    found = failure_view.first_failure(_folded(runs, run))
    return found, plan_run.failure(found)


def files(runs: Runs, run: str, turn: str) -> Shown:
    """The files that a turn changed."""
    set_detail.check_turn(runs, run, turn, "changed files")
    found = changed_files(runs, run, turn)
    return found, plan_run.files(found)


def _folded(runs: Runs, run: str) -> live_view.LiveRun:
    found = live_view.fold(runs.history(run), run, _inherited(runs, run))
    found.own(runs.is_owned(root_of(run)))
    return found


def _inherited(runs: Runs, run: str) -> Plan | None:
    """The plan of a child run, which its parent's contains."""
    return runs.plan(run) if "/" in run else None


def html(runs: Runs, run: str) -> Shown:
    """The run as one page."""
    from coterie.interfaces.ui.single_file import page_of

    page = page_of(runs, root_of(run))
    return page, page


def why(runs: Runs, run: str, turn: str) -> Shown:
    """The causes of a turn."""
    reasons = why_view.why(runs.read(run), turn)
    return reasons, "\n".join(f"{reason.seq:>5}  {reason.text}" for reason in reasons)


def turn(runs: Runs, run: str, turn: str) -> Shown:
    """The prompt, answer and attempts of a turn; the items and outputs of a set."""
    if (its := set_detail.detail(runs, run, turn)) is not None:
        return its.data(), text.set_(its, runs.first(run).at)
    detail = turn_detail.detail(runs, run, turn)
    value = detail.data()
    return value, text.turn(value, detail.run_started)


def prompt(runs: Runs, run: str, turn: str) -> Shown:
    """The prompt of a turn, verbatim."""
    set_detail.check_turn(runs, run, turn, "prompts")
    value = turn_detail.detail(runs, run, turn).data()
    kept = {name: value[name] for name in ("run", "turn", "prompt", "prompt_is_exact")}
    exact = "" if value["prompt_is_exact"] else f"({text.INEXACT})\n\n"
    return kept, exact + value["prompt"]


def output(runs: Runs, run: str, turn: str) -> Shown:
    """The answer of a turn, verbatim.

    While it runs, what it has printed so far; without an answer, the output of its last failed attempt.
    """
    if (its := set_detail.detail(runs, run, turn)) is not None:
        kept = {name: its.data()[name] for name in ("run", "turn", "state", "text", "outputs")}
        return kept, its.text.rstrip("\n") or f"({its.state})"
    value = turn_detail.detail(runs, run, turn).data()
    kept = {name: value[name] for name in ("run", "turn", "state", "reason", "text", "outputs")}
    if value["state"] == "finished":
        return kept, value["text"].rstrip("\n") or f"({value['state']})"
    if value["state"] == "running":
        printed = [one.event for one in StreamReader(runs, run, turn).read() if isinstance(one.event, Said)]
        kept["text"] = "".join(one.text for one in printed if one.channel != "log")
        kept["log"] = "".join(one.text for one in printed if one.channel == "log")
        return kept, "\n".join(filter(None, (text.failed_output(kept), "(running)")))
    failed = next((one for one in reversed(value["attempts"]) if one["state"] == "failed"), None)
    if failed is not None:
        kept["failed"] = {name: failed[name] for name in ("n", "kind", "text", "log", "exit_code", "signal")}
    said = text.failed_output(failed) if failed is not None else ""
    return kept, "\n".join(filter(None, (said, f"({': '.join(filter(None, (value['state'], value['reason'])))})")))


def topology(runs: Runs, run: str) -> Shown:
    """The agents and the coordination of the run's current plan."""
    plan = runs.journal(run).plan_now()
    return plan, plans.plan(plan)


def memory(runs: Runs, run: str) -> Shown:
    """The memory of the run."""
    found = Memory.of(_notes_place(runs, run, "memory"))
    return found.find(), found.listing()


def tasks(runs: Runs, run: str) -> Shown:
    """The open and the completed tasks of the run."""
    found = Tasks.of(_notes_place(runs, run, "task"))
    return [*found.open, *found.done], found.listing()


def only_turn(runs: Runs, run: str) -> str | None:
    """Return the turn of a run that has only one, as a branch of a wave has; otherwise None."""
    turns = {record.turn: None for record in runs.read(run) if isinstance(record, TurnStarted)}
    return next(iter(turns)) if len(turns) == 1 else None


def named(turn: str) -> str:
    """Return the id of a turn from its id or the number of a loop's iteration."""
    return f"iteration#{turn}" if turn.isdecimal() else turn


def _notes_place(runs: Runs, run: str, kind: str) -> Any:
    plan = runs.journal(run).plan_now()
    return control.notes(runs, run, kind_of(plan).project.notes, kind)


OF_RUNS: Mapping[str, Callable[[Runs, str], Shown]] = {
    "timeline": timeline,
    "plan": plan,
    "cost": cost,
    "failure": failure,
    "live": live,
    "usage": usage,
    "topology": topology,
    "memory": memory,
    "tasks": tasks,
    "journal": journal,
    "html": html,
}
OF_TURNS: Mapping[str, Callable[[Runs, str, str], Shown]] = {
    "turn": turn,
    "prompt": prompt,
    "output": output,
    "why": why,
    "files": files,
}
"""The views that take a turn."""
PAGED: Mapping[str, Callable[[Runs, str, int, int | None], Shown]] = {"timeline": timeline, "journal": journal}
"""The views of records, which can be read in pages."""
