"""Where the files of runs lie on disk, beside their journals.

<state_dir>/runs/<run>/journal.jsonl            the truth
                       lock  control.json bell  who owns it, and the socket of its doorbell
                       secret                   what the tokens of its attempts are made with
                       inbox/<id>.json          messages to it
                       memory.jsonl tasks.jsonl what it remembers, and has to do
                       turns/<turn>.<attempt>/  an attempt's stream.jsonl and wrapper, in a loop asked.md, and the
                                                journal of a child run
                       agents/pi-<n>/           the files of a process that serves attempts one after the other
"""

import shutil
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import msgspec

from coterie import files
from coterie.backends import attempt as backend_files
from coterie.backends import wrapper
from coterie.backends.agentside.client import OWN, TEMPORARY
from coterie.backends.base import Event, Text, Used
from coterie.backends.sandbox.restoring import restore
from coterie.backends.team_files import put_back
from coterie.ids import attempt_id, folder_name
from coterie.journal.jsonl import STREAM, STREAM_MOST
from coterie.journal.records import Usage
from coterie.journal.rules import root_of
from coterie.kernel.attempt_files import AttemptFiles, AttemptPlace
from coterie.runs.messages.tokens import Tokens
from coterie.runs.repository import Runs
from coterie.shortages import shortage, suppress_os_errors

ASKED = "asked.md"
"""The file with the prompt of an attempt of a loop, in its folder."""
_LARGEST = 64 << 20
"""Bytes of a prompt that is read again."""
HOW_FAR_MOST = 2_000
"""Characters of what a cut-off attempt had said, from its end."""
STREAM_FULL = msgspec.json.encode(Text(text="(what follows is not kept)\n", channel="log")) + b"\n"
"""The last line of a `stream.jsonl` that is as large as it may be."""


