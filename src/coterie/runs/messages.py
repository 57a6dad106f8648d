"""Messages to a run, and how a process that is not an attempt of it sends one.

A message is a file `<run>/inbox/<id>.json`, renamed into place, and a ring at the owner's doorbell. An attempt's
message carries the token of the attempt, an operator's one a signature (`coterie.runs.tokens`); `send` signs nothing
for a process that an attempt has started.
"""

import os
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from coterie.agentside import delivery
from coterie.backends.base import Launched
from coterie.backends.processes import MARK, any_alive, attempt_of
from coterie.errors import UsageError
from coterie.ids import new_message_id
from coterie.journal.records import AttemptLaunched
from coterie.runs import index
from coterie.runs.fold import refusal
from coterie.runs.repository import Runs
from coterie.runs.tokens import Tokens

UNREADABLE = "unreadable"
"""The kind of a message that stands for a file which holds none; its text says why."""
WAITS = "the message waits in its inbox for `coterie resume`"


class Message(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What another process says to a run.

    Attributes:
        id: Given by the sender; the run records it once however often it comes.
        kind: `answer`, `emit`, `memory`, `task`, `interrupt` or `guide`.
        turn: Which turn it is for; in a child run `<turn>.<attempt>/<turn>`; empty where one can be guessed.
        attempt: With *epoch*, the attempt that sends it; 0: an operator sends it.
        token: The attempt's token, or the operator's signature of all the rest.
        note: What is to change in memory or tasks; `coterie.runs.notes` knows what it may hold.
    """

    id: str
    kind: str
    turn: str = ""
    attempt: int = 0
    epoch: int = 0
    token: str = ""
    text: str = ""
    outputs: dict[str, Any] | None = None
    event: str = ""
    payload: str = ""
    note: dict[str, Any] = {}

    @property
    def signed(self) -> bytes:
        """What an operator's signature covers: all but the signature."""
        return msgspec.json.encode(msgspec.structs.replace(self, token=""))


class Verdict(Struct, frozen=True, kw_only=True):
    """What became of a message: `accepted`, `refused`, or `queued` for the next owner."""

    status: str
    detail: str = ""


def respond(runs: Runs, run: str, turn: str | None, text: str, outputs: dict[str, Any] | None = None) -> Verdict:
    """Answer the question that a human turn of the root run *run* asks; without *turn*, the only one open."""
    return send(runs, run, Message(id=new_message_id(), kind="answer", turn=turn or "", text=text, outputs=outputs))


def interrupt(runs: Runs, run: str, turn: str | None = None) -> Verdict:
    """Cut off the attempt of *turn*, or of all turns; they are asked again, and no failure is counted."""
    return send(runs, run, Message(id=new_message_id(), kind="interrupt", turn=turn or ""))


def guide(runs: Runs, run: str, text: str, turn: str | None = None) -> Verdict:
    """Give guidance to *turn* of the root run *run*; without *turn*, to its loop, or to the only turn that runs.

    The attempt under way is steered if its backend can do that; else the turn's next attempt, or its agent's next turn,
    has the guidance in its prompt. A loop's next iteration has it in any case.
    """
    return send(runs, run, Message(id=new_message_id(), kind="guide", turn=turn or "", text=text))


def send(runs: Runs, run: str, message: Message) -> Verdict:
    """Send the root run *run* an operator's *message* and, if its owner lives, wait for the verdict.

    Refused at once: a message from within an attempt, and an answer to a run without an owner while an attempt of it
    is still alive.

    Raises:
        UsageError: If it holds bytes that are no UTF-8 text.
        OSError: If it cannot be put there.
    """
    try:
        message = msgspec.json.decode(msgspec.json.encode(message), type=Message)
    except UnicodeEncodeError:
        raise UsageError("the message is not UTF-8 text, and nothing was sent") from None
    if problem := _not_an_operator(runs, run, message):
        return Verdict(status="refused", detail=problem)
    folder = runs.folder(run)
    message = msgspec.structs.replace(message, token=Tokens(folder).operator(message.signed))
    data = msgspec.to_builtins(message)
    return verdict_of(runs, run, message.id, *delivery.send(str(folder), message.id, data))


def _not_an_operator(runs: Runs, run: str, message: Message) -> str:
    """Return why this process may not send *message* as an operator; empty if it may."""
    attempt = os.environ.get(MARK) or attempt_of(os.getppid())
    if attempt:
        return (
            f"this process belongs to the attempt {attempt}, and an agent is not the operator: "
            "ask the operator to run this command outside of the run"
        )
    if message.kind == "answer" and not runs.is_owned(run) and _attempts_live(runs, run):
        return f"an attempt of the run is still alive: end it with `coterie resume {run}`, then answer"
    return ""


def _attempts_live(runs: Runs, run: str) -> bool:
    """Whether a process of an attempt of *run*, which has no owner, is alive."""
    records = (record for _, record in runs.history(run))
    launched = [
        Launched(pid=one.pid, group=one.group, started=one.started)
        for one in records
        if isinstance(one, AttemptLaunched)
    ]
    return any_alive("" if index.is_shared(run) else f"{run}/", launched)


def verdict_of(runs: Runs, run: str, name: str, status: str, detail: str) -> Verdict:
    """What `coterie.agentside.delivery` says of the message *name*, as a verdict."""
    match status:
        case delivery.UNREACHABLE:
            return Verdict(status="queued", detail=f"the run's owner does not answer now; {WAITS}")
        case delivery.UNOWNED:
            return Verdict(status="queued", detail=f"nobody runs it now; {WAITS}")
        case delivery.TAKEN:
            return recorded(runs, run, name) or Verdict(status="refused", detail="the run was over before it was read")
        case _:
            return Verdict(status=status, detail=detail)


def inbox_of(runs: Runs, run: str) -> Path:
    """The folder in which messages to the root run *run* wait."""
    return runs.folder(run) / "inbox"


def recorded(runs: Runs, run: str, name: str) -> Verdict | None:
    """What the journals of *run* and its child runs say of the message *name*; None if they do not know it."""
    for _, record in runs.history(run):
        if getattr(record, "message", "") == name:
            return verdict(refusal(record))
    return None


def verdict(refusal: str, detail: str = "") -> Verdict:
    """Return the verdict that *refusal* is, or an acceptance with *detail* if it is empty."""
    return Verdict(status="refused", detail=refusal) if refusal else Verdict(status="accepted", detail=detail)
