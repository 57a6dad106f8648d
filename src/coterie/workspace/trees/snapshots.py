"""Snapshots of the files of a work tree, kept in git under one hidden ref for each run.

A snapshot has no files that git ignores, no state directory, and of submodules and repositories inside the tree only
their commit. It is written with a separate index, so the user's index, HEAD and stash do not change; that index is used
again, so only files that changed since are read.
"""

import threading
from collections.abc import Iterable
from contextlib import suppress
from itertools import dropwhile
from pathlib import Path
from urllib.parse import quote

from msgspec import Struct

from coterie import files
from coterie.errors import GitFailed
from coterie.ids import attempt_id
from coterie.journal.rules import root_of
from coterie.shortages import shortage
from coterie.workspace.trees.git import Repository, identity

LARGEST_INDEX = 1 << 30
"""Bytes that a git index may have."""
REFS = "refs/coterie"
_KEEPING = threading.Lock()
"""Held while a ref is moved: the work trees of a run, which share one, are in the same process."""
_IGNORED = "The following paths are ignored by one of your .gitignore files"
"""The line that git prints before excluded folders that it ignores anyway."""


class Snapshot(Struct, frozen=True, kw_only=True):
    """The files of a work tree at one moment.

    Attributes:
        commit: The commit with the files; its parent is what was checked out.
        incomplete: Why some files are missing in it; empty if none is.
    """

    commit: str
    incomplete: str = ""


class Snapshots:
    """Takes snapshots of one work tree; calls from several threads wait for each other.

    Args:
        index: The path of the separate index; its folder is made when it is first used.
        without: Folders that are left out.
    """

    def __init__(self, repository: Repository, index: Path, without: Iterable[Path] = ()) -> None:
        self.repository, self._index = repository, index
        self._without = excluded(repository, without)
        self._lock = threading.Lock()
        self._last: tuple[str, str, str, str] | None = None
        """The tree and HEAD of the last snapshot, its commit, and the root run that keeps it."""
        self._kept: dict[str, str] = {}

    def save(self, run: str, turn: str, attempt: int) -> Snapshot:
        """Take a snapshot of the files at the end of an attempt.

        Raises:
            GitFailed: If git cannot.
        """
        with self._lock:
            tree, incomplete = self._write()
            head, root = self.repository.commit_of("HEAD"), root_of(run)
            if self._last is None or self._last[:2] != (tree, head) or self._last[3] != root:
                message = f"The files at the end of {attempt_id(turn, attempt)} of run {run}\n"
                parents = (head,) if head else ()
                commit = self.repository.commit(tree, parents, message, identity())
                self._kept[root] = keep(self.repository, root, tree, commit, known=self._kept.get(root))
                self._last = (tree, head, commit, root)
            return Snapshot(commit=self._last[2], incomplete=incomplete)

    def _write(self) -> tuple[str, str]:
        """The id of a git tree with the files, and why some are missing in it."""
        env = {"GIT_INDEX_FILE": str(self._index)}
        files.make_folder(self._index.parent)
        self._index.with_name(f"{self._index.name}.lock").unlink(missing_ok=True)  # left by a killed git
        if not self._index.exists():
            with suppress(FileNotFoundError):  # nothing has been added yet
                files.write(self._index, files.read(self.repository.own / "index", LARGEST_INDEX))
        try:
            return write_files(self.repository, self._without, env)
        finally:
            files.tighten(self._index)  # git applies the umask


def write_files(repository: Repository, without: Iterable[str], env: dict[str, str]) -> tuple[str, str]:
    """Write all files into the index of *env*; returns the id of the git tree, and why some files are missing in it.

    Of a repository inside, only its commit is read: `git add` would call git in it, under its own configuration.

    Raises:
        GitFailed: If nothing could be written.
    """
    listed = repository.output("ls-files", "--stage", "-z", env=env).split("\0")
    inner = [entry.partition("\t")[2] for entry in listed if entry.startswith("160000 ")]
    words = ("add", "--all", "--ignore-errors", "--pathspec-from-file=-", "--pathspec-file-nul")
    added = repository.call(*words, env=env, stdin="\0".join([":/", *without, *map(outside, inner)]))
    if inner:
        repository.output("update-index", "-z", "--add", "--remove", "--stdin", stdin="\0".join(inner), env=env)
    failed = GitFailed(words, added.status, added.err)
    if added.status not in (0, 1) or (added.status and shortage(failed)):
        raise failed
    return repository.output("write-tree", env=env), _why(added.err) if added.status else ""


