"""The views of `coterie inspect`: each gives a value, for `--json`, and its text."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from coterie.cli import text
from coterie.errors import NoSuchRun, NoSuchTurn
from coterie.journal.jsonl import JsonlStore
from coterie.runs import index
from coterie.runs.asked import asked
from coterie.runs.folder import DiskPlace
from coterie.views import run as run_view
from coterie.views import timeline as timeline_view
from coterie.views import usage as usage_view
from coterie.views import why as why_view

Shown = tuple[Any, str]


class Located(Struct, frozen=True, kw_only=True):
    """A run, or a child run, and the store that has its journal."""

    store: JsonlStore
    run: str


def locate(run: str, state_dir: Path) -> Located:
    """The run that *run* names: an id or the beginning of one, `last`, or with `/TURN.ATTEMPT` a child run.

    Raises:
        NoSuchRun: If there is none.
    """
    root, _, below = run.partition("/")
    folder = index.find(root, state_dir)
    located = Located(store=JsonlStore(folder.parent.parent), run=f"{folder.name}/{below}" if below else folder.name)
    if not (located.store.folder(located.run) / "journal.jsonl").exists():
        raise NoSuchRun(located.run)
    return located


def timeline(at: Located) -> Shown:
    """The run in sentences."""
    lines = timeline_view.fold(at.store.read(at.run)).lines
    return lines, text.timeline(lines)


def usage(at: Located) -> Shown:
    """What it used, in total and by agent."""
    view = usage_view.fold(at.store.read(at.run))
    return {"total": view.total, "agents": view.agents}, text.usage_table(view)


def journal(at: Located) -> Shown:
    """Its records; as text, the file as it is."""
    path = at.store.folder(at.run) / "journal.jsonl"
    return list(at.store.read(at.run)), path.read_text(encoding="utf-8", errors="replace").rstrip()


def why(at: Located, turn: str) -> Shown:
    """The chain of causes of a turn."""
    reasons = why_view.why(at.store.read(at.run), turn)
    return reasons, "\n".join(f"{reason.seq:>5}  {reason.text}" for reason in reasons)


def turn(at: Located, turn: str) -> Shown:
    """What a turn was asked, what it answered, and how its attempts went."""
    view = run_view.fold(at.store.read(at.run))
    found = view.turn(turn)
    if found is None:
        raise NoSuchTurn(at.run, turn, [one.id for one in view.turns])
    question = asked(at.store, at.run, turn, DiskPlace(at.store, Path(view.cwd or ".")))
    child = f"{at.run}/{turn}.{found.attempt}"
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
        "child": child if (at.store.folder(child) / "journal.jsonl").exists() else None,
    }
    return value, text.turn(value, view.started or 0.0)
