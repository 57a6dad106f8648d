"""`coterie control …`: speak to a run from another terminal."""

import sys
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
            help="The turn that asks, when several do, and the answer; '-' reads it from standard input.",
            show_default=False,
        ),
    ],
    named: Annotated[
        list[str] | None,
        typer.Option("--output", metavar="K=V", help="An output of the answer: k=text, or k:=JSON. Repeatable."),
    ] = None,
    as_json: AsJson = False,
    state_dir: StateDir = STATE_DIR,
) -> int:
    """Answer a question that a run asks a human.

    A living run takes the answer at once; else it waits in the run's inbox for `coterie resume`. The status is 1 when
    the answer is refused: it is not what was asked for, or nobody waits for it.
    """
    from coterie.cli.inputs import pair
    from coterie.errors import UsageError
    from coterie.ids import new_message_id
    from coterie.runs import messages

    if len(words) > 2:
        raise UsageError("give RUN, perhaps a TURN, and one TEXT: put a text of several words in quotes")
    turn = words[0] if len(words) == 2 else None
    text = _standard_input() if words[-1] == "-" else words[-1]
    outputs = dict(map(pair, named)) if named else None
    runs, run = _open(run, state_dir)
    message = messages.Message(id=new_message_id(), kind="answer", turn=turn or "", text=text, outputs=outputs)
    verdict = messages.send(runs, run, message)
    if verdict.status == "queued":
        from coterie.runs import provisional

        if why := provisional.unusable(runs, run, message):
            verdict = messages.Verdict(status="refused", detail=why)
    return _tell(verdict, as_json)


def guide(
    run: Run,
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="[TURN] TEXT",
            help="The turn that it is for, when TEXT is in quotes, and what to say; '-' reads standard input.",
            show_default=False,
        ),
    ],
    at_once: Annotated[
        bool, typer.Option("--interrupt", help="End the attempt that runs, so that the next one has it now.")
    ] = False,
    as_json: AsJson = False,
    state_dir: StateDir = STATE_DIR,
) -> int:
    """Give guidance to a turn that runs.

    Its agent gets it at once if the backend can be steered. Otherwise it is in the prompt of the turn's next attempt,
    or of the agent's next turn; in a loop the next iteration has it in any case. Without TURN it is for the loop, or
    for the only turn that runs. Without an owner it waits in the run's inbox for `coterie resume`, and an attempt that
    is then retried has it in its prompt.
    """
    from coterie.ids import is_turn_id
    from coterie.runs import messages

    runs, run = _open(run, state_dir)
    turn = words.pop(0) if len(words) == 2 and is_turn_id(words[0]) else None
    verdict = messages.guide(runs, run, _standard_input() if words == ["-"] else " ".join(words), turn)
    if at_once and verdict.status == "accepted":
        messages.interrupt(runs, run, turn)  # nothing may run just now: then the next turn has it anyway
    return _tell(verdict, as_json)


def interrupt(
    run: Run,
    turn: Annotated[
        str | None, typer.Argument(metavar="TURN", help="The turn to cut off; all that run if none is given.")
    ] = None,
    as_json: AsJson = False,
    state_dir: StateDir = STATE_DIR,
) -> int:
    """Cut off what a run's agents are doing; no failure is counted.

    They are asked again; in a loop the turn ends, and the next iteration asks the same role.
    """
    from coterie.runs import messages

    runs, run = _open(run, state_dir)
    return _tell(messages.interrupt(runs, run, turn), as_json)


def _standard_input() -> str:
    from coterie.errors import UsageError

    if sys.stdin is None:
        raise UsageError("standard input is closed: give the answer as TEXT")
    try:
        return sys.stdin.read()
    except UnicodeDecodeError as error:
        raise UsageError(
            f"the answer on standard input is not UTF-8 text: {error.reason} at byte {error.start}"
        ) from None


def _open(name: str, state_dir: Path) -> "tuple[Runs, str]":
    """The run that *name* names, unless it is over for good: a message would wait there for ever."""
    from coterie.errors import RunIsFinished
    from coterie.journal.status import ENDS
    from coterie.runs.repository import find

    runs, run = find(name, state_dir)
    state = runs.status(run)
    if state in ENDS:
        raise RunIsFinished(run, state)
    return runs, run


def _tell(verdict: "Verdict", as_json: bool) -> int:
    refused = verdict.status == "refused"
    if as_json:
        say_json({"status": verdict.status, "detail": verdict.detail})
    else:
        (complain if refused else say)(f"{verdict.status}: {verdict.detail}" if verdict.detail else verdict.status)
    return int(refused)
