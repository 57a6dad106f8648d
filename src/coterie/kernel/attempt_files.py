"""The files that an attempt leaves for watchers, later owners and its own process: what a run needs of them."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from coterie.backends.base import Event
from coterie.journal.records import Usage


class AttemptPlace(Struct, frozen=True, kw_only=True):
    """Where an attempt is kept, as its `Request` says it; nowhere by default.

    Attributes:
        folder: Its own.
        root: That of its root run.
        token: Proves to this owner, and to later ones, that it sent a message.
        transcript: The file, without the backend's label, for what a coding agent says on the wire.
    """

    folder: Path | None = None
    root: Path | None = None
    token: str = ""
    transcript: Path | None = None


NOWHERE = AttemptPlace()


class AttemptFiles:
    """The files of attempts. By default nothing is kept."""

    def place(
        self, run: str, turn: str, attempt: int, epoch: int, transcript: Callable[[str, str], str]
    ) -> AttemptPlace:
        """Where an attempt that the owner of *epoch* starts is kept; *transcript* names what it says on the wire."""
        return NOWHERE

    def attempt_folder(self, run: str, turn: str, attempt: int) -> Path | None:
        """The folder of an attempt, or None."""
        return None

    def tool(self, run: str, turn: str, attempt: int) -> str:
        """The command through which an attempt emits."""
        return "autoloops"

    def stream(self, run: str, turn: str, attempt: int, event: Event) -> None:
        """Keep an event of an attempt, for watchers; an `OSError` stops the run only if it is a shortage."""
        return

    def said(self, run: str, turn: str, attempt: int) -> dict[str, int]:
        """The number of characters on each channel of an attempt that `stream` kept."""
        return {}

    def used(self, run: str, turn: str, attempt: int) -> list[Usage]:
        """The usages of an attempt that `stream` kept, in order, each in all so far."""
        return []

    async def how_far(self, run: str, turn: str, attempt: int) -> str:
        """The end of the answer that an attempt was writing when it was cut off."""
        return ""

    def clear_attempts(self, run: str, attempts: Iterable[tuple[str, int]]) -> None:
        """Remove what *attempts*, each a turn and a number, left half done when their owner was killed."""
        return

    def keep_question(self, run: str, turn: str, attempt: int, prompt: str) -> None:
        """Keep the prompt of an attempt."""
        return

    async def question(self, run: str, turn: str, attempt: int) -> str:
        """The prompt of an attempt, if it was kept; else empty."""
        return ""


class KeptPrompts(Protocol):
    """The prompts of attempts, where they are at hand."""

    def kept_question(self, run: str, turn: str, attempt: int) -> str:
        """The prompt of an attempt; empty if it was not kept."""
