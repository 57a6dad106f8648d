"""Calls of git: words in, words out. No shell, no hooks, no prompts, nobody's surroundings; a failure has a type."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from coterie.errors import GitFailed, UsageError

TIMEOUT = 600.0
"""Seconds that one call may take."""
_CONFIG = {
    "advice.addEmbeddedRepo": "false",
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
    "core.quotePath": "false",
    "core.safecrlf": "false",
    "gc.auto": "0",
    "merge.autoStash": "false",
}
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
    settings = [word for key, value in _CONFIG.items() for word in ("-c", f"{key}={value}")]
    try:
        done = subprocess.run(
            ["git", *settings, *words],
            cwd=folder,
            input=given.encode("utf-8", "surrogateescape"),
            env=_environment() | dict(env or {}),
            capture_output=True,
            timeout=TIMEOUT,
        )
    except FileNotFoundError:
        missing = "git is not installed" if folder.is_dir() else f"the folder {folder} is gone"
        raise GitFailed(words, 127, missing) from None
    except subprocess.TimeoutExpired:
        raise GitFailed(words, 124, f"it took longer than {TIMEOUT:g} s") from None
    return Said(done.returncode, _text(done.stdout), _text(done.stderr))


def _look(folder: Path) -> Said:
    words = ("--show-toplevel", "--absolute-git-dir", "--git-common-dir", "--show-prefix")
    said = call(folder, "rev-parse", "--path-format=absolute", *words)
    return said if len(said.out.splitlines()) in (3, 4) else Said(said.status or 1, said.out, said.err)


def _repository(said: Said) -> Repository:
    top, own, common, *prefix = said.out.splitlines()
    return Repository(top=Path(top), own=Path(own), common=Path(common), prefix="".join(prefix).rstrip("/"))


def _environment() -> dict[str, str]:
    """Ours, without what a git hook that started us would have git believe."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    kept = {name: value for name, value in os.environ.items() if name.startswith("GIT_CONFIG")}
    return env | kept | {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "GIT_EDITOR": "true"}


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")
