"""`coterie emit`, `memory` and `task`: what agents say to their run, and people to one.

Within a turn, `coterie.agentside` has said it before any of this is imported, unless the run has no owner. Here is the
rest: runs that are named, the only one that lives, and the files of a project that nobody runs.
"""

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coterie.agentside import posting, speaking, words
from coterie.cli.options import STATE_DIR, StateDir
from coterie.cli.output import complain, say

if TYPE_CHECKING:
    from coterie.runs.notes import Files
    from coterie.runs.repository import Runs

OfRun = Annotated[
    str | None,
    typer.Option(
        "--run", metavar="RUN", help="The run; by default that of the turn, else the only one that lives here."
    ),
]
Target = Annotated[str, typer.Argument(metavar="ID", help="Its id, or a beginning that only one has.")]
Words = Annotated[list[str], typer.Argument(metavar="TEXT", help="What it says.", show_default=False)]


def emit(
    given: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TOPIC] [PAYLOAD]", help="The event, and what comes with it.", show_default=False),
    ] = None,
    named: Annotated[
        list[str] | None,
        typer.Option("--output", metavar="K=V", help="An output of the turn: k=text, or k:=JSON. Repeatable."),
    ] = None,
    name: Annotated[
        str, typer.Option("--id", metavar="ID", help="The message's id: however often it comes, it counts once.")
    ] = "",
    run: OfRun = None,
    state_dir: StateDir = STATE_DIR,
) -> int:
    """Emit an event from within a turn, or give outputs of it before it ends.

    The run judges it at once: the status is 0 when it is accepted, 1 when it is rejected, with the reason and what
    would be accepted, and 2 when nobody could be told. When nobody runs it now, the verdict is provisional and the
    message waits.
    """
    message = _meant(words.emit, given or [], named or [], name)
    name = str(message.pop("id", "")) or os.environ.get(speaking.MESSAGE, "") or speaking.new_id()
    found, sender = _run(run, state_dir)
    if found is None:
        complain("coterie: no run lives here, or several: say which with --run")
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
    """The run that is meant, None if that is not clear, and the sender: empty outside of a turn."""
    from coterie.runs import index
    from coterie.runs.repository import find, run_in

    given = os.environ.get(speaking.RUN_FOLDER)
    if name is not None:
        runs, run = find(name, state_dir)
        own = given is not None and runs.folder(run).resolve() == Path(given).resolve()
        return (runs, run), speaking.sender(os.environ) if own else {}
    if given:
        return run_in(Path(given)), speaking.sender(os.environ)
    living = index.living(state_dir)
    return (run_in(living[0]) if len(living) == 1 else None), {}


def _send(runs: "Runs", run: str, name: str, message: Mapping[str, Any]) -> int:
    """Say *message* to *run*, and print what becomes of it."""
    import msgspec

    from coterie.errors import UsageError
    from coterie.journal.status import ENDS
    from coterie.runs import messages

    folder = str(runs.folder(run))
    verdict = messages.recorded(runs, run, name)  # it was sent before, and perhaps heard
    if verdict is None and (state := runs.status(run)) in ENDS:
        (messages.inbox_of(runs, run) / f"{name}.json").unlink(missing_ok=True)
        verdict = messages.Verdict(
            status="refused", detail=f"the run has {state}, and so is every attempt over (stale)"
        )
    if verdict is None and not message.get("attempt"):
        verdict = messages.send(runs, run, msgspec.convert({"id": name, **message}, messages.Message))
        if verdict.status == "queued" and message["kind"] == "emit" and not posting.is_owned(folder):
            from coterie.runs import provisional

            verdict = provisional.verdict(runs, run, name, dict(message))
    if verdict is not None:
        return speaking.tell(message, verdict.status, verdict.detail)
    try:
        status, detail = posting.send(folder, name, dict(message))
    except UnicodeEncodeError:
        raise UsageError("this is not UTF-8 text, and nothing was sent") from None
    if status == posting.UNOWNED and message["kind"] == "emit":
        from coterie.runs import provisional

        verdict = provisional.verdict(runs, run, name, dict(message))
        return speaking.tell(message, verdict.status, verdict.detail)
    if status in (posting.UNOWNED, posting.TAKEN):
        verdict = messages.verdict_of(runs, run, name, status, detail)
        status, detail = verdict.status, verdict.detail
    return speaking.tell(message, status, detail)


def change(kind: str, note: dict[str, Any], run: str | None, state_dir: Path) -> int:
    """Have memory or tasks changed: by the run that is meant, or here, where no run is. The exit status."""
    name = os.environ.get(speaking.MESSAGE, "") or speaking.new_id()
    found, sender = _run(run, state_dir)
    if found is not None:
        return _send(*found, name, {"kind": kind, "note": note, **sender})
    from coterie.runs.notes import KINDS, NotPossible

    files = files_of(kind, None, state_dir)
    try:
        change = KINDS[kind].of(files).change(note, name, time.time())
    except NotPossible as why:
        complain(f"coterie: {why}")
        return 1
    files.add(change)
    say(change.said)
    return 0


def files_of(kind: str, run: str | None, state_dir: Path) -> "Files":
    """Where the memory, or the tasks, lie: of the turn's run, of one that is named or lives, else of the project."""
    from coterie.runs.kinds import kind_of
    from coterie.runs.note_files import NoteFiles
    from coterie.runs.notes import Files

    file, variable = {
        "memory": ("memory.jsonl", "AUTOLOOP_MEMORY_FILE"),
        "task": ("tasks.jsonl", "AUTOLOOP_TASKS_FILE"),
    }[kind]
    given, notes = os.environ.get(variable), os.environ.get(speaking.NOTES_FOLDER)
    if run is None and given:
        return Files(project=Path(given), run=Path(notes) / file if notes else None)
    found, sender = _run(run, state_dir)
    if found is None:
        return Files(project=_of_settings(kind))
    runs, root = found
    settings = kind_of(runs.plan(root)).notes
    name = os.environ["COTERIE_RUN"] if sender else root
    return NoteFiles(runs).files(name, settings, kind)


def _of_settings(kind: str) -> Path:
    """The project's file, as the settings that hold here say."""
    from coterie import settings

    here = Path.cwd()
    found, _ = settings.resolve(here, work_dir=here, env=os.environ)
    return here / found.path("memory" if kind == "memory" else "tasks")
