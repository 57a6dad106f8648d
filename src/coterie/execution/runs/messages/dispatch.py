"""Send a message to a run from another process.

A message is a file `<run>/inbox/<id>.json`, renamed into place; then the owner's doorbell is rung. A message of an
attempt carries the attempt's token, an operator's message a signature (`coterie.execution.runs.messages.tokens`). A
process of an attempt gets a signature only for runs that this attempt began (`coterie.execution.runs.authority`).
"""

from contextlib import suppress
from pathlib import Path

import msgspec

from coterie.agents.backends.agentside import delivery
from coterie.agents.backends.base import Launched
from coterie.agents.backends.processes import any_alive, is_stopped
from coterie.base import files
from coterie.base.waits import waiting
from coterie.errors import NotTheOperator, RunIsOwned, UsageError
from coterie.execution.kernel.commands import refusal
from coterie.execution.runs import index
from coterie.execution.runs.authority import check_operator
from coterie.execution.runs.messages import WAITS, RunMessage, Verdict, unread, verdict
from coterie.execution.runs.messages.doorbell import CONTROL
from coterie.execution.runs.messages.tokens import Tokens
from coterie.history.journal.lock import RunLock
from coterie.history.journal.records import AttemptLaunched
from coterie.history.journal.runs import RunReader

_CONTROL_MOST = 1 << 16


def send(runs: RunReader, run: str, folder: Path, message: RunMessage) -> Verdict:
    """Send the root run *run* in *folder* a message; see `coterie.execution.runs.repository.Runs.send`."""
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
        tokens = Tokens.of(folder)
        for _, one in unread(folder / "inbox"):
            if one.content == message.content and tokens.match(one.token, tokens.operator(one.signed)):
                message = msgspec.structs.replace(message, id=one.id)
        message = msgspec.structs.replace(message, token=tokens.operator(message.signed))
    with waiting("the owner of the run to read the message"):
        status, detail = delivery.send(str(folder), message.id, msgspec.to_builtins(message))
    match status:
        case delivery.UNREACHABLE if message.attempt or not _taken_back(folder / "inbox" / f"{message.id}.json"):
            return Verdict(status="queued", detail="the run's owner is reading it, and is not responding")
        case delivery.UNREACHABLE:  # it cannot tell later which process sent it
            return Verdict(status="refused", detail=f"{_silent(folder)}, so nothing was sent; then send it again")
        case delivery.UNOWNED:
            return Verdict(status="queued", detail=f"no process is running it; {WAITS}")
        case delivery.TAKEN:
            lost = Verdict(status="refused", detail="the run ended before the message was read")
            return recorded(runs, run, message.id) or lost
        case _:
            return Verdict(status=status, detail=detail)


def _taken_back(path: Path) -> bool:
    """Remove the message in *path*, unless the owner of its run has taken it or is reading it."""
    with files.claimed(path) as is_there:
        if is_there:
            path.unlink()
        return is_there


def _silent(folder: Path) -> str:
    """Why the owner of the run in *folder* does not answer, and what to do, as far as its process shows it."""
    pid = 0
    with suppress(OSError, ValueError, LookupError, TypeError):
        pid = int(msgspec.json.decode(files.read(folder / CONTROL, _CONTROL_MOST))["pid"])
    if pid and is_stopped(pid):
        return f"the run's owner is stopped: continue it with `kill -CONT {pid}`, or `fg` in its terminal"
    return "the run's owner is not responding: wait until it does" + (f" (process {pid})" if pid else "")


def withdraw(runs: RunReader, run: str, folder: Path) -> Verdict:
    """Remove what operators have sent to the root run *run* in *folder* and no owner has read."""
    lock = None
    try:
        check_operator(runs, run)
        lock = RunLock(run, folder / "lock")
        found = [path for path, one in unread(folder / "inbox") if not one.attempt]
        for path in found:
            path.unlink(missing_ok=True)
    except (NotTheOperator, RunIsOwned) as error:
        return Verdict(status="refused", detail=str(error))
    finally:
        if lock is not None:
            lock.release()
    return verdict("" if found else "no message waits in its inbox", f"{len(found)} removed from its inbox")


def _untimely(runs: RunReader, run: str, message: RunMessage) -> str:
    """Return why an operator may not send *message* now; empty if it is allowed."""
    if message.kind == "permit" and not runs.is_owned(run):
        return f"no process is running it, so no attempt waits: `coterie resume {run}` tries it again"
    if message.kind == "answer" and not runs.is_owned(run) and attempts_live(runs, run):
        return f"an attempt of the run is still alive: end it with `coterie resume {run}`, then answer"
    return ""


def attempts_live(runs: RunReader, run: str) -> bool:
    """Whether a process of an attempt of *run* is alive although the run has no owner."""
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
