"""What the files of a work tree were: kept in git under hidden refs, and brought back in another work tree.

Files that git ignores are not kept, nor is the state directory, nor the inside of submodules and of repositories in
the tree (their commit is). Keeping uses an index of its own, so the user's index, HEAD and stash stay as they are; that
index is used again, so only files that changed since are read.
"""

import threading
from collections.abc import Iterable
from contextlib import suppress
from itertools import dropwhile
from pathlib import Path
from urllib.parse import quote

from msgspec import Struct

from coterie import files
from coterie.errors import GitFailed, shortage
from coterie.ids import attempt_id
from coterie.runs.trees.git import Repository, identity

LARGEST_INDEX = 1 << 30
"""Bytes of a git index."""
REFS = "refs/coterie"
_IGNORED = "The following paths are ignored by one of your .gitignore files"
"""What git says before the names of folders that it was told to leave out, and would have left out."""


class Saved(Struct, frozen=True, kw_only=True):
    """The files of one moment.

    Attributes:
        commit: Holds them; its parent is what was checked out.
        incomplete: Why some files are not in it; empty: all are.
    """

    commit: str
    incomplete: str = ""


class Snapshots:
    """Keeps the files of one work tree; calls from several threads take their turn.

    Args:
        index: Where its index lies; the folder is made when it is first used.
        without: Folders whose files are no part of what is kept.
    """

    def __init__(self, repository: Repository, index: Path, without: Iterable[Path] = ()) -> None:
        self.repository, self._index = repository, index
        self._without = excluded(repository, without)
        self._lock = threading.Lock()
        self._last: tuple[str, str, str] | None = None
        """The files that were kept last, what was checked out then, and the commit that holds both."""

    def save(self, run: str, turn: str, attempt: int) -> Saved:
        """Keep the files as they are now, under the ref of an attempt.

        Raises:
            GitFailed: If git cannot.
        """
        with self._lock:
            tree, incomplete = self._write()
            head = self.repository.commit_of("HEAD")
            if self._last is None or self._last[:2] != (tree, head):
                message = f"The files at the end of {turn} of run {run}\n"
                parents = (head,) if head else ()
                self._last = (tree, head, self.repository.commit(tree, parents, message, identity()))
            commit = self._last[2]
            self.repository.ask("update-ref", ref(run, turn, attempt), commit)
            return Saved(commit=commit, incomplete=incomplete)

    def _write(self) -> tuple[str, str]:
        """The id of the tree that the files are, and why some are not in it."""
        env = {"GIT_INDEX_FILE": str(self._index)}
        files.make_folder(self._index.parent)
        self._index.with_name(f"{self._index.name}.lock").unlink(missing_ok=True)  # whoever made it was killed
        if not self._index.exists():
            with suppress(FileNotFoundError):  # nothing was ever added
                files.write(self._index, files.read(self.repository.own / "index", LARGEST_INDEX))
        try:
            return write_files(self.repository, self._without, env)
        finally:
            files.tighten(self._index)  # git gives it the mode that the umask allows


def write_files(repository: Repository, without: Iterable[str], env: dict[str, str]) -> tuple[str, str]:
    """Write all files into the index that *env* names; the id of the tree they are, and why some are not in it.

    Raises:
        GitFailed: If nothing could be written.
    """
    words = ("add", "--all", "--ignore-errors", "--", ":/", *without)
    said = repository.call(*words, env=env)
    failed = GitFailed(words, said.status, said.err)
    if said.status not in (0, 1) or (said.status and shortage(failed)):
        raise failed
    return repository.ask("write-tree", env=env), _why(said.err) if said.status else ""


def _why(err: str) -> str:
    """Why git left a file out, in a line; empty: for no other reason than that git ignores what we leave out anyway.

    Whoever names an ignored folder, be it to leave it out, hears of it from git, with a status that is not 0.
    """
    lines = err.strip().splitlines()
    if lines and lines[0].startswith(_IGNORED):
        lines = list(dropwhile(lambda line: not line.startswith(("error: ", "fatal: ")), lines))
    return lines[0] if lines else ""


def excluded(repository: Repository, folders: Iterable[Path]) -> tuple[str, ...]:
    """Words for git that leave out what lies in *folders*, as far as they are in the work tree."""
    top = repository.top.resolve()
    inside = [folder.resolve() for folder in folders if folder.resolve().is_relative_to(top)]
    names = [folder.relative_to(top).as_posix() for folder in inside if folder != top]
    return tuple(f":(top,exclude,literal){name}" for name in names)


def ref(run: str, turn: str, attempt: int) -> str:
    """The ref under which the files at the end of an attempt are kept."""
    return "/".join([REFS, *map(_part, run.split("/")), _part(attempt_id(turn, attempt))])


def forget(repository: Repository, known: Iterable[str], before: float) -> int:
    """Drop what was kept, before that time in Unix seconds, of root runs that are not *known*; how much that was.

    Git collects what only that held.
    """
    names = {_part(run) for run in known}
    lines = repository.ask("for-each-ref", "--format=%(creatordate:unix) %(refname)", REFS).splitlines()
    refs = [(float(at or 0), name) for at, _, name in (line.partition(" ") for line in lines)]
    gone = [name for at, name in refs if at < before and name.split("/")[2] not in names]
    if gone:
        repository.ask("update-ref", "--stdin", given="".join(f"delete {name}\n" for name in gone))
    return len(gone)


def _part(name: str) -> str:
    """*name* as one part of a ref: such may not begin or end with a dot, end in `.lock`, or hold certain characters."""
    safe = quote(name, safe="#").replace("~", "%7E").replace("..", ".%2E")
    if safe.startswith("."):
        safe = "%2E" + safe[1:]
    return safe[:-5] + "%2Elock" if safe.endswith(".lock") else safe[:-1] + "%2E" if safe.endswith(".") else safe
