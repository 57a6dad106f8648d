"""Snapshots of the files of a work tree, kept in git under one hidden ref for each run.

A snapshot has no files that git ignores, no state directory, and of submodules and repositories inside the tree only
their commit. It is written with a separate index, so the user's index, HEAD and stash do not change; that index is used
again, so only files that changed since are read.
"""

import os
import stat
import threading
import time
from bisect import bisect_right
from collections.abc import Iterable
from contextlib import suppress
from itertools import accumulate, dropwhile
from pathlib import Path

from msgspec import Struct

from coterie.agents.workspace.trees.git import Repository, identity, is_sparse
from coterie.agents.workspace.trees.refs import REFS, part, refs_of
from coterie.agents.workspace.trees.stamps import head_of, stamp_of, with_folders
from coterie.base import files
from coterie.base.ids import attempt_id
from coterie.base.shortages import shortage
from coterie.errors import GitFailed
from coterie.history.journal.rules import root_of

LARGEST_INDEX = 1 << 30
"""Bytes that a git index may have."""
LARGEST_FILE = 256 << 20
"""Bytes of a file; a larger one is left out, and named."""
MOST = 2 << 30
"""Bytes, unpacked, of all new and changed files; of more, the largest are left out, and named."""
TIMEOUT = 120.0
"""Seconds that git may take to read the files for a snapshot."""
_SHOWN = 3
_UNKNOWN_OPTION = 129
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
        self._names: tuple[str, ...] = ()
        self._inner: list[str] | None = None
        """The repositories inside that the index has; None if that is not known."""
        self._unchanged: tuple[object, ...] | None = None
        """What `_seen` gave for the last snapshot, if that is complete."""
        self._kept: dict[str, str] = {}

    def save(self, run: str, turn: str, attempt: int) -> Snapshot:
        """Take a snapshot of the files at the end of an attempt.

        Raises:
            GitFailed: If git cannot.
        """
        with self._lock:
            began, root = time.time_ns(), root_of(run)
            if self._last is not None and self._unchanged is not None and self._unchanged == self._seen(root):
                return Snapshot(commit=self._last[2])
            tree, incomplete = self._write()
            head = self.repository.commit_of("HEAD")
            if self._last is None or self._last[:2] != (tree, head) or self._last[3] != root:
                message = f"The files at the end of {attempt_id(turn, attempt)} of run {run}\n"
                parents = (head,) if head else ()
                commit = self.repository.commit(tree, parents, message, identity())
                self._kept[root] = keep(self.repository, root, tree, commit, known=self._kept.get(root))
                self._last = (tree, head, commit, root)
            self._unchanged = None
            if not incomplete:
                listed = _listed(self.repository, {"GIT_INDEX_FILE": str(self._index)})
                self._names, self._inner = tuple(listed), _inner(listed)
                self._unchanged = self._seen(root, began)
            return Snapshot(commit=self._last[2], incomplete=incomplete)

    def _seen(self, root: str, before: int | None = None) -> tuple[object, ...] | None:
        """What decides what a snapshot holds; None if that cannot be said, or a file changed after *before*.

        A file that was added changed its folder; of the topmost one, in which `.git` may change, only names count.
        """
        top, head = self.repository.top, head_of(self.repository.own, self.repository.common)
        stamp = stamp_of(with_folders(top, self._names), before) if head[1] else None
        return (root, head, stamp, sorted(os.listdir(top))) if stamp is not None else None

    def _write(self) -> tuple[str, str]:
        """The id of a git tree with the files, and why some are missing in it."""
        env = {"GIT_INDEX_FILE": str(self._index)}
        files.make_folder(self._index.parent)
        self._index.with_name(f"{self._index.name}.lock").unlink(missing_ok=True)  # left by a killed git
        if not self._index.exists():
            with suppress(FileNotFoundError):  # nothing has been added yet
                files.write(self._index, files.read(self.repository.own / "index", LARGEST_INDEX))
        inner, self._inner = self._inner, None
        try:
            return write_files(self.repository, self._without, env, within=TIMEOUT, inner=inner)
        finally:
            files.tighten(self._index)  # git applies the umask


