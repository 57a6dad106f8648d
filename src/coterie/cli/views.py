"""The views of `coterie inspect`: each returns a value for `--json` and its text."""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from coterie import files
from coterie.cli.text import plans
from coterie.cli.text import runs as text
from coterie.runs import turn_detail
from coterie.runs.kinds import kind_of
from coterie.runs.note_files import NoteFiles
from coterie.runs.notes import Memory, Tasks
from coterie.runs.repository import Runs, find
from coterie.views import timeline as timeline_view
from coterie.views import usage as usage_view
from coterie.views import why as why_view

Shown = tuple[Any, str]


class Located(Struct, frozen=True, kw_only=True):
    """A run, or a child run, and the runs of its state directory."""

    runs: Runs
    run: str


def locate(run: str, state_dir: Path) -> Located:
    """Return the run that *run* names: an id, the beginning of one, or `last`, with `/TURN.ATTEMPT` for a child run.

    Raises:
        NoSuchRun: If there is no such run.
        JournalUnreadable: If it has no records.
    """
    runs, found = find(run, state_dir)
    runs.first(found)
    return Located(runs=runs, run=found)


def timeline(at: Located) -> Shown:
    """The events of the run."""
    lines = timeline_view.fold(at.runs.read(at.run)).lines
    return lines, text.timeline(lines)


def usage(at: Located) -> Shown:
    """Usage in total and by agent."""
    view = usage_view.fold(at.runs.read(at.run))
    return {"total": view.total, "agents": view.agents}, text.usage_table(view)


def journal(at: Located) -> Shown:
    """The records; as text, the unchanged file."""
    return list(at.runs.read(at.run)), _text(at.runs.file(at.run)).rstrip()


def _text(path: Path) -> str:
    with files.open_private(path, "rb") as file:
        return file.read().decode("utf-8", "replace")


def why(at: Located, turn: str) -> Shown:
    """The causes of a turn."""
    reasons = why_view.why(at.runs.read(at.run), turn)
    return reasons, "\n".join(f"{reason.seq:>5}  {reason.text}" for reason in reasons)


def turn(at: Located, turn: str) -> Shown:
    """The prompt, answer and attempts of a turn."""
    detail = turn_detail.detail(at.runs, at.run, turn)
    found, question = detail.view, detail.question
    value = {
        "run": at.run,
        "turn": found.id,
        "agent": found.agent,
        "state": found.state,
        "reason": found.reason,
        "inputs": found.inputs,
        "started": found.started,
        "finished": found.finished,
        "attempts": [asdict(one) | {"usage": structs.asdict(one.usage)} for one in found.attempts],
        "prompt": question.prompt,
        "prompt_is_exact": question.same,
        "outputs": found.outputs,
        "text": found.text,
        "usage": structs.asdict(found.usage),
        "child": detail.child,
    }
    return value, text.turn(value, detail.run_started)


def prompt(at: Located, turn: str) -> Shown:
    """The prompt of a turn, verbatim."""
    value = _found(at, turn)
    kept = {name: value[name] for name in ("run", "turn", "prompt", "prompt_is_exact")}
    exact = "" if value["prompt_is_exact"] else f"({text.INEXACT})\n\n"
    return kept, exact + value["prompt"]


def output(at: Located, turn: str) -> Shown:
    """The answer of a turn, verbatim; without one, the output and the failure of its last failed attempt."""
    value = _found(at, turn)
    kept = {name: value[name] for name in ("run", "turn", "state", "reason", "text", "outputs")}
    if value["state"] == "finished":
        return kept, value["text"].rstrip("\n") or f"({value['state']})"
    failed = next((one for one in reversed(value["attempts"]) if one["state"] == "failed"), None)
    if failed is not None:
        kept["failed"] = {name: failed[name] for name in ("n", "kind", "text", "log", "exit_code", "signal")}
    said = text.failed_output(failed) if failed is not None else ""
    return kept, "\n".join(filter(None, (said, f"({': '.join(filter(None, (value['state'], value['reason'])))})")))


def topology(at: Located) -> Shown:
    """The agents and the coordination of the run's current plan."""
    plan = at.runs.journal(at.run).plan_now()
    return plan, plans.plan(plan)


def memory(at: Located) -> Shown:
    """The memory of the run."""
    found = Memory.of(_notes_place(at, "memory"))
    return found.find(), found.listing()


def tasks(at: Located) -> Shown:
    """The open and the completed tasks of the run."""
    found = Tasks.of(_notes_place(at, "task"))
    return [*found.open, *found.done], found.listing()


def named(turn: str) -> str:
    """Return the id of a turn from its id or the number of a loop's iteration."""
    return f"iteration#{turn}" if turn.isdecimal() else turn


def _found(at: Located, name: str) -> dict[str, Any]:
    value: dict[str, Any] = turn(at, name)[0]
    return value


def _notes_place(at: Located, kind: str) -> Any:
    plan = at.runs.journal(at.run).plan_now()
    return NoteFiles(at.runs).files(at.run, kind_of(plan).notes, kind)


OF_RUNS: Mapping[str, Callable[[Located], Shown]] = {
    "timeline": timeline,
    "usage": usage,
    "topology": topology,
    "memory": memory,
    "tasks": tasks,
    "journal": journal,
}
OF_TURNS: Mapping[str, Callable[[Located, str], Shown]] = {
    "turn": turn,
    "prompt": prompt,
    "output": output,
    "why": why,
}
"""The views that take a turn."""