def _why(err: str) -> str:
    """Why git left a file out, in one line; empty if it only complained about excluded folders.

    Git reports an ignored folder among its arguments, even an excluded one, with a status other than 0.
    """
    lines = err.strip().splitlines()
    if lines and lines[0].startswith(_IGNORED):
        lines = list(dropwhile(lambda line: not line.startswith(("error: ", "fatal: ")), lines))
    return lines[0] if lines else ""


def excluded(repository: Repository, folders: Iterable[Path]) -> tuple[str, ...]:
    """Arguments that exclude those of *folders* that are in the work tree."""
    top = repository.top.resolve()
    inside = [folder.resolve() for folder in folders if folder.resolve().is_relative_to(top)]
    return tuple(outside(folder.relative_to(top).as_posix()) for folder in inside if folder != top)


def outside(name: str) -> str:
    """An argument that excludes *name*, relative to the top of the work tree."""
    return f":(top,exclude,literal){name}"


def run_ref(run: str) -> str:
    """The ref that keeps all snapshots of the root run *run*.

    Its name leaves room for those of earlier versions, which had a ref `refs/coterie/RUN/TURN.ATTEMPT` for each.
    """
    return f"{REFS}/{_part(run)}/snapshots"


def keep(repository: Repository, run: str, tree: str, *commits: str, known: str | None = None) -> str:
    """Let the ref of the root run *run* keep *commits*, by a commit of *tree* that has them and its own as parents.

    Args:
        known: The last commit that this returned, which saves a call; None: it is looked up.

    Raises:
        GitFailed: If git cannot.
    """
    ref = run_ref(run)
    with _KEEPING:
        for last in (known, None):
            before = repository.commit_of(ref) if last is None else last
            parents = (*filter(None, (before,)), *commits)
            kept = repository.commit(tree, parents, f"Keep snapshots of run {run}\n", identity())
            done = repository.call("update-ref", ref, kept, before)
            if not done.status:
                return kept
    raise GitFailed(("update-ref", ref), done.status, done.err)


def forget(repository: Repository, run: str) -> None:
    """Delete the snapshots of the root run *run*; git removes their objects when it next collects garbage."""
    _delete(repository, repository.output("for-each-ref", "--format=%(refname)", f"{REFS}/{_part(run)}/").splitlines())


def delete_old(repository: Repository, known: Iterable[str], before: float) -> int:
    """Delete the snapshots of root runs that are not *known*, the last before that Unix time; return how many runs.

    Git removes their objects when it next collects garbage.
    """
    names = {_part(run) for run in known}
    lines = repository.output("for-each-ref", "--format=%(creatordate:unix) %(refname)", REFS).splitlines()
    refs = [(float(at or 0), name) for at, _, name in (line.partition(" ") for line in lines)]
    gone = [name for at, name in refs if at < before and name.split("/")[2] not in names]
    _delete(repository, gone)
    return len({name.split("/")[2] for name in gone})


def _delete(repository: Repository, refs: list[str]) -> None:
    if refs:
        repository.output("update-ref", "--stdin", stdin="".join(f"delete {name}\n" for name in refs))


def _part(name: str) -> str:
    """*name* quoted as a component of a ref, which may not contain `..`, end in `.lock`, or begin or end with a dot."""
    safe = quote(name, safe="#").replace("~", "%7E").replace("..", ".%2E")
    if safe.startswith("."):
        safe = "%2E" + safe[1:]
    return safe[:-5] + "%2Elock" if safe.endswith(".lock") else safe[:-1] + "%2E" if safe.endswith(".") else safe