def write_files(
    repository: Repository,
    without: Iterable[str],
    env: dict[str, str],
    *,
    within: float = 0.0,
    inner: list[str] | None = None,
) -> tuple[str, str]:
    """Write all files into the index of *env*; returns the id of the git tree, and why some files are missing in it.

    Of a repository inside, only its commit is read: `git add` would call git in it, under its own configuration.

    Args:
        within: Seconds that each call of git may take; 0: as many as any call.
        inner: The repositories inside that the index has; None: list them.

    Raises:
        GitFailed: If nothing could be written, or not in time.
    """
    inner = _inner(_listed(repository, env)) if inner is None else inner
    words = ("add", "--all", "--ignore-errors", "--pathspec-from-file=-", "--pathspec-file-nul")
    sparse = ("--sparse",) if is_sparse(repository) else ()  # else git 2.34 leaves out what is outside of the patterns
    large, why = _large(repository, without, env, within)
    stdin = "\0".join([":/", *without, *map(outside, [*inner, *large])])
    added = repository.call(*words, *sparse, env=env, stdin=stdin, within=within)
    if sparse and added.status == _UNKNOWN_OPTION:
        added = repository.call(*words, env=env, stdin=stdin, within=within)
    if inner:
        repository.output("update-index", "-z", "--add", "--remove", "--stdin", stdin="\0".join(inner), env=env)
    failed = GitFailed(words, added.status, added.err)
    if added.status not in (0, 1) or (added.status and shortage(failed)):
        raise failed
    return repository.output("write-tree", env=env), (_why(added.err) if added.status else "") or why


def _listed(repository: Repository, env: dict[str, str]) -> dict[str, str]:
    """The mode of each file in the index of *env*, by its name."""
    listed = repository.output("ls-files", "--stage", "-z", env=env).split("\0")
    return {name: entry[:6] for entry, _, name in (one.partition("\t") for one in listed if one)}


def _inner(listed: dict[str, str]) -> list[str]:
    return [name for name, mode in listed.items() if mode == "160000"]


def _large(repository: Repository, without: Iterable[str], env: dict[str, str], within: float) -> tuple[list[str], str]:
    """The new and changed files that are too large, alone or together, and a line that names them.

    To add a sparse one of a terabyte takes git ten minutes.
    """
    words = ("ls-files", "-z", "--others", "--modified", "--exclude-standard", "--full-name", "--", ":/", *without)
    sizes = dict[str, int]()
    for name in repository.output(*words, env=env, within=within).split("\0"):
        with suppress(OSError):
            status = os.lstat(repository.top / name)
            if stat.S_ISREG(status.st_mode):
                sizes[name] = status.st_size
    names = sorted(sizes, key=sizes.__getitem__)
    each = names[bisect_right(names, LARGEST_FILE, key=sizes.__getitem__) :]
    added = [*accumulate(sizes[name] for name in names[: len(names) - len(each)])]
    together = names[bisect_right(added, MOST) : len(added)]
    reasons = {f"larger than {LARGEST_FILE >> 20} MB": each, f"more than {MOST >> 20} MB together": together}
    lines = [f"{', '.join(sorted(found)[:_SHOWN])}: {reason}" for reason, found in reasons.items() if found]
    return each + together, "; ".join(lines)


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
    return f"{refs_of(run)}/snapshots"


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
    _delete(repository, repository.lines("for-each-ref", "--format=%(refname)", f"{refs_of(run)}/"))


def delete_old(repository: Repository, known: Iterable[str], before: float) -> int:
    """Delete the snapshots of root runs that are not *known*, the last before that Unix time; return how many runs.

    Git removes their objects when it next collects garbage.
    """
    names = {part(run) for run in known}
    lines = repository.lines("for-each-ref", "--format=%(creatordate:unix) %(refname)", REFS)
    refs = [(float(at or 0), name) for at, _, name in (line.partition(" ") for line in lines)]
    gone = [name for at, name in refs if at < before and name.split("/")[2] not in names]
    _delete(repository, gone)
    return len({name.split("/")[2] for name in gone})


def _delete(repository: Repository, refs: list[str]) -> None:
    if refs:
        repository.output("update-ref", "--stdin", stdin="".join(f"delete {name}\n" for name in refs))
