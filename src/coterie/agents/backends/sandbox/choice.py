"""Choose the sandbox for the program of an attempt: the first of bubblewrap and Landlock that works here."""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Protocol

from coterie.agents.backends.base import Confined, Request
from coterie.agents.backends.needs import sandbox_of
from coterie.agents.backends.sandbox import bwrap, landlock, trial
from coterie.agents.backends.sandbox.policy import Access, SandboxPolicy, policy_of
from coterie.agents.backends.sandbox.restoring import remember, restore
from coterie.agents.backends.team_files import own_python, unchanged
from coterie.base import agent_writes, files
from coterie.errors import Unconfined
from coterie.team.options.agents import REQUIRED

PATIENCE = 10.0
"""Time limit for the trial of an implementation, in seconds; a nested sandbox can hang."""


class Confinement(Protocol):
    """A way to confine a program: a module."""

    NAME: str
    PROTECTS: bool
    """Whether it protects read-only files in a writable folder."""

    def missing(self) -> str:
        """Why it cannot work on this machine; empty if it may."""

    def gaps(self, policy: SandboxPolicy) -> list[str]:
        """The parts of *policy* that are not enforced."""

    def command(self, policy: SandboxPolicy, argv: Sequence[str], cwd: Path) -> list[str]:
        """Wrap *argv* in a command that runs it under *policy* in *cwd*."""


IMPLEMENTATIONS: tuple[Confinement, ...] = (bwrap, landlock)
"""By preference."""


@cache
def probe(name: str) -> str:
    """Why the implementation *name* does not work here, found by a trial; empty if it does."""
    one = next(one for one in IMPLEMENTATIONS if name == one.NAME)
    if why := one.missing():
        return why
    with tempfile.TemporaryDirectory(prefix="coterie-") as made:
        top = Path(made).resolve()
        inside, outside, temporary = (top / part for part in ("inside", "outside", "tmp"))
        for folder in (inside, outside, temporary):
            folder.mkdir()
        (outside / "secret").write_text("x")
        hides = {Path("/tmp"): Access.HIDE} if top.is_relative_to("/tmp") else {}
        needed = (Path(path).resolve() for path in (sys.prefix, sys.base_prefix, trial.__file__))
        rules = {
            Path("/"): Access.READ,
            **hides,
            **dict.fromkeys(needed, Access.READ),
            top: Access.READ,
            inside: Access.WRITE,
            outside / "secret": Access.HIDE,
        }
        words = [sys.executable, "-IS", trial.__file__, *map(str, (top, outside / "file", outside / "secret", inside))]
        argv = one.command(SandboxPolicy(rules, temporary, {}, {}, {}), words, top)
        try:
            played = subprocess.Popen(argv, cwd=top, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        except OSError as error:
            return f"its trial could not be started: {error}"
        with played:
            try:
                _, said = played.communicate(timeout=PATIENCE)
            except subprocess.TimeoutExpired:
                return f"its trial took more than {PATIENCE:g} s"
            finally:
                played.kill()
        if played.returncode:
            return (said.strip().splitlines() or [f"its trial failed with status {played.returncode}"])[-1]
    return ""


def working() -> Confinement | None:
    """The implementation that works here; None if none does."""
    return next((one for one in IMPLEMENTATIONS if not probe(one.NAME)), None)


def absence() -> str:
    """Why no implementation works here; empty if one does."""
    return "" if working() else "; ".join(f"{one.NAME}: {probe(one.NAME)}" for one in IMPLEMENTATIONS)


def remedy() -> str:
    """How to get a sandbox that works."""
    return "install bubblewrap" if sys.platform == "linux" else "run agents in a container or virtual machine of Linux"


@contextmanager
def confined(
    request: Request, env: Mapping[str, str], cwd: Path, folder: Path, argv: Sequence[str], say: Callable[[str], object]
) -> Iterator[list[str]]:
    """Wrap *argv* in the sandbox that the agent of *request* wants; its temporary files exist during the block.

    A program that does not exist is returned unchanged, so that starting it reports this.

    Args:
        env: The environment of the process.
        cwd: Its working directory.
        folder: The part of the attempt's folder that it may write.
        say: Called with a line about each gap.

    Raises:
        Unconfined: If the agent requires a sandbox, and none enforces its whole policy.
    """
    required, one = sandbox_of(request.agent) in REQUIRED, working()
    if one is None and required:
        raise Unconfined(f"no sandbox works here: {absence()}")
    if one is None and sandbox_of(request.agent) == "auto":
        say(f"this agent runs without a sandbox, because none works here: {absence()}")
    if one is None or not argv or not cwd.is_dir() or not shutil.which(argv[0], path=env.get("PATH")):
        yield list(argv)
        return
    policy = policy_of(request, env, cwd, folder, argv)
    try:
        gaps = one.gaps(policy)
        if gaps and required:
            raise Unconfined(f"the sandbox has gaps ({one.NAME}): {'; '.join(gaps)}")
        for gap in gaps:
            say(f"sandbox ({one.NAME}): {gap}")
        remember(folder.parent, policy.absent, policy.links, policy.written)
        folders = [path for path, access in policy.access.items() if access is Access.WRITE and path.is_dir()]
        safe = unchanged([*request.team, *(own_python(cwd) if one.PROTECTS else ())], protects=one.PROTECTS)
        with agent_writes.noted(folder.parent, folders, safe):
            yield Confined(one.command(policy, argv, cwd))
    finally:
        files.discard(policy.temporary)
        restore(folder.parent, say)
