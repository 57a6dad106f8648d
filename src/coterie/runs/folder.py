"""Where the files of runs lie on disk, beside their journals.

<state_dir>/runs/<run>/journal.jsonl            the truth
                       lock  control.json bell  who owns it, and the socket of its doorbell
                       secret                   what the tokens of its attempts are made with
                       inbox/<id>.json          messages to it
                       memory.jsonl tasks.jsonl what it remembers, and has to do
                       turns/<turn>.<attempt>/  an attempt's stream.jsonl and wrapper, in a loop asked.md, and the
                                                journal of a child run
"""

import json
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from coterie import files
from coterie.backends import attempt as attempt_files
from coterie.backends import wrapper
from coterie.backends.base import Event, Text
from coterie.errors import shortage, suppress_os_errors
from coterie.ids import attempt_id, folder_name
from coterie.journal.records import Record, TreeMade, TreeSaved, TreesJoined
from coterie.journal.rules import root_of
from coterie.planning.plan import Plan
from coterie.runs import held
from coterie.runs.driven_run import Ended, Place
from coterie.runs.ending import Ending
from coterie.runs.kinds import kind_of
from coterie.runs.notes import Files, Memory, Notes, NoteSettings, Tasks
from coterie.runs.repository import Runs
from coterie.runs.tokens import Tokens
from coterie.runs.trees.keeping import Trees

STATE_DIR = ".coterie"
ASKED = "asked.md"
"""What an attempt of a loop was asked, in its folder."""
READ_MOST = 20_000
"""Characters of a file that an agent `reads` which join its prompt."""
STREAM_MOST = 32_000_000
"""Bytes of an attempt's `stream.jsonl`, and a line that says that the rest is left out."""
_LARGEST = 64 << 20
"""Bytes of a prompt that is read again."""
HOW_FAR_MOST = 2_000
"""Characters of what a cut-off attempt had said, from its end."""
STREAM_FULL = msgspec.json.encode(Text(text="(what follows is not kept)\n", channel="log")) + b"\n"


