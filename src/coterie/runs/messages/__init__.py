"""Messages to a run, and the verdicts on them. `coterie.runs.messages.dispatch` sends them."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from coterie import files
from coterie.formats.bounds import decode_json
from coterie.ids import new_message_id

LARGEST = 16 << 20
"""Bytes of a message."""
UNREADABLE = "unreadable"
"""The kind of message that replaces an unreadable file; its text gives the reason."""
WAITS = "the message waits in its inbox for `coterie resume`"


class RunMessage(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What another process says to a run.

    Attributes:
        id: Given by the sender; the run records it once however often it comes.
        kind: `answer`, `permit`, `emit`, `memory`, `task`, `interrupt`, `guide` or `stop`.
        turn: Which turn it is for; in a child run `<turn>.<attempt>/<turn>`; empty where one can be guessed.
        attempt: With *epoch*, the attempt that sends it; 0: an operator sends it.
        token: The attempt's token, or the operator's signature of all the rest.
        by: The attempt that speaks as the operator of a run that it began; empty: an operator does, or *attempt*.
        note: What is to change in memory or tasks; `coterie.workspace.notes` knows what it may hold.
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
        """What an operator's signature covers: all but the signature."""
        return msgspec.json.encode(msgspec.structs.replace(self, token=""))


class Verdict(Struct, frozen=True, kw_only=True):
    """What became of a message: `accepted`, `refused`, or `queued` for the next owner."""

    status: str
    detail: str = ""


def answer(turn: str, text: str, outputs: dict[str, Any] | None = None) -> RunMessage:
    """A message that answers the question of the human turn *turn*; empty: the only open one."""
    return RunMessage(id=new_message_id(), kind="answer", turn=turn, text=text, outputs=outputs)


def permission(answer: str, id: str = "") -> RunMessage:
    """A message that answers what an attempt needs a person for; see `AttentionAsked`.

    Args:
        answer: `allow`, `deny`, `park` or `fail`; of an attempt that may be stuck `wait` or `interrupt`.
        id: Its id; in a child run `<turn>.<attempt>/<id>`. Empty: the only one that is open.
    """
    return RunMessage(id=new_message_id(), kind="permit", turn=id, text=answer)


def interruption(turn: str = "") -> RunMessage:
    """A message that cuts off the attempt of *turn*, or of all turns; they are retried, and no failure is counted."""
    return RunMessage(id=new_message_id(), kind="interrupt", turn=turn)


def stop() -> RunMessage:
    """A message that interrupts all attempts of a run and stops it; it can be resumed."""
    return RunMessage(id=new_message_id(), kind="stop")


def guidance(text: str, turn: str = "") -> RunMessage:
    """A message that guides *turn*; without it, the loop of the run, or the only turn that runs.

    The attempt under way is steered if its backend can do that; else the turn's next attempt, or its agent's next turn,
    has the guidance in its prompt. A loop's next iteration has it in any case.
    """
    return RunMessage(id=new_message_id(), kind="guide", turn=turn, text=text)


def changed_setting(name: str) -> RunMessage:
    """A message that an operator has changed the setting *name*, which counts when the files are next read."""
    return RunMessage(id=new_message_id(), kind="setting", text=name)


def answered_turns(inbox: Path) -> list[str]:
    """The turns of the answers that wait in *inbox*, as their senders named them."""
    turns = []
    for path in inbox.glob("*.json"):
        with suppress(OSError, ValueError, RecursionError):  # the next owner judges what cannot be read
            message = decode_json(files.read(path, LARGEST), RunMessage)
            turns += [message.turn] if message.kind == "answer" else []
    return turns


def verdict(refusal: str, detail: str = "") -> Verdict:
    """Return the verdict that *refusal* is, or an acceptance with *detail* if it is empty."""
    return Verdict(status="refused", detail=refusal) if refusal else Verdict(status="accepted", detail=detail)
