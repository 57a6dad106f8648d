"""`coterie control …`: control a run from another terminal."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from coterie.cli.options import STATE_DIR, AsJson, Run, StateDir
from coterie.cli.output import complain, say, say_json

if TYPE_CHECKING:
    from coterie.runs.messages import Verdict
    from coterie.runs.repository import Runs


def respond(
    run: Run,
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="[TURN] TEXT",
            help="The turn, if several wait for an answer, and the answer; '-' reads it from standard input.",
        ),
    ],
    named: Annotated[
        list[str] | None,
        typer.Option("--output", metavar="K=V", help="An output of the answer: k=text, or k:=JSON. Repeatable."),
    ] = None,
    as_json: AsJson = False,
    state_dir: StateDir = STATE_DIR,
) -> int:
    """Answer a run's question to a human.

    An active run takes the answer at once; otherwise it waits in the run's inbox for `coterie resume`. The exit status
    is 1 if the answer is refused because it does not fit the question or no turn is waiting for it.
    """
    from coterie.cli.inputs import pair, standard_input
    from coterie.errors import UsageError
    from coterie.runs import messages

    if len(words) > 2:
        raise UsageError("give RUN, optionally a TURN, and one TEXT; quote a text of several words")
    turn = words[0] if len(words) == 2 else None
    text = standard_input() if words[-1] == "-" else words[-1]
    outputs = dict(map(pair, named)) if named else None
    runs, run = _open(run, state_dir)
    message = messages.answer(turn or "", text, outputs)
    verdict = runs.send(run, message)
    if verdict.status == "queued":
        from coterie.runs.messages import provisional

        if why := provisional.unusable(runs, run, message):
            verdict = messages.Verdict(status="refused", detail=why)
    return _tell(run, verdict, as_json)


def guide(
    run: Run,
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="[TURN] TEXT",
            help="The turn it is for, if TEXT is quoted, and the guidance; '-' reads it from standard input.",
        ),
    ],
    at_once: Annotated[
        bool, typer.Option("--interrupt", help="Interrupt the running attempt; the next one has the guidance.")
    ] = False,
    as_json: AsJson = False,
    state_dir: StateDir = STATE_DIR,
) -> int:
    """Give guidance to a running turn.

    If the backend of the turn can be steered, its agent receives the guidance at once. Otherwise it is added to the
    prompt of the turn's next attempt, or of the agent's next turn; in a loop it is always added to the prompt of the
    next iteration. Without TURN it is for the loop, or for the only running turn. If no process drives the run, it
    waits in the run's inbox for `coterie resume`, and is added to the prompt of an attempt that is then retried.
    """
    from coterie.cli.inputs import standard_input
    from coterie.ids import is_turn_id
    from coterie.runs import messages

    runs, run = _open(run, state_dir)
    turn = words.pop(0) if len(words) == 2 and is_turn_id(words[0]) else ""
    text = standard_input() if words == ["-"] else " ".join(words)
    verdict = runs.send(run, messages.guidance(text, turn))
    if at_once and verdict.status == "accepted":
        runs.send(run, messages.interruption(turn))  # if no turn is running, the next one has it anyway
    return _tell(run, verdict, as_json)


def interrupt(
    run: Run,
    turn: Annotated[
        str | None, typer.Argument(metavar="TURN", help="The turn to interrupt; by default all running turns.")
    ] = None,
    as_json: AsJson = False,
    state_dir: StateDir = STATE_DIR,
) -> int:
    """Interrupt running turns of a run without counting a failure.

    The turns are retried; in a loop the turn ends, and the next iteration runs the same role.
    """
    from coterie.runs import messages

    runs, run = _open(run, state_dir)
    return _tell(run, runs.send(run, messages.interruption(turn or "")), as_json)


def _open(name: str, state_dir: Path) -> "tuple[Runs, str]":
    """Return the run that *name* names; raise `RunIsFinished` if it can no longer read messages."""
    from coterie.errors import RunIsFinished
    from coterie.journal.status import ENDS
    from coterie.runs.repository import find

    runs, run = find(name, state_dir)
    state = runs.status(run)
    if state in ENDS:
        raise RunIsFinished(run, state)
    return runs, run


def _tell(run: str, verdict: "Verdict", as_json: bool) -> int:
    refused = verdict.status == "refused"
    if as_json:
        say_json({"run": run, "status": verdict.status, "detail": verdict.detail})
    else:
        detail = f": {verdict.detail}" if verdict.detail else ""
        (complain if refused else say)(f"run {run}: {verdict.status}{detail}")
    return int(refused)
