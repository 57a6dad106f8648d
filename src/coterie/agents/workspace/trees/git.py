"""Call git without a shell, hooks or prompts, and in a clean environment; failures raise `GitFailed`.

`coterie.agents.workspace.trees.git_command` decides which programs of a repository it runs, and how. All processes of a
call end with it.
"""

import asyncio
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from contextvars import ContextVar, copy_context
from functools import partial
from itertools import product
from pathlib import Path
from tempfile import TemporaryFile
from typing import ParamSpec, TypeVar

from msgspec import Struct

from coterie.agents.workspace.trees.git_command import IDENTITY, prepared_call
from coterie.agents.workspace.trees.repository_lock import inherited
from coterie.base import files
from coterie.base.shortages import shortage
from coterie.errors import GitFailed, Shortage, UsageError

P = ParamSpec("P")
T = TypeVar("T")

TIMEOUT = 600.0
"""Seconds that a call may take."""
GRACE = 5.0
"""Seconds that a cancelled call has to finish before SIGTERM, and again before SIGKILL."""
BREAK = "--//"
"""A word that `git rev-parse` repeats, and no path that it prints contains."""
_REBASED = ("rebase-merge/head-name", "rebase-merge/update-refs", "rebase-apply/head-name")
_LARGEST = 1 << 24
_OURS = {"name": "coterie", "email": "coterie@localhost"}


class CompletedCall(Struct, frozen=True):
    """The result of a call: its exit status and its output."""

    status: int
    out: str
    err: str


class Repository(Struct, frozen=True, kw_only=True):
    """A git work tree: the user's checkout, or one that belongs to a run.

    Attributes:
        top: Its topmost folder.
        own: Git's folder for this work tree; all work trees of the repository share *common*.
        prefix: The path below *top* of the folder that was looked up; empty if that is *top*.
        bound: Whether calls name *own*, rather than let git find what `.git` in *top* names, which an agent may write.
    """

    top: Path
    own: Path
    common: Path
    prefix: str = ""
    bound: bool = False

    def call(
        self, *words: str, stdin: str = "", env: Mapping[str, str] | None = None, within: float = 0.0
    ) -> CompletedCall:
        """Call git with *words* in this work tree, *within* seconds or `TIMEOUT`; any exit status is a result.

        Raises:
            GitFailed: If it cannot be called, or takes too long.
        """
        place = {"GIT_DIR": str(self.own), "GIT_WORK_TREE": str(self.top)} if self.bound else {}
        return call(self.top, *words, stdin=stdin, env=place | dict(env or {}), within=within)

    def output(self, *words: str, stdin: str = "", env: Mapping[str, str] | None = None, within: float = 0.0) -> str:
        """The output of git for *words*, without the final newline.

        Raises:
            GitFailed: If its status is not 0.
        """
        completed = self.call(*words, stdin=stdin, env=env, within=within)
        if completed.status:
            raise GitFailed(words, completed.status, completed.err or completed.out)
        return completed.out.removesuffix("\n")

    def lines(self, *words: str, stdin: str = "") -> list[str]:
        """The lines that are not empty of the output of git for *words*; names may contain other breaks.

        Raises:
            GitFailed: If its status is not 0.
        """
        return lines_of(self.output(*words, stdin=stdin))

    def commit_of(self, name: str) -> str:
        """The id of the commit *name*; empty if there is none."""
        return self.call("rev-parse", "--quiet", "--verify", f"{name}^{{commit}}").out.strip()

    def tree_of(self, name: str) -> str:
        """The id of the files of the commit *name*."""
        return self.output("rev-parse", "--verify", f"{name}^{{tree}}")

    def commit(
        self,
        tree: str,
        parents: tuple[str, ...],
        message: str,
        env: Mapping[str, str] | None = None,
        sign: float = 0.0,
    ) -> str:
        """Write a commit and return its id. No branch moves.

        Args:
            env: Variables for author and committer; by default the user, or coterie if git knows no user.
            sign: Sign it within so many seconds; 0: do not. See `coterie.agents.workspace.trees.signing`.

        Raises:
            GitFailed: If it cannot be written, or not signed.
        """
        words = [*(("-S",) if sign else ()), *(word for parent in parents for word in ("-p", parent))]
        author = dict(env or {})
        if "GIT_COMMITTER_EMAIL" not in author:
            author = self.identity() | author
        return self.output("commit-tree", tree, *words, "-F", "-", stdin=message, env=author, within=sign)

    def identity(self) -> dict[str, str]:
        """Variables needed for a commit: none if git knows the user."""
        if self.call("var", "GIT_COMMITTER_IDENT").status == 0:
            return {}
        return identity() | {name: os.environ[name] for name in IDENTITY if os.environ.get(name)}

    def why_read_only(self) -> str:
        """Why nothing can be written to it; empty if it can."""
        return "" if os.access(self.common, os.W_OK) else f"{self.common} cannot be written"

    def branch(self) -> str:
        """The branch that is checked out; empty if none is."""
        return self.call("symbolic-ref", "--quiet", "HEAD").out.strip().removeprefix("refs/heads/")

    def is_ancestor(self, earlier: str, later: str) -> bool:
        """Whether the commit *later* contains *earlier*."""
        return self.call("merge-base", "--is-ancestor", earlier, later).status == 0


