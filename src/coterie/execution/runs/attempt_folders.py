"""The files of runs on disk, beside their journals.

<state_dir>/runs/<run>/journal.jsonl            the truth
                       lock  control.json bell  who owns it, and the socket of its doorbell
                       secret                   what the tokens of its attempts are made with
                       inbox/<id>.json          messages to it
                       memory.jsonl tasks.jsonl what it remembers, and has to do
                       turns/<turn>.<attempt>/  an attempt's stream.jsonl and wrapper, in a loop asked.md, and the
                                                journal of a child run
                       agents/pi-<n>/           the files of a process that serves attempts one after the other
"""

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

import msgspec

from coterie.agents.backends import attempt as backend_files
from coterie.agents.backends import wrapper
from coterie.agents.backends.agentside.client import OUTBOX, OWN, TEMPORARY
from coterie.agents.backends.base import AttemptRef, Text, Used
from coterie.agents.backends.models import steps
from coterie.agents.backends.sandbox.restoring import restore
from coterie.agents.backends.team_files import put_back
from coterie.base import agent_writes, files
from coterie.base.ids import attempt_id, folder_name
from coterie.base.shortages import shortage, suppress_os_errors
from coterie.execution.kernel.attempt_files import AttemptFiles, AttemptPlace
from coterie.execution.kernel.turns import TurnEvent
from coterie.execution.runs.messages.tokens import Tokens
from coterie.execution.runs.repository import Runs
from coterie.history.journal.jsonl import STREAM, STREAM_MOST
from coterie.history.journal.records import Usage
from coterie.history.journal.rules import root_of

ASKED = "asked.md"
"""The file with the prompt of a loop's attempt, in the attempt's folder."""
_LARGEST = 64 << 20
"""How many bytes of a stored prompt are read."""
HOW_FAR_MOST = 2_000
"""How many characters are kept from the end of an interrupted attempt's answer."""
STREAM_FULL = msgspec.json.encode(Text(text="(what follows is not kept)\n", channel="log")) + b"\n"
"""The last line of a `stream.jsonl` that has reached its largest size."""


