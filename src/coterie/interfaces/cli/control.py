"""`coterie control …`: control a run from another terminal."""

from typing import TYPE_CHECKING, Annotated

from coterie.interfaces.cli.options import AsJson, HomeOptions, Run
from coterie.interfaces.cli.output import complain, say, say_json
from coterie.interfaces.cli.parameters import Arg, Opt
from coterie.interfaces.cli.places import show_place

if TYPE_CHECKING:
    from coterie.execution.runs.messages import Verdict
    from coterie.execution.runs.repository import Runs, Where


def respond(
    run: Run,
    words: Annotated[
        list[str],
        Arg(
            "[TURN] TEXT", "The turn, if several wait for an answer, and the answer; '-' reads it from standard input."
        ),
    ],
    named: Annotated[
        list[str] | None, Opt("--output K=V", "An output of the answer: k=text, or k:=JSON. Repeatable.")
    ] = None,
    as_json: AsJson = False,
    *,
    home: HomeOptions,
) -> int:
    """Answer a run's question to a human.

    An active run takes the answer at once; otherwise it waits in the run's inbox for `coterie resume`. The exit status
    is 1 if the answer is refused because it does not fit the question or no turn is waiting for it.
    """
    from coterie.errors import UsageError
    from coterie.execution.runs import control
    from coterie.interfaces.cli.inputs import pair, standard_input

    if len(words) > 2:
        raise UsageError("give RUN, optionally a TURN, and one TEXT; quote a text of several words")
    turn = words[0] if len(words) == 2 else ""
    text = standard_input() if words[-1] == "-" else words[-1]
    outputs = dict(map(pair, named)) if named else None
    runs, run, below = _open(run, home.where)
    return tell_verdict(run, control.answer(runs, run, below + turn, text, outputs), as_json)


def guide(
    run: Run,
    words: Annotated[
        list[str],
        Arg(
            "[TURN] TEXT", "The turn it is for, if TEXT is quoted, and the guidance; '-' reads it from standard input."
        ),
    ],
    at_once: Annotated[
        bool, Opt("--interrupt", "Interrupt the running attempt; the next one has the guidance.")
    ] = False,
    as_json: AsJson = False,
    *,
    home: HomeOptions,
) -> int:
    """Give guidance to a running turn.

    If the backend of the turn can be steered, its agent receives the guidance at once. Otherwise it is added to the
    prompt of the turn's next attempt, or of the agent's next turn; in a loop it is always added to the prompt of the
    next iteration. Without TURN it is for the loop, or for the only running turn. If no process drives the run, it
    waits in the run's inbox for `coterie resume`, and is added to the prompt of an attempt that is then retried.
    """
    from coterie.base.ids import is_turn_id
    from coterie.execution.runs import control
    from coterie.interfaces.cli.inputs import standard_input

    runs, run, below = _open(run, home.where)
    turn = below + words.pop(0) if len(words) == 2 and is_turn_id(words[0]) else below
    text = standard_input() if words == ["-"] else " ".join(words)
    return tell_verdict(run, control.guide(runs, run, text, turn, interrupt=at_once), as_json)


def interrupt(
    run: Run,
    turn: Annotated[str | None, Arg("TURN", "The turn to interrupt; by default all running turns.")] = None,
    as_json: AsJson = False,
    *,
    home: HomeOptions,
) -> int:
    """Interrupt running turns of a run without counting a failure.

    The turns are retried; in a loop the turn ends, and the next iteration runs the same role.
    """
    from coterie.execution.runs import control, messages

    runs, run, below = _open(run, home.where)
    return tell_verdict(run, control.send(runs, run, messages.interruption(below + (turn or ""))), as_json)


def stop(run: Run, as_json: AsJson = False, *, home: HomeOptions) -> int:
    """Stop a run as Ctrl-C does where it runs; `coterie resume` continues it.

    Running attempts are interrupted. A child run is stopped with its root run. The exit status is 1 if nothing drives
    the run.
    """
    from coterie.execution.runs import control

    runs, run, _ = _open(run, home.where)
    return tell_verdict(run, control.stop(runs, run), as_json)


def withdraw(run: Run, as_json: AsJson = False, *, home: HomeOptions) -> int:
    """Take back the messages to a run that are queued and unread.

    The exit status is 1 if none waits: the run has taken what was sent.
    """
    from coterie.execution.runs import control

    runs, run, _ = _open(run, home.where)
    return tell_verdict(run, control.withdraw(runs, run), as_json)


def _open(name: str, where: "Where") -> "tuple[Runs, str, str]":
    """Return the root run of the run that *name* names, and the beginning of the addresses of that run's turns.

    Raises:
        RunIsFinished: If the run can no longer read messages.
    """
    from coterie.errors import RunIsFinished
    from coterie.execution.runs.repository import find
    from coterie.history.journal.status import ENDS

    runs, run = find(name, where, show_place)
    state = runs.status(run)
    if state in ENDS:
        raise RunIsFinished(run, state)
    root, slash, below = run.partition("/")
    return runs, root, below + slash


def tell_verdict(run: str, verdict: "Verdict", as_json: bool) -> int:
    """Print *verdict* and return the exit status."""
    refused = verdict.status == "refused"
    if as_json:
        say_json({"run": run, "status": verdict.status, "detail": verdict.detail})
    else:
        detail = f": {verdict.detail}" if verdict.detail else ""
        (complain if refused else say)(f"run {run}: {verdict.status}{detail}")
        if verdict.status == "queued":
            complain(f"`coterie control withdraw {run}` takes it back")
    return int(refused)
