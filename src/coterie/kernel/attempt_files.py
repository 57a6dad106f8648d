"""The files that an attempt leaves for watchers, later owners and its own process: what a run needs of them."""

from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from coterie.backends.base import Event
from coterie.journal.records import Usage


class AttemptFiles(Protocol):
    """The files of attempts. By default nothing is kept."""

    def run_folder(self, run: str) -> Path | None:
        """The folder of *run*, or None."""
        return None

    def attempt_folder(self, run: str, turn: str, attempt: int) -> Path | None:
        """The folder of an attempt, or None."""
        return None

    def transcript(self, run: str, name: str) -> Path | None:
        """The file *name* for what a coding agent says on the wire, beside the journal of *run*; None: keep nothing."""
        return None

    def tool(self, run: str, turn: str, attempt: int) -> str:
        """The command through which an attempt emits."""
        return "autoloops"

    def token(self, run: str, turn: str, attempt: int, epoch: int) -> str:
        """The token that proves to this owner, and to later ones, that an attempt of *run* sent a message."""
        return ""

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


class NoAttemptFiles(AttemptFiles):
    """Keep nothing."""


class KeptPrompts(Protocol):
    """The prompts of attempts, where they are at hand."""

    def kept_question(self, run: str, turn: str, attempt: int) -> str:
        """The prompt of an attempt; empty if it was not kept."""
