"""The interface of a run to the files of its attempts, which watchers, later owners and the attempt's process read."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from coterie.agents.backends.base import AttemptRef
from coterie.execution.kernel.turns import TurnEvent
from coterie.history.journal.records import Usage


class AttemptPlace(Struct, frozen=True, kw_only=True):
    """Where the files of an attempt are kept, for its `Request`; by default nowhere.

    Attributes:
        folder: The folder of the attempt.
        root: The folder of its root run.
        token: Proves to this owner and to later ones that the attempt sent a message.
        transcript: The file for the protocol traffic of a coding agent, without the backend's label.
    """

    folder: Path | None = None
    root: Path | None = None
    token: str = ""
    transcript: Path | None = None

    def of_gate(self) -> "AttemptPlace":
        """The place of a gate of the attempt, which may still be running; a gate says nothing to the run."""
        return AttemptPlace(folder=self.folder and self.folder / "gate", root=self.root)


NOWHERE = AttemptPlace()


class AttemptFiles:
    """The files of attempts. This base class keeps nothing."""

    def place(self, ref: AttemptRef, transcript: Callable[[str, str], str] | None) -> AttemptPlace:
        """The place of the attempt *ref*, which starts; *transcript* names its protocol log.

        Without *transcript* it has neither a log nor a token: no process of it speaks to the run.
        """
        return NOWHERE

    def attempt_folder(self, ref: AttemptRef) -> Path | None:
        """The folder of an attempt, or None."""
        return None

    def tool(self, ref: AttemptRef) -> str:
        """The command with which an attempt emits events."""
        return "autoloops"

    def stream(self, folder: Path, event: TurnEvent) -> None:
        """Store an event of the attempt in *folder*; an `OSError` stops the run only if it is a shortage."""
        return

    def said(self, ref: AttemptRef) -> dict[str, int]:
        """The number of characters that `stream` stored, by channel of an attempt."""
        return {}

    def used(self, ref: AttemptRef) -> list[Usage]:
        """The usage reports of an attempt that `stream` stored, in order; each is a running total."""
        return []

    async def how_far(self, ref: AttemptRef) -> str:
        """The end of the answer that an attempt was writing when it was cut off."""
        return ""

    def clear_attempts(self, run: str, attempts: Iterable[tuple[str, int]]) -> None:
        """Remove the temporary files of *attempts*, each a turn and a number, whose owner was killed."""
        return

    def forget(self, run: str, turn: str, attempts: int) -> None:
        """Remove the conversation that the *attempts* of *turn* kept."""
        return

    def keep_question(self, ref: AttemptRef, prompt: str) -> None:
        """Store the prompt of an attempt."""
        return

    async def question(self, ref: AttemptRef) -> str:
        """The prompt of an attempt; empty if it was not stored."""
        return ""


class KeptPrompts(Protocol):
    """Read access to the stored prompts of attempts."""

    def kept_question(self, run: str, turn: str, attempt: int) -> str:
        """The prompt of an attempt; empty if it was not stored."""