def identity() -> dict[str, str]:
    """Coterie as author and committer, as variables of the environment."""
    return {f"GIT_{who}_{what.upper()}": value for who in ("AUTHOR", "COMMITTER") for what, value in _OURS.items()}


def find(folder: Path) -> Repository | None:
    """The git work tree that contains *folder*; None if there is none, or git is missing."""
    try:
        return _found(folder)[0]
    except (GitFailed, OSError):
        return None


def require(folder: Path, why: str) -> Repository:
    """The git work tree that contains *folder*.

    Raises:
        UsageError: If there is none; the message begins with *why*, the reason it is needed.
    """
    try:
        found, completed = _found(folder)
    except GitFailed as error:
        raise UsageError(f"{why}: {error}") from None
    if found is None:
        first = completed.err.strip().partition("\n")[0] or f"{folder} is in no git work tree"
        raise UsageError(f"{why}: {first}")
    return found


def call(
    folder: Path, *words: str, stdin: str = "", env: Mapping[str, str] | None = None, within: float = 0.0
) -> CompletedCall:
    """Call git with *words* in *folder*; any exit status is a result.

    Raises:
        GitFailed: If it cannot be called, or takes too long.
    """
    with prepared_call(folder, words, env or {}) as (argv, environment):
        return perform(folder, words, argv, environment, stdin, within)


def perform(
    folder: Path, words: tuple[str, ...], argv: list[str], env: dict[str, str], stdin: str, within: float = 0.0
) -> CompletedCall:
    """Run *argv*, by which *words* are called, to its end, *within* seconds or `TIMEOUT`; see `call`."""
    job = _JOB.get(None) or _Job()
    with ExitStack() as stack:
        out, err, given = (stack.enter_context(TemporaryFile()) for _ in range(3))
        given.write(stdin.encode("utf-8", "surrogateescape"))
        given.seek(0)
        # Files, not pipes: a program that a filter leaves behind would keep a pipe open.
        process = _start(folder, words, argv, env, given.fileno(), out.fileno(), err.fileno())
        timer = _Timeout(within or TIMEOUT, process)
        timer.start()
        try:
            job.began(process)
            process.wait()
        finally:
            timer.cancel()
            timer.join()  # it may not kill a process whose number has been given again
            _signal_group(process, signal.SIGKILL)
            process.wait()
        if timer.passed:
            raise GitFailed(words, 124, f"it took longer than {within or TIMEOUT:g} s")
        out.seek(0)
        err.seek(0)
        return CompletedCall(process.returncode, _text(out.read()), readable(err.read()))


def _start(
    folder: Path, words: tuple[str, ...], argv: list[str], env: dict[str, str], stdin: int, out: int, err: int
) -> subprocess.Popen[bytes]:
    """Start git as the leader of a process group."""
    try:
        return subprocess.Popen(
            argv,
            cwd=folder,
            env=env,
            stdin=stdin,
            stdout=out,
            stderr=err,
            start_new_session=True,
            pass_fds=inherited(),
        )
    except FileNotFoundError:
        missing = "git is not installed" if folder.is_dir() else f"the folder {folder} is gone"
        raise GitFailed(words, 127, missing) from None
    except BlockingIOError as error:
        raise Shortage(f"git cannot be started: {shortage(error, starting=True)}") from error


class _Timeout(threading.Timer):
    """Kills the group of a process after some seconds; a thread, because waiting with a timeout means polling."""

    def __init__(self, seconds: float, process: subprocess.Popen[bytes]) -> None:
        super().__init__(seconds, self._kill, [process])
        self.daemon = True
        self.passed = False

    def _kill(self, process: subprocess.Popen[bytes]) -> None:
        self.passed = True
        _signal_group(process, signal.SIGKILL)