class AttemptFolders(AttemptFiles):
    """The files of attempts in a folder each, below the folder of their run."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._folders: dict[str, Path] = {}
        self._tokens: dict[str, Tokens] = {}

    def run_folder(self, run: str) -> Path:
        """The folder of *run*."""
        if (folder := self._folders.get(run)) is None:
            folder = self._folders[run] = self._runs.folder(run)
        return folder

    def attempt_folder(self, run: str, turn: str, attempt: int) -> Path:
        """The folder of an attempt, which is made when it is first needed."""
        return self.run_folder(run) / "turns" / folder_name(attempt_id(turn, attempt))

    def place(
        self, run: str, turn: str, attempt: int, epoch: int, transcript: Callable[[str, str], str]
    ) -> AttemptPlace:
        """Where an attempt is kept; its transcript lies in the folder of *run*, unless its name is a path."""
        return AttemptPlace(
            folder=self.attempt_folder(run, turn, attempt),
            root=self.run_folder(root_of(run)),
            token=self.token(run, turn, attempt, epoch),
            transcript=self.run_folder(run) / f"{transcript(run, turn)}.jsonl",
        )

    def tool(self, run: str, turn: str, attempt: int) -> str:
        """The path of the attempt's wrapper."""
        return str(self.attempt_folder(run, turn, attempt).absolute() / wrapper.NAME)

    def token(self, run: str, turn: str, attempt: int, epoch: int) -> str:
        """The token of an attempt, made with the secret of its root run.

        Raises:
            JournalFailed: If that secret cannot be read or made.
        """
        root = root_of(run)
        if root not in self._tokens:
            self._tokens[root] = Tokens.of(self._runs.folder(root))
        return self._tokens[root].attempt(run, turn, attempt, epoch)

    def stream(self, run: str, turn: str, attempt: int, event: Event) -> None:
        """Append *event* to the attempt's `stream.jsonl`, unsynced: nothing is decided from it, so it may be lost.

        The file is bounded: an agent that prints without end does not fill the disk.

        Raises:
            OSError: If it cannot be written.
        """
        folder = self.attempt_folder(run, turn, attempt)
        files.make_folder(folder)
        with files.open_private(folder / STREAM, "ab") as file:
            room = STREAM_MOST - file.tell()
            if room > 0:
                line = msgspec.json.encode(event) + b"\n"
                file.write(line + (STREAM_FULL if len(line) >= room else b""))

    def said(self, run: str, turn: str, attempt: int) -> dict[str, int]:
        """Count the characters in the attempt's `stream.jsonl`, by channel; a line that was cut off does not count."""
        said: dict[str, int] = {}
        try:
            lines = files.read(self.attempt_folder(run, turn, attempt) / STREAM, 2 * STREAM_MOST).splitlines()
        except FileNotFoundError:
            return said
        for line in lines:
            with suppress(msgspec.DecodeError):
                event = msgspec.json.decode(line, type=Text)
                said[event.channel] = said.get(event.channel, 0) + len(event.text)
        return said

    def used(self, run: str, turn: str, attempt: int) -> list[Usage]:
        """The usages that the attempt's `stream.jsonl` holds, in order; a line that was cut off does not count."""
        found: list[Usage] = []
        try:
            lines = files.read_end(self.attempt_folder(run, turn, attempt) / STREAM, STREAM_MOST).splitlines()
        except OSError:
            return found
        for line in lines:
            if b'"usage"' in line:
                with suppress(msgspec.DecodeError):
                    found.append(msgspec.json.decode(line, type=Used).usage)
        return found

    def clear_attempts(self, run: str, attempts: Iterable[tuple[str, int]]) -> None:
        """Remove the files that a backend makes for an attempt, and pipes and sockets; what an agent wrote stays."""
        for folder in (self.run_folder(run) / "agents").glob("*"):  # of a root run
            restore(folder)
            put_back(folder)
        for turn, attempt in attempts:
            folder = self.attempt_folder(run, turn, attempt)
            restore(folder)
            put_back(folder)
            for path in [*folder.glob("*"), *(folder / OWN).glob("*")]:
                if path.name.startswith(TEMPORARY) and path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path, ignore_errors=True)
                elif backend_files.is_temporary(path.name) or not (
                    path.is_symlink() or path.is_file() or path.is_dir()
                ):
                    path.unlink(missing_ok=True)

    def keep_question(self, run: str, turn: str, attempt: int, prompt: str) -> None:
        """Write *prompt* to the attempt's `asked.md`, unsynced: nothing is decided from it, so it may be lost."""
        folder = self.attempt_folder(run, turn, attempt)
        with suppress_os_errors():
            files.make_folder(folder)
            files.write(folder / ASKED, prompt.encode("utf-8", "surrogatepass"))

    async def question(self, run: str, turn: str, attempt: int) -> str:
        """As `kept_question`, which takes no time here."""
        return self.kept_question(run, turn, attempt)

    def kept_question(self, run: str, turn: str, attempt: int) -> str:
        """What the attempt's `asked.md` holds."""
        try:
            data = files.read(self.attempt_folder(run, turn, attempt) / ASKED, _LARGEST)
            return data.decode("utf-8", "surrogatepass")
        except (OSError, UnicodeDecodeError) as error:
            if shortage(error):
                raise
            return ""

    async def how_far(self, run: str, turn: str, attempt: int) -> str:
        """The end of what an attempt had said."""
        path = self.attempt_folder(run, turn, attempt) / STREAM
        try:
            lines = files.read_end(path, 8 * HOW_FAR_MOST).splitlines()
        except OSError as error:
            if shortage(error):
                raise
            return ""
        said = ""
        for line in lines:
            try:
                event = msgspec.json.decode(line)
            except msgspec.DecodeError:
                continue  # the line it was cut off in, or the one the window begins in
            if event.get("kind") == "text" and event.get("channel", "answer") == "answer":
                said += event.get("text", "")
        return said[-HOW_FAR_MOST:].strip()
