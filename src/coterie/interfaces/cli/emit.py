"""`coterie emit`, and sending the changes of `memory` and `task` to a run.

Within a turn of an active run, `coterie.agents.backends.agentside` handles these commands without importing this
module. Here are the other cases: runs given by --run, the only active run, runs without an owner, and the files of a
project without a run.
"""

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from coterie.agents.backends.agentside import client, words
from coterie.interfaces.cli.options import STATE_DIR, StateDir
from coterie.interfaces.cli.output import complain, say
from coterie.interfaces.cli.parameters import Arg, Opt
from coterie.interfaces.cli.places import show_place

if TYPE_CHECKING:
    from coterie.agents.workspace.notes import EntryFiles
    from coterie.execution.runs.repository import Runs

OfRun = Annotated[
    str | None, Opt("--run RUN", "The run; by default that of the current turn, else the only active one.")
]
Target = Annotated[str, Arg("ID", "Its id, or a unique beginning of it.")]
Words = Annotated[list[str], Arg("TEXT", "The text.")]


def emit(
    given: Annotated[
        list[str] | None, Arg("[TOPIC] [PAYLOAD]", "The event and its payload.", takes_options=True)
    ] = None,
    named: Annotated[
        list[str] | None, Opt("--output K=V", "An output of the turn: k=text, or k:=JSON. Repeatable.")
    ] = None,
    name: Annotated[str, Opt("--id ID", "The message's id; repeated messages count once.")] = "",
    run: OfRun = None,
    state_dir: StateDir = STATE_DIR,
) -> int:
    """Emit an event from within a turn, or give outputs of the turn before it ends.

    The run replies at once: the exit status is 0 if it accepts the message, 1 if it rejects it, with the reason and the
    allowed events, and 2 if there is no run to send it to. If no process drives the run, the message waits and the
    reply is provisional.
    """
    message = _meant(words.emit, given or [], named or [], name)
    name = str(message.pop("id", "")) or os.environ.get(client.MESSAGE, "") or client.new_id()
    found, sender = _run(run, state_dir)
    if found is None:
        complain("coterie: no active run here, or several; name one with --run")
        return 2
    return _send(*found, name, message | sender)


def _meant(read: Any, *given: Any) -> dict[str, Any]:
    from coterie.errors import UsageError

    try:
        message: dict[str, Any] = read(*given)
    except words.Misused as misuse:
        raise UsageError(str(misuse)) from None
    return message


def _run(name: str | None, state_dir: Path) -> "tuple[tuple[Runs, str] | None, dict[str, Any]]":
    """Return the run for *name* or the environment, or None, and the sender: empty outside of a turn."""
    from coterie.execution.runs import index
    from coterie.execution.runs.repository import find, run_in

    given = os.environ.get(client.RUN_FOLDER)
    own = run_in(Path(given)) if given else None
    if own is not None and name in (None, own[1]):
        return own, client.sender(os.environ)
    if name is not None:
        runs, run = find(name, state_dir, show_place)
        is_own = given is not None and runs.folder(run).resolve() == Path(given).resolve()
        return (runs, run), client.sender(os.environ) if is_own else {}
    living = index.living(state_dir)
    return (run_in(living[0]) if len(living) == 1 else None), {}


def _send(runs: "Runs", run: str, name: str, message: Mapping[str, Any]) -> int:
    """Send *message* to *run*, print the verdict, and return the exit status."""
    import msgspec

    from coterie.execution.runs.control import send
    from coterie.execution.runs.messages import RunMessage, Verdict, dispatch
    from coterie.history.journal.status import ENDS

    verdict = dispatch.recorded(runs, run, name)  # it may have been sent and judged before
    if verdict is None and (state := runs.status(run)) in ENDS:
        (runs.inbox(run) / f"{name}.json").unlink(missing_ok=True)
        verdict = Verdict(status="refused", detail=f"the run has {state}, so every attempt has ended (stale)")
    if verdict is None:
        sent = msgspec.convert({"id": name, **message}, RunMessage)
        verdict = send(runs, run, sent)
        if verdict.status == "queued" and sent.kind == "emit" and not runs.is_owned(run):
            from coterie.execution.runs.messages import provisional

            verdict = provisional.verdict(runs, run, sent)
    return client.tell(message, verdict.status, verdict.detail)


def change(kind: str, note: dict[str, Any], run: str | None, state_dir: Path) -> int:
    """Send a change of memory or tasks to the run, or apply it here if there is none. Returns the exit status."""
    name = os.environ.get(client.MESSAGE, "") or client.new_id()
    found, sender = _run(run, state_dir)
    if found is not None:
        return _send(*found, name, {"kind": kind, "note": note, **sender})
    from coterie.agents.workspace.notes import COLLECTIONS, InvalidChange

    files = files_of(kind, None, state_dir)
    try:
        change = COLLECTIONS[kind].of(files).change(note, name, time.time())
    except InvalidChange as why:
        complain(f"coterie: {why}")
        return 1
    files.add(change)
    say(f"{change.said} in {os.path.relpath(files.project)}")
    return 0


def files_of(kind: str, run: str | None, state_dir: Path) -> "EntryFiles":
    """Return the files of the memory or the tasks: those of the turn's run, of *run*, or of the project."""
    from coterie.agents.workspace.notes import EntryFiles
    from coterie.execution.kinds import kind_of
    from coterie.execution.runs.note_files import NoteFiles

    file, variable = {
        "memory": ("memory.jsonl", "AUTOLOOP_MEMORY_FILE"),
        "task": ("tasks.jsonl", "AUTOLOOP_TASKS_FILE"),
    }[kind]
    given, notes = os.environ.get(variable), os.environ.get(client.NOTES_FOLDER)
    if run is None and given:
        return EntryFiles(project=Path(given), run=Path(notes) / file if notes else None)
    found, sender = _run(run, state_dir)
    if found is None:
        return EntryFiles(project=_of_project(kind, state_dir))
    runs, root = found
    settings = kind_of(runs.plan(root)).project.notes
    name = os.environ["COTERIE_RUN"] if sender else root
    return NoteFiles(runs).files(name, settings, kind)


def _of_project(kind: str, state_dir: Path) -> Path:
    """Return the project's file: that of the loop in the current folder, else of the loop last started here."""
    from coterie.execution.runs import index
    from coterie.execution.runs.repository import run_in
    from coterie.history.journal.records import RunStarted
    from coterie.team.formats import settings
    from coterie.team.formats.folders import is_folder
    from coterie.team.planning.loop import LoopPlan
    from coterie.team.planning.plan import from_json

    folder = here = Path.cwd()
    overrides: tuple[str, ...] = (f"core.state_dir={state_dir}",) if state_dir != STATE_DIR else ()
    for entry in () if is_folder(here) else index.newest(state_dir):
        if entry.kind not in ("", "loop"):
            continue
        runs, run = run_in(Path(entry.folder))
        started = next(iter(runs.store.read(run)), None)
        if not isinstance(started, RunStarted) or started.engine != "loop":
            continue
        loop = from_json(started.plan).coordination
        if isinstance(loop, LoopPlan) and loop.place.project:
            folder, here, overrides = Path(loop.place.project), Path(loop.place.work_dir), loop.given.overrides
            break
    found, _ = settings.resolve(folder, work_dir=here, env=os.environ, overrides=overrides)
    return here / found.path("memory" if kind == "memory" else "tasks")