class AttemptFolders(AttemptFiles):
    """Keeps the files of each attempt in a folder below that of its run."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._tokens: dict[str, Tokens] = {}

    def run_folder(self, run: str) -> Path:
        """The folder of *run*."""
        return self._runs.folder(run)

    def attempt_folder(self, ref: AttemptRef) -> Path:
        """The folder of an attempt, created on first use."""
        return _attempt_folder(self.run_folder(ref.run), ref.turn, ref.attempt)

    def place(self, ref: AttemptRef, transcript: Callable[[str, str], str] | None) -> AttemptPlace:
        """The place of an attempt; its transcript is in the folder of its run, unless its name is a path.

        Raises:
            JournalFailed: If the secret of its root run, with which its token is made, cannot be read or made.
        """
        own, root = self.run_folder(ref.run), root_of(ref.run)
        folder, top = _attempt_folder(own, ref.turn, ref.attempt), own if root == ref.run else self.run_folder(root)
        if transcript is None:
            return AttemptPlace(folder=folder, root=top)
        if (tokens := self._tokens.get(root)) is None:
            tokens = self._tokens[root] = Tokens.of(top)
        return AttemptPlace(
            folder=folder,
            root=top,
            token=tokens.attempt(ref.run, ref.turn, ref.attempt, ref.epoch),
            transcript=own / f"{transcript(ref.run, ref.turn)}.jsonl",
        )

    def tool(self, ref: AttemptRef) -> str:
        """The path of the attempt's wrapper."""
        return str(wrapper.link_of(self.attempt_folder(ref)) / wrapper.NAME)

    def stream(self, folder: Path, event: TurnEvent) -> None:
        """Append *event* to the `stream.jsonl` in *folder*, without a sync: no decision depends on it.

        The size of the file is limited, so an agent that prints without end does not fill the disk.

        Raises:
            OSError: If it cannot be written.
        """
        path = f"{folder}/{STREAM}"
        try:
            file = files.open_private(path, "ab")
        except FileNotFoundError:
            files.make_folder(folder)
            file = files.open_private(path, "ab")
        with file:
            room = STREAM_MOST - file.tell()
            if room > 0:
                line = msgspec.json.encode(event) + b"\n"
                file.write(line + (STREAM_FULL if len(line) >= room else b""))

    def said(self, ref: AttemptRef) -> dict[str, int]:
        """Count the characters in the attempt's `stream.jsonl`, by channel, without an incomplete last line."""
        said: dict[str, int] = {}
        try:
            lines = files.read(self.attempt_folder(ref) / STREAM, 2 * STREAM_MOST).splitlines()
        except FileNotFoundError:
            return said
        for line in lines:
            with suppress(msgspec.DecodeError):
                event = msgspec.json.decode(line, type=Text)
                said[event.channel] = said.get(event.channel, 0) + len(event.text)
        return said

    def used(self, ref: AttemptRef) -> list[Usage]:
        """The usages in the attempt's `stream.jsonl`, in order, without an incomplete last line."""
        found: list[Usage] = []
        try:
            lines = files.read_end(self.attempt_folder(ref) / STREAM, STREAM_MOST).splitlines()
        except OSError:
            return found
        for line in lines:
            if b'"usage"' in line:
                with suppress(msgspec.DecodeError):
                    found.append(msgspec.json.decode(line, type=Used).usage)
        return found

    def clear_attempts(self, run: str, attempts: Iterable[tuple[str, int]]) -> None:
        """Remove the files that a backend makes for an attempt, with pipes and sockets; files of the agent stay."""
        for folder in (self.run_folder(run) / "agents").glob("*"):  # of a root run
            restore(folder)
            put_back(folder)
        agent_writes.end(self.run_folder(run) / "agents")  # and merges of what they left
        for turn, attempt in attempts:
            folder = self.attempt_folder(AttemptRef(run=run, turn=turn, attempt=attempt))
            restore(folder)
            put_back(folder)
            agent_writes.end(folder)
            clear_attempt(folder)

    def forget(self, run: str, turn: str, attempts: int) -> None:
        """Remove the steps of *turn* from the folders of its attempts."""
        refs = (AttemptRef(run=run, turn=turn, attempt=n) for n in range(1, attempts + 1))
        steps.remove(map(self.attempt_folder, refs))

    def keep_question(self, ref: AttemptRef, prompt: str) -> None:
        """Write *prompt* to the attempt's `asked.md`, without a sync: no decision depends on it, so it may be lost."""
        folder = self.attempt_folder(ref)
        with suppress_os_errors():
            files.make_folder(folder)
            files.write(folder / ASKED, prompt.encode("utf-8", "surrogatepass"))

    async def question(self, ref: AttemptRef) -> str:
        """As `kept_question`, which does not block for long here."""
        return self.kept_question(ref.run, ref.turn, ref.attempt)

    def kept_question(self, run: str, turn: str, attempt: int) -> str:
        """The content of the attempt's `asked.md`."""
        try:
            folder = self.attempt_folder(AttemptRef(run=run, turn=turn, attempt=attempt))
            data = files.read(folder / ASKED, _LARGEST)
            return data.decode("utf-8", "surrogatepass")
        except (OSError, UnicodeDecodeError) as error:
            if shortage(error):
                raise
            return ""

    async def how_far(self, ref: AttemptRef) -> str:
        """The end of an attempt's answer so far."""
        path = self.attempt_folder(ref) / STREAM
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
                continue  # an incomplete line, at the end of the file or at the beginning of the window
            if event.get("kind") == "text" and event.get("channel", "answer") == "answer":
                said += event.get("text", "")
        return said[-HOW_FAR_MOST:].strip()


@lru_cache
def _attempt_folder(run: Path, turn: str, attempt: int) -> Path:
    return run.joinpath("turns", folder_name(attempt_id(turn, attempt)))


def clear_attempt(folder: Path) -> None:
    """Remove the temporary files, and the messages, in the *folder* of an attempt that is over."""
    wrapper.unlink(wrapper.link_of(folder))
    with suppress(OSError), files.folder_below(folder.parent, (folder.name,)) as fd:
        if OWN in _cleared(fd):
            with files.folder_below(folder.parent, (folder.name, OWN)) as own:
                _cleared(own, OUTBOX)  # its messages were taken, or are stale
            os.rmdir(OWN, dir_fd=fd)


def _cleared(fd: int, *over: str) -> list[str]:
    """Remove temporary and special files, and those of the names *over*, in the open folder *fd*; the names it had."""
    with os.scandir(fd) as entries:
        found = list(entries)
    for one in found:
        is_over = one.name in over or one.name.startswith(TEMPORARY) or backend_files.is_temporary(one.name)
        is_plain = one.is_symlink() or one.is_file() or one.is_dir()
        with suppress(OSError):
            if is_over or not is_plain:  # a pipe, a socket or a device
                files.remove(one.name, dir_fd=fd)
    return [one.name for one in found]