class DiskPlace(Place):
    """The files of runs under one state directory.

    Args:
        runs: Knows where each run's folder is.
        cwd: What file names that agents `read` start from.
        trees: The files that the runs work on, where git has them.
        ending: The steps before the root run ends.
    """

    def __init__(self, runs: Runs, cwd: Path, trees: Trees | None = None, ending: Ending | None = None) -> None:
        self._runs, self._cwd, self._trees, self._ending = runs, cwd, trees, ending
        self._tokens: dict[str, Tokens] = {}

    def folder(self, run: str) -> Path:
        """The folder of *run*."""
        return self._runs.folder(run)

    def attempt_folder(self, run: str, turn: str, attempt: int) -> Path:
        """The folder of an attempt; whoever first needs it makes it."""
        return self._runs.folder(run) / "turns" / folder_name(attempt_id(turn, attempt))

    def token(self, run: str, turn: str, attempt: int, epoch: int) -> str:
        """The token of an attempt, made with the secret of its root run.

        Raises:
            JournalFailed: If that secret cannot be read or made.
        """
        root = root_of(run)
        if root not in self._tokens:
            self._tokens[root] = Tokens(self._runs.folder(root))
        return self._tokens[root].attempt(run, turn, attempt, epoch)

    def stream(self, run: str, turn: str, attempt: int, event: Event) -> None:
        """Append *event* to the attempt's `stream.jsonl`, unsynced: nothing is decided from it, so it may be lost.

        The file is bounded: an agent that prints without end does not fill the disk.
        """
        folder = self.attempt_folder(run, turn, attempt)
        with suppress_os_errors():
            files.make_folder(folder)
            with files.open_private(folder / "stream.jsonl", "ab") as file:
                room = STREAM_MOST - file.tell()
                if room > 0:
                    line = msgspec.json.encode(event) + b"\n"
                    file.write(line + (STREAM_FULL if len(line) >= room else b""))

    def said(self, run: str, turn: str, attempt: int) -> dict[str, int]:
        """Count the characters in the attempt's `stream.jsonl`, by channel; a line that was cut off does not count."""
        said: dict[str, int] = {}
        try:
            lines = files.read(self.attempt_folder(run, turn, attempt) / "stream.jsonl", 2 * STREAM_MOST).splitlines()
        except FileNotFoundError:
            return said
        for line in lines:
            with suppress(msgspec.DecodeError):
                event = msgspec.json.decode(line, type=Text)
                said[event.channel] = said.get(event.channel, 0) + len(event.text)
        return said

    def clear_attempts(self, run: str, attempts: Iterable[tuple[str, int]]) -> None:
        """Remove the files that a backend makes for an attempt, and pipes and sockets; what an agent wrote stays."""
        for turn, attempt in attempts:
            folder = self.attempt_folder(run, turn, attempt)
            for path in folder.iterdir() if folder.is_dir() else ():
                if path.name in attempt_files.NAMES or not (path.is_symlink() or path.is_file() or path.is_dir()):
                    path.unlink(missing_ok=True)

    def keep_question(self, run: str, turn: str, attempt: int, prompt: str) -> None:
        """Write *prompt* to the attempt's `asked.md`, unsynced: nothing is decided from it, so it may be lost."""
        folder = self.attempt_folder(run, turn, attempt)
        with suppress_os_errors():
            files.make_folder(folder)
            files.write(folder / ASKED, prompt.encode("utf-8", "surrogatepass"))

    def question(self, run: str, turn: str, attempt: int) -> str:
        """What the attempt's `asked.md` holds."""
        try:
            data = files.read(self.attempt_folder(run, turn, attempt) / ASKED, _LARGEST)
            return data.decode("utf-8", "surrogatepass")
        except (OSError, UnicodeDecodeError) as error:
            if shortage(error):
                raise
            return ""

    def how_far(self, run: str, turn: str, attempt: int) -> str:
        """The end of what an attempt had said."""
        path = self.attempt_folder(run, turn, attempt) / "stream.jsonl"
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

    def files(self, run: str, settings: NoteSettings | None, kind: str) -> Files:
        """Where the `memory`, or the `task`s, of *run* lie: the project's, and its own.

        The branch of a wave has those of the loop that opened it: what it learns is not lost with it.
        """
        name = {"memory": "memory.jsonl", "task": "tasks.jsonl"}[kind]
        project = self._runs.root / name
        if settings is not None:
            project = settings.memory if kind == "memory" else settings.tasks
            if settings.of_parent:
                run = run.rpartition("/")[0]
        return Files(project=project, run=self._runs.folder(run) / name)

    def notes(self, run: str, settings: NoteSettings | None, turn: str, attempt: int) -> Notes:
        """What the prompt of an attempt in *run* shows of its memory and tasks, and its wrapper."""
        memory, tasks = (settings.memory_chars, settings.tasks_chars) if settings is not None else (0, 0)
        return Notes(
            memory=Memory.of(self.files(run, settings, "memory")).render(memory),
            tasks=Tasks.of(self.files(run, settings, "task")).render(tasks),
            tool=str(self.attempt_folder(run, turn, attempt).absolute() / wrapper.NAME),
        )

    def open_tasks(self, run: str, settings: NoteSettings | None) -> tuple[str, ...]:
        """The open tasks of *run*, and of the project, that are not soft; none for a run that uses its parent's."""
        if settings is not None and settings.of_parent:
            return ()
        return Tasks.of(self.files(run, settings, "task")).blocking()

    @property
    def saves(self) -> bool:
        """Whether what the files are is kept at each turn's end."""
        return self._trees is not None and self._trees.saves

    def cwd(self, run: str) -> Path | None:
        """Where the agents of *run* work; None: where everything was started."""
        return self._trees.cwd(run) if self._trees is not None else None

    async def saved(self, run: str, turn: str, attempt: int) -> TreeSaved | None:
        """Keep the files as an attempt leaves them; None: nothing is kept."""
        return await self._trees.saved(run, turn, attempt) if self._trees is not None else None

    def lacks_tree(self, made: Collection[str]) -> bool:
        """Whether the root run is to have a work tree that is not among those *made*, by path."""
        return self._trees is not None and self._trees.lacks_own(made)

    def make_tree(self) -> TreeMade | None:
        """Make the work tree of the root run; None: it works where it was started."""
        return self._trees.make_own() if self._trees is not None else None

    async def begin_branch(self, run: str, plan: Plan) -> TreeMade | None:
        """Make the work tree of *run*, a branch of a wave; None: it works where its loop does."""
        return await self._trees.begin(run, plan) if self._trees is not None else None

    async def join_branches(self, run: str, wave: int) -> TreesJoined | None:
        """Bring together what the branches of a *wave* of *run* did to its files; None: there is nothing to bring."""
        return await self._trees.join(run, wave) if self._trees is not None else None

    def held(self, run: str) -> dict[str, str]:
        """Values that the plan of the root of *run* refers to."""
        return held.read(self._runs.folder(root_of(run)))

    def closes(self, plan: Plan) -> bool:
        """Whether a root run of *plan* has steps to do before it ends."""
        has_tree = self._trees is not None and self._trees.has_own
        return self._ending is not None and (has_tree or kind_of(plan).notify != ())

    def closing_step(self, plan: Plan, done: Sequence[Record], ended: Ended) -> Callable[[], Record] | None:
        """The next step before the root run ends or stops; None: all are *done*."""
        return self._ending.step(plan, done, ended) if self._ending is not None else None

    def read_file(self, name: str) -> str | None:
        """The text of a file below the working directory, cut at a bound; None if there is none to show."""
        path = (self._cwd / name).resolve()
        if not path.is_relative_to(self._cwd.resolve()):
            return None
        try:
            with open(files.open_fd(path), encoding="utf-8") as file:
                text = file.read(READ_MOST + 1)
        except (OSError, UnicodeDecodeError) as error:
            if shortage(error):
                raise
            return None
        return text if len(text) <= READ_MOST else text[:READ_MOST] + f"\n… (cut at {READ_MOST} characters)"


def control(folder: Path) -> dict[str, str]:
    """What the owner of the run in *folder* published: the socket of its doorbell. Empty if there is nothing."""
    try:
        found = json.loads(files.read(folder / "control.json", 1 << 16))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
