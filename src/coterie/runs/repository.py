"""The runs on disk: where each is kept, and how one is found by what a person types.

This is the one module that names the store on disk; `coterie.journal.runs` reads what the journals hold.
"""

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from coterie.errors import NoSuchRun
from coterie.journal.jsonl import JsonlStore
from coterie.journal.runs import RunReader
from coterie.journal.status import RunStatus
from coterie.runs import index

if TYPE_CHECKING:
    from coterie.runs.messages import RunMessage, Verdict

STATE_DIR = ".coterie"


class Runs(RunReader):
    """The runs of one state directory.

        runs, run = find("last", Path(".coterie"))
        for record in runs.read(run): ...

    Args:
        root: The state directory; the first run makes it.
        poll: Seconds between two checks of `follow` for new records.
    """

    store: JsonlStore

    def __init__(self, root: Path, poll: float = 0.05) -> None:
        super().__init__(JsonlStore(root, poll))
        self.root = root

    def folder(self, run: str) -> Path:
        """The folder with all files of *run*, whether it exists or not."""
        return self.store.folder(run)

    def file(self, run: str) -> Path:
        """The file with the journal of *run*, whether it exists or not."""
        return self.store.file(run)

    def inbox(self, run: str) -> Path:
        """The folder in which messages to the root run *run* wait."""
        return self.folder(run) / "inbox"

    def send(self, run: str, message: "RunMessage") -> "Verdict":
        """Send the root run *run* a message and, if its owner lives, wait for the verdict.

        Refused at once: an operator's message from within an attempt, and an answer to a run without an owner while an
        attempt of it is still alive.

        Raises:
            UsageError: If the message is not UTF-8 text.
            OSError: If it cannot be put into the inbox.
        """
        from coterie.runs.messages.dispatch import send  # readers of runs start without what sending needs

        return send(self, run, self.folder(run), message)


def find(name: str, state_dir: Path) -> tuple[Runs, str]:
    """The run that *name* names, and the state directory that holds it, which may be another than *state_dir*.

    Args:
        name: An id, a beginning of one that only one run has, or `last`; with `/TURN.ATTEMPT` one of its child runs.

    Raises:
        NoSuchRun: If there is none.
        UsageError: If several runs begin with *name*.
    """
    root, _, below = name.partition("/")
    runs, run = run_in(index.find(root, state_dir))
    if below:
        run = f"{run}/{below}"
        if not runs.has(run):
            raise NoSuchRun(run)
    return runs, run


def run_in(folder: Path) -> tuple[Runs, str]:
    """The root run whose files are in *folder*, and the state directory that holds it."""
    return Runs(index.home_of(folder)), unquote(folder.name)


def status_in(folder: Path) -> RunStatus:
    """The status of the root run whose files are in *folder*."""
    runs, run = run_in(folder)
    return runs.store.status(run)