class _Job:
    """The git calls that one function makes in its thread, so that another thread can end them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._ended: signal.Signals | None = None

    def began(self, process: subprocess.Popen[bytes]) -> None:
        """Remember the running *process*; it is ended at once if the job was."""
        with self._lock:
            self._process = process
            if self._ended is not None:
                _signal_group(process, self._ended)

    def end(self, number: signal.Signals) -> None:
        """Send *number* to the group of the running call, and to those of all later calls."""
        with self._lock:
            self._ended = number
            if self._process is not None and self._process.returncode is None:
                _signal_group(self._process, number)


_JOB: ContextVar[_Job] = ContextVar("job")


async def in_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call *work*, which calls git, in a thread.

    If the task is cancelled, git may finish within `GRACE` seconds; then its process group gets SIGTERM and, `GRACE`
    seconds later, SIGKILL, and so do the calls that *work* makes after that. Raises `CancelledError` once *work* has
    returned, so no thread outlives its task.
    """
    job, context = _Job(), copy_context()
    context.run(_JOB.set, job)
    call = partial(context.run, partial(work, *args, **kwargs))
    future = asyncio.get_running_loop().run_in_executor(None, call)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        try:
            for number in (signal.SIGTERM, signal.SIGKILL):
                done, _ = await asyncio.wait([future], timeout=GRACE)
                if done:
                    break
                job.end(number)
            else:
                await asyncio.wait([future])
        finally:
            job.end(signal.SIGKILL)
        with suppress(Exception):
            future.result()
        raise


def _signal_group(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """Send *number* to every process in the group that *process* leads."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _found(folder: Path) -> tuple[Repository | None, CompletedCall]:
    words = ("--show-toplevel", BREAK, "--absolute-git-dir", BREAK, "--git-common-dir", BREAK, "--show-prefix")
    completed = call(folder, "rev-parse", *words)
    parts = parts_of(completed.out)
    if completed.status or len(parts) < len(words[::2]):
        return None, completed
    top, own, common, prefix = parts
    common_place = resolved(folder, common)
    return Repository(top=Path(top), own=Path(own), common=common_place, prefix=prefix.rstrip("/")), completed


def parts_of(out: str) -> list[str]:
    """What `git rev-parse` printed before, between and after each `BREAK`; a path in it may have line breaks."""
    return out.removesuffix("\n").split(f"\n{BREAK}\n")


def resolved(folder: Path, common: str) -> Path:
    """The path of what git calls *common* in *folder*; only git 2.31 and newer would print it themselves."""
    return Path(os.path.normpath(folder.resolve() / common))


def is_sparse(repository: Repository) -> bool:
    """Whether files outside of some patterns are left out of this work tree."""
    return repository.call("config", "--type=bool", "core.sparseCheckout").out.strip() == "true"


def checked_out(repository: Repository, branch: str) -> Path | None:
    """The work tree in which *branch* is checked out, by its full name; None if there is none.

    Git lists its folder instead of a work tree whose `.git` names one elsewhere.
    """
    if branch == f"refs/heads/{repository.branch()}":
        return repository.top
    path, words = "", ("worktree", "list", "--porcelain")
    listed = repository.call(*words, "-z")  # of git 2.36
    lines = repository.lines(*words) if listed.status else listed.out.split("\0")
    for line in lines:
        if line.startswith("worktree "):
            path = line.removeprefix("worktree ")
        elif line == f"branch {branch}":
            return Path(path)
    return None


def rebased(repository: Repository, branch: str) -> Path | None:
    """Git's folder of the work tree in which a rebase of *branch* is under way, by its full name; None if none is.

    It is checked out nowhere meanwhile, and gets another commit when the rebase ends or is aborted.
    """
    folders = [repository.common, *(repository.common / "worktrees").glob("*")]
    for folder, name in product(folders, _REBASED):
        with suppress(OSError):
            if branch in lines_of(os.fsdecode(files.read(folder / name, _LARGEST))):
                return folder
    return None


def lines_of(text: str) -> list[str]:
    """The lines of *text* that are not empty, as git separates them."""
    return [line for line in text.split("\n") if line]


def readable(name: str | bytes) -> str:
    """*name*, as git has it, for people and records: bytes that are not UTF-8 become escapes."""
    data = name if isinstance(name, bytes) else name.encode("utf-8", "surrogateescape")
    return data.decode("utf-8", "backslashreplace")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")
