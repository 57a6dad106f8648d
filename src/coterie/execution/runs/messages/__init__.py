"""Messages to a run, and the verdicts on them. `coterie.execution.runs.messages.dispatch` sends them."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from coterie.base import files
from coterie.base.ids import new_message_id
from coterie.team.formats.bounds import decode_json

LARGEST = 16 << 20
"""Bytes of a message."""
WITHDRAW = "withdraw"
"""The kind of message that takes back unread messages of operators."""
UNREADABLE = "unreadable"
"""The kind of message that replaces an unreadable file; its text gives the reason."""
WAITS = "the message waits in its inbox for `coterie resume`"


class RunMessage(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message from another process to a run.

    Attributes:
        id: Given by the sender; the run records it once however often it comes.
        kind: `answer`, `permit`, `emit`, `memory`, `task`, `interrupt`, `guide`, `stop` or `withdraw`.
        turn: Which turn it is for; in a child run `<turn>.<attempt>/<turn>`; empty where one can be guessed.
        attempt: With *epoch*, the attempt that sends it; 0: an operator sends it.
        token: The attempt's token, or the operator's signature of the other fields.
        by: The attempt that acts as the operator of a run that it began; empty: an operator or *attempt* sends it.
        note: The change of memory or tasks; see `coterie.agents.workspace.notes` for its content.
    """

    id: str
    kind: str
    turn: str = ""
    attempt: int = 0
    epoch: int = 0
    token: str = ""
    by: str = ""
    text: str = ""
    outputs: dict[str, Any] | None = None
    event: str = ""
    payload: str = ""
    note: dict[str, Any] = {}

    @property
    def signed(self) -> bytes:
        """The bytes that an operator's signature covers: the message without the signature."""
        return msgspec.json.encode(msgspec.structs.replace(self, token=""))

    @property
    def content(self) -> "RunMessage":
        """What it says, and who: an operator's message that says the same while it waits is the same."""
        return msgspec.structs.replace(self, id="", token="")


class Verdict(Struct, frozen=True, kw_only=True):
    """The verdict on a message: `accepted`, `refused`, or `queued` for the next owner."""

    status: str
    detail: str = ""


def answer(turn: str, text: str, outputs: dict[str, Any] | None = None) -> RunMessage:
    """Make a message that answers the question of the human turn *turn*; empty: the only open question."""
    return RunMessage(id=new_message_id(), kind="answer", turn=turn, text=text, outputs=outputs)


def permission(answer: str, id: str = "") -> RunMessage:
    """Make a message that answers a request of an attempt; see `AttentionAsked`.

    Args:
        answer: `allow`, `deny`, `park` or `fail`; for an attempt that may be stuck, `wait` or `interrupt`.
        id: The id of the request; in a child run `<turn>.<attempt>/<id>`. Empty: the only open request.
    """
    return RunMessage(id=new_message_id(), kind="permit", turn=id, text=answer)


def interruption(turn: str = "") -> RunMessage:
    """Make a message that interrupts the attempt of *turn*, or of all turns; they are retried, no failure counts."""
    return RunMessage(id=new_message_id(), kind="interrupt", turn=turn)


def stop() -> RunMessage:
    """Make a message that interrupts all attempts of a run and stops it; it can be resumed."""
    return RunMessage(id=new_message_id(), kind="stop")


def withdrawal() -> RunMessage:
    """A message that takes back the unread messages of operators to a run."""
    return RunMessage(id=new_message_id(), kind=WITHDRAW)


def guidance(text: str, turn: str = "") -> RunMessage:
    """Make a message with guidance for *turn*; without it, for the loop of the run or the only running turn.

    The running attempt is steered if its backend can do that; otherwise the guidance is in the prompt of the turn's
    next attempt or of its agent's next turn. A loop's next iteration gets it in any case.
    """
    return RunMessage(id=new_message_id(), kind="guide", turn=turn, text=text)


def changed_setting(name: str) -> RunMessage:
    """Make a message that an operator has changed the setting *name*, which applies when the files are next read."""
    return RunMessage(id=new_message_id(), kind="setting", text=name)


def answered_turns(inbox: Path) -> list[str]:
    """The turns of the answers that wait in *inbox*, as their senders named them."""
    return [message.turn for _, message in unread(inbox) if message.kind == "answer"]


def unread(inbox: Path) -> Iterator[tuple[Path, RunMessage]]:
    """The messages that wait in *inbox*, each with its file; the next owner judges what cannot be read."""
    for path in sorted(inbox.glob("*.json")):
        with suppress(OSError, ValueError, RecursionError):
            yield path, decode_json(files.read(path, LARGEST), RunMessage)


def verdict(refusal: str, detail: str = "") -> Verdict:
    """Return a refusal with the reason *refusal*, or an acceptance with *detail* if *refusal* is empty."""
    return Verdict(status="refused", detail=refusal) if refusal else Verdict(status="accepted", detail=detail)
