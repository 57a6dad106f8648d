"""The command line and the environment of every call of git.

Git runs programs that a configuration names, and a configuration may be an agent's: that of a repository, or of one
inside it. Hooks, the file system monitor, editors, pagers, signatures, external diffs, helpers for credentials and
remotes are off, and no call enters a submodule. Filters and merge drivers decide what files hold, so they run: those of
the user's own configuration as in the user's shell but without secrets, those of a repository in a sandbox, like its
agents, if one works here.
"""

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

from coterie.agents.backends.base import Request
from coterie.agents.backends.git_variables import without_repository
from coterie.agents.backends.sandbox.policy import Access, policy_of
from coterie.agents.backends.sandbox.restoring import remember, restore
from coterie.agents.backends.secrets import without_secrets
from coterie.team.planning.plan import AgentPlan

_CONFIG = {
    "advice.addEmbeddedRepo": "false",
    "commit.gpgSign": "false",
    "core.alternateRefsCommand": "true",
    "core.checkStat": "default",
    "core.fsmonitor": "false",
    "core.ignoreStat": "false",
    "core.hooksPath": os.devnull,
    "core.quotePath": "false",
    "core.safecrlf": "false",
    "core.trustctime": "true",
    "credential.helper": "",
    "diff.external": "",
    "fetch.recurseSubmodules": "false",
    "gc.auto": "0",
    "i18n.commitEncoding": "UTF-8",
    "i18n.logOutputEncoding": "UTF-8",
    "log.showSignature": "false",
    "maintenance.auto": "false",
    "merge.autoStash": "false",
    "merge.verifySignatures": "false",
    "rerere.enabled": "false",
    "submodule.recurse": "false",
}
IDENTITY = tuple(f"GIT_{who}_{what}" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL"))
"""Variables by which a user's shell says who commits."""
_ALWAYS = {
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_ASKPASS": "true",
    "GIT_EDITOR": "true",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_PAGER": "cat",
    "GIT_SEQUENCE_EDITOR": "true",
    "GIT_SSH_COMMAND": "false",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}
"""Variables of git's environment that take precedence over the user's."""
_OPTIONS = {
    "diff": ("--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty", "--submodule=short"),
    "diff-files": ("--ignore-submodules=dirty",),
    "log": ("--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty"),
    "status": ("--ignore-submodules=dirty",),
}
"""Options of commands that no setting replaces."""
_WITHOUT_FILES = (
    *("branch", "bundle", "cat-file", "check-ref-format", "commit-tree", "config", "fetch", "for-each-ref", "init"),
    *("log", "ls-files", "merge-base", "rev-list", "rev-parse", "symbolic-ref", "update-ref", "var"),
)
"""The commands that read no file of a work tree; even `write-tree` may, to see whether one is as the index says."""
_READING = "--modified"
"""The option with which `ls-files` does read them."""
_PROGRAM = re.compile(r"(?:filter\..*\.(?:clean|smudge|process)|merge\..*\.driver)", re.DOTALL)


@contextmanager
def prepared_call(
    folder: Path, words: tuple[str, ...], further: Mapping[str, str]
) -> Iterator[tuple[list[str], dict[str, str]]]:
    """The command line and the environment of git with *words* in *folder*, and *further* variables."""
    env = _environment() | dict(further)
    if words[0] == "fetch":  # from a bundle
        env["GIT_ALLOW_PROTOCOL"] = "file"
    argv = _argv(words, _of_files(folder))
    reads_files = words[0] not in _WITHOUT_FILES or _READING in words
    if not reads_files or not _names_programs(folder, env):
        yield argv, env
        return
    from coterie.agents.backends.sandbox.choice import working  # few repositories name programs

    sandbox = working()
    if sandbox is None:
        yield argv, env
        return
    with tempfile.TemporaryDirectory(prefix="coterie-") as temporary:
        request = Request(run="", turn="", attempt=1, agent=AgentPlan(name="git", backend="command"), prompt="")
        changing = env | {"AUTOLOOP_REVIEW_MODE": "git"}  # a merge may bring a change of the team's files
        policy = policy_of(request, changing, folder, Path(temporary), argv)
        common = os.path.abspath(folder / _call(folder, env, "rev-parse", "--git-common-dir").removesuffix("\n"))
        written = [common, f"{common}/worktrees", *(word for word in words if os.path.isabs(word))]
        written += [os.path.dirname(env[name]) for name in ("GIT_INDEX_FILE",) if name in env]
        access = {**policy.access, **{_existing(path): Access.WRITE for path in written}}
        remember(Path(temporary), policy.absent, policy.links, policy.written)
        try:
            yield sandbox.command(policy._replace(access=access), argv, folder), env
        finally:
            restore(Path(temporary))


def distinguishes_case(top: Path) -> bool:
    """Whether the file system of the work tree *top* has other files by names in another case; False: unknown."""
    return os.path.lexists(top / ".git") and not os.path.lexists(top / ".GIT")


def _of_files(top: Path) -> dict[str, str]:
    """The settings that follow from the file system of *top*; those of a copied repository are of another one.

    Where git believes that case does not count, it adds no file that was renamed in case.
    """
    return {"core.ignoreCase": "false"} if distinguishes_case(top) else {}


def _argv(words: tuple[str, ...], further: Mapping[str, str] = MappingProxyType({})) -> list[str]:
    settings = [word for key, value in (_CONFIG | dict(further)).items() for word in ("-c", f"{key}={value}")]
    return ["git", *settings, words[0], *_OPTIONS.get(words[0], ()), *words[1:]]


def _names_programs(folder: Path, env: dict[str, str]) -> bool:
    """Whether a configuration beside the user's own names filters or merge drivers."""
    fields = _call(folder, env, "config", "--list", "--show-scope", "--name-only", "-z").split("\0")
    scopes_and_keys = zip(fields[::2], fields[1::2], strict=False)
    return any(scope in ("local", "worktree") and _PROGRAM.fullmatch(key) for scope, key in scopes_and_keys)


def _call(folder: Path, env: dict[str, str], *words: str) -> str:
    """What git, which reads no file of a work tree for it, says to *words*; empty if it cannot be started."""
    try:
        done = subprocess.run(_argv(words), cwd=folder, env=env, stdin=subprocess.DEVNULL, capture_output=True)
    except OSError:
        return ""
    return done.stdout.decode("utf-8", "surrogateescape")


def _existing(path: str) -> Path:
    """*path*, or the nearest folder above it that exists, without links."""
    return next(one for one in (Path(path), *Path(path).parents) if one.exists()).resolve()


def _environment() -> dict[str, str]:
    """The user's environment without secrets and without the variables of a git hook that started this process.

    Agents need secrets to call models; a filter or merge driver calls none. The files of the user's configuration and
    the user's identity stay.
    """
    env = {name: value for name, value in without_secrets(os.environ).items() if not name.startswith("GIT_")}
    kept = {name: value for name, value in os.environ.items() if name.startswith("GIT_CONFIG") or name in IDENTITY}
    return env | without_repository(kept) | _ALWAYS
