"""Calls of git: words in, words out. No shell, no hooks, no prompts, nobody's surroundings; a failure has a type.

Git runs programs that a repository names. Filters and merge drivers run, because they decide what the files hold; git,
and so they, get an environment without secrets (`coterie.secrets`). Hooks, the file system monitor, editors,
pagers and `ext::` transports are off. What a call started ends with the call.
"""

import asyncio
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import ContextVar, copy_context
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import ParamSpec, TypeVar

from msgspec import Struct

from coterie.errors import GitFailed, Shortage, UsageError, shortage
from coterie.runs.trees.repository_lock import inherited
from coterie.secrets import without_secrets

P = ParamSpec("P")
T = TypeVar("T")

TIMEOUT = 600.0
"""Seconds that one call may take."""
GRACE = 5.0
"""Seconds that a cancelled call has to finish before SIGTERM, and again before SIGKILL."""
_CONFIG = {
    "advice.addEmbeddedRepo": "false",
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
    "core.quotePath": "false",
    "core.safecrlf": "false",
    "gc.auto": "0",
    "log.showSignature": "false",
    "maintenance.auto": "false",
    "merge.autoStash": "false",
    "protocol.ext.allow": "never",
    "submodule.recurse": "false",
}
_ALWAYS = {
    "GIT_ASKPASS": "true",
    "GIT_EDITOR": "true",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}
"""What git finds in its environment, whatever the user has set."""
_OURS = {"name": "coterie", "email": "coterie@localhost"}


class Said(Struct, frozen=True):
    """What a call came to: its exit status, and what it wrote."""

    status: int
    out: str
    err: str


class Repository(Struct, frozen=True, kw_only=True):
    """A git work tree: the user's checkout, or one that belongs to a run.

    Attributes:
        top: Its topmost folder.
        own: Git's folder for this work tree, and *common* the one that all work trees of the repository share.
        prefix: Where, below *top*, the folder lies that was asked about; empty: it is *top*.
    """

    top: Path
    own: Path
    common: Path
    prefix: str = ""

    def call(self, *words: str, given: str = "", env: Mapping[str, str] | None = None) -> Said:
        """Call git with *words* in this work tree, whatever becomes of it.

        Raises:
            GitFailed: If it cannot be called, or takes too long.
        """
        return call(self.top, *words, given=given, env=env)

    def ask(self, *words: str, given: str = "", env: Mapping[str, str] | None = None) -> str:
        """What git answers to *words*, without the line's end.

        Raises:
            GitFailed: If its status is not 0.
        """
        said = self.call(*words, given=given, env=env)
        if said.status:
            raise GitFailed(words, said.status, said.err or said.out)
        return said.out.removesuffix("\n")

    def commit_of(self, name: str) -> str:
        """The id of the commit that *name* names; empty if there is none."""
        return self.call("rev-parse", "--quiet", "--verify", f"{name}^{{commit}}").out.strip()

    def tree_of(self, name: str) -> str:
        """The id of the files of the commit *name*."""
        return self.ask("rev-parse", "--verify", f"{name}^{{tree}}")

    def commit(self, tree: str, parents: tuple[str, ...], message: str, env: Mapping[str, str] | None = None) -> str:
        """Write a commit and return its id. No branch moves.

        Args:
            env: Whose it is; by default the user's, or coterie's where git knows no user.
        """
        words = [word for parent in parents for word in ("-p", parent)]
        who = self.identity() | dict(env or {})
        return self.ask("commit-tree", tree, *words, "-F", "-", given=message, env=who)

    def identity(self) -> dict[str, str]:
        """What has to be added to the environment for a commit: nothing where git knows who the user is."""
        return {} if self.call("var", "GIT_COMMITTER_IDENT").status == 0 else identity()

    def branch(self) -> str:
        """The branch that is checked out; empty: none is."""
        return self.call("symbolic-ref", "--quiet", "--short", "HEAD").out.strip()

    def is_above(self, earlier: str, later: str) -> bool:
        """Whether the commit *later* holds all of *earlier*."""
        return self.call("merge-base", "--is-ancestor", earlier, later).status == 0


def identity() -> dict[str, str]:
    """Coterie as author and committer, as variables of the environment."""
    return {f"GIT_{who}_{what.upper()}": value for who in ("AUTHOR", "COMMITTER") for what, value in _OURS.items()}


def find(folder: Path) -> Repository | None:
    """The git work tree that *folder* lies in; None if there is none, or no git."""
    try:
        said = _look(folder)
    except (GitFailed, OSError):
        return None
    return _repository(said) if said.status == 0 else None


def need(folder: Path, why: str) -> Repository:
    """The git work tree that *folder* lies in.

    Raises:
        UsageError: If there is none; *why* says what wants it, and how to do without.
    """
    try:
        said = _look(folder)
    except GitFailed as error:
        raise UsageError(f"{why}: {error}") from None
    found = _repository(said) if said.status == 0 else None
    if found is None:
        first = said.err.strip().partition("\n")[0] or f"{folder} is in no git work tree"
        raise UsageError(f"{why}: {first}")
    return found


def call(folder: Path, *words: str, given: str = "", env: Mapping[str, str] | None = None) -> Said:
    """Call git with *words* in *folder*, whatever becomes of it.

    Raises:
        GitFailed: If it cannot be called, or takes too long.
    """
    job = _JOB.get(None) or _Job()
    with TemporaryFile() as out, TemporaryFile() as err, TemporaryFile() as stdin:
        stdin.write(given.encode("utf-8", "surrogateescape"))
        stdin.seek(0)
        # Files, not pipes: a program that a filter leaves behind would keep a pipe open.
        process = _start(folder, words, _environment() | dict(env or {}), stdin.fileno(), out.fileno(), err.fileno())
        timer = _Timeout(TIMEOUT, process)
        timer.start()
        try:
            job.began(process)
            process.wait()
        finally:
            timer.cancel()
            _signal_group(process, signal.SIGKILL)
            process.wait()
        if timer.passed:
            raise GitFailed(words, 124, f"it took longer than {TIMEOUT:g} s")
        out.seek(0)
        err.seek(0)
        return Said(process.returncode, _text(out.read()), _text(err.read()))


def _start(
    folder: Path, words: tuple[str, ...], env: dict[str, str], stdin: int, out: int, err: int
) -> subprocess.Popen[bytes]:
    """Start git as the leader of a process group."""
    settings = [word for key, value in _CONFIG.items() for word in ("-c", f"{key}={value}")]
    try:
        return subprocess.Popen(
            ["git", *settings, *words],
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
        """Note that git runs as *process*, which ends at once if the job was ended before."""
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


def _look(folder: Path) -> Said:
    words = ("--show-toplevel", "--absolute-git-dir", "--git-common-dir", "--show-prefix")
    said = call(folder, "rev-parse", "--path-format=absolute", *words)
    return said if len(said.out.splitlines()) in (3, 4) else Said(said.status or 1, said.out, said.err)


def _repository(said: Said) -> Repository:
    top, own, common, *prefix = said.out.splitlines()
    return Repository(top=Path(top), own=Path(own), common=Path(common), prefix="".join(prefix).rstrip("/"))


def _environment() -> dict[str, str]:
    """The user's environment without secrets and without what a git hook that started this process had in its own.

    Agents get their secrets because they call models with them; a filter or merge driver calls none. `GIT_CONFIG_*`
    stays: the user set it for git.
    """
    env = {name: value for name, value in without_secrets(os.environ).items() if not name.startswith("GIT_")}
    kept = {name: value for name, value in os.environ.items() if name.startswith("GIT_CONFIG")}
    return env | kept | _ALWAYS


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")
