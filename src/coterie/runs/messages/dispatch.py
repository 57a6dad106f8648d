"""Send a message to a run from another process.

A message is a file `<run>/inbox/<id>.json`, renamed into place, and a ring at the owner's doorbell. An attempt's
message carries the token of the attempt, an operator's one a signature (`coterie.runs.messages.tokens`); a process of
an attempt gets no signature, except for runs that this attempt began (`coterie.runs.authority`).
"""

from pathlib import Path

import msgspec

from coterie.backends.agentside import delivery
from coterie.backends.base import Launched
from coterie.backends.processes import any_alive
from coterie.errors import NotTheOperator, UsageError
from coterie.journal.records import AttemptLaunched
from coterie.journal.runs import RunReader
from coterie.kernel.commands import refusal
from coterie.runs import index
from coterie.runs.authority import check_operator
from coterie.runs.messages import WAITS, RunMessage, Verdict, verdict
from coterie.runs.messages.tokens import Tokens
from coterie.waits import waiting


def send(runs: RunReader, run: str, folder: Path, message: RunMessage) -> Verdict:
    """Send the root run *run* in *folder* a message; see `coterie.runs.repository.Runs.send`."""
    try:
        message = msgspec.json.decode(msgspec.json.encode(message), type=RunMessage)
    except UnicodeEncodeError:
        raise UsageError("the message is not UTF-8 text, and nothing was sent") from None
    if not message.attempt:
        try:
            marks = check_operator(runs, run)
        except NotTheOperator as error:
            return Verdict(status="refused", detail=str(error))
        if problem := _untimely(runs, run, message):
            return Verdict(status="refused", detail=problem)
        message = msgspec.structs.replace(message, by=marks[0] if marks else "")
        message = msgspec.structs.replace(message, token=Tokens.of(folder).operator(message.signed))
    with waiting("the owner of the run to read the message"):
        status, detail = delivery.send(str(folder), message.id, msgspec.to_builtins(message))
    match status:
        case delivery.UNREACHABLE:
            return Verdict(status="queued", detail=f"the run's owner is not responding; {WAITS}")
        case delivery.UNOWNED:
            return Verdict(status="queued", detail=f"no process is running it; {WAITS}")
        case delivery.TAKEN:
            lost = Verdict(status="refused", detail="the run ended before the message was read")
            return recorded(runs, run, message.id) or lost
        case _:
            return Verdict(status=status, detail=detail)


def _untimely(runs: RunReader, run: str, message: RunMessage) -> str:
    """Return why no operator may send *message* now; empty if one may."""
    if message.kind == "permit" and not runs.is_owned(run):
        return f"no process is running it, so no attempt waits: `coterie resume {run}` tries it again"
    if message.kind == "answer" and not runs.is_owned(run) and _attempts_live(runs, run):
        return f"an attempt of the run is still alive: end it with `coterie resume {run}`, then answer"
    return ""


def _attempts_live(runs: RunReader, run: str) -> bool:
    """Whether a process of an attempt of *run*, which has no owner, is alive."""
    records = (record for _, record in runs.history(run))
    launched = [
        Launched(pid=one.pid, group=one.group, started=one.started)
        for one in records
        if isinstance(one, AttemptLaunched)
    ]
    return any_alive("" if index.is_shared(run) else f"{run}/", launched)


def recorded(runs: RunReader, run: str, name: str) -> Verdict | None:
    """The verdict on the message *name* in the journals of *run* and its child runs; None if there is none."""
    for _, record in runs.history(run):
        if getattr(record, "message", "") == name:
            return verdict(refusal(record))
    return None
