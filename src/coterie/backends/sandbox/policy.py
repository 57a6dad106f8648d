"""What the process of an attempt may read and write.

A policy gives paths an access; of the paths above a file, the deepest decides. It knows no mechanism.
"""

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from coterie.backends import agentside
from coterie.backends.agentside.client import NOTES_FOLDER, OUTBOX, TEMPORARY
from coterie.backends.agentside.delivery import BELL
from coterie.backends.base import Request
from coterie.backends.coding.needs import sandbox_of
from coterie.planning.plan import AgentPlan

SECRETS = (
    ".ssh .aws .azure .oci .gnupg .netrc .git-credentials .kube .password-store .pypirc .npmrc .vault-token "
    ".docker/config.json .config/gcloud .config/gh .config/op .config/doctl .config/rclone .config/keybase "
    ".local/share/keyrings .local/share/kwalletd .cargo/credentials .cargo/credentials.toml .terraform.d "
    ".config/google-chrome .config/chromium .mozilla Library/Keychains "
    ".claude/.credentials.json .pi/agent/auth.json .codex/auth.json .gemini/oauth_creds.json "
    ".local/share/opencode/auth.json"
)
"""Files and folders of a home that hold secrets, or sessions of a browser."""
_CLAUDE = (".claude", ".claude.json")
_STATE = {
    "claude": _CLAUDE,
    "pi": (".pi", ".pi/agent"),
    "codex": (".codex",),
    "gemini": (".gemini",),
    "opencode": (".config/opencode", ".local/share/opencode", ".local/state/opencode", ".cache/opencode"),
    "kiro": (".kiro", ".local/share/kiro-cli", ".aws/sso/cache"),
    "goose": (".config/goose", ".local/share/goose", ".local/state/goose"),
}
"""The folders in a home where an agent keeps its state, by a part of its name."""
_MOVED = {".claude": "CLAUDE_CONFIG_DIR", ".pi/agent": "PI_CODING_AGENT_DIR", ".codex": "CODEX_HOME"}
"""Variables that move such a folder."""
_MADE = {
    ".claude": (
        *("settings.json", "settings.local.json", "CLAUDE.md"),
        *("agents", "commands", "hooks", "skills", "plugins"),
    ),
    ".pi/agent": ("settings.json", "AGENTS.md", "extensions", "skills", "prompts"),
}
"""What such a folder holds that works in the user's own sessions too; it is made, for only what exists is protected."""
_RUN_BY_USER = {*chain(*_MADE.values()), "models.json", "SYSTEM.md", "APPEND_SYSTEM.md", "GEMINI.md", "rules"}
"""Where it exists, it is protected in the folders of all agents."""
_CACHES = {"npm_config_cache": "npm", "GOCACHE": "go-build", "UV_CACHE_DIR": "uv"}
"""Variables that name the cache of a tool which does not work without one that it can write, with a folder's name."""
_SHARED = ("/tmp", "/var/tmp", "/run")
"""Folders that all programs of the machine share, sockets of its services among them."""
_SERVICES = (
    *("/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager", "/run/nscd"),
    *("/run/current-system", "/run/wrappers", "/run/opengl-driver"),
)
"""What of them programs need to find hosts, and on NixOS to start."""
_NOTES = ("AUTOLOOP_MEMORY_FILE", "AUTOLOOP_TASKS_FILE", "AUTOLOOP_JOURNAL_FILE")
_CONFIGURATION = ("autoloops.toml", "autoloops.conf", "topology.toml", "agents.toml", "coterie.toml")
"""What a loop reads again before each turn: it names commands that are run outside of a sandbox."""
_GIT_LINKS = ("commondir", "gitdir")
_GIT_KEPT = ("config", "config.worktree", "hooks", "worktrees", "modules", *_GIT_LINKS)
"""What git reads commands from, or finds them by."""
_GIT_WRITTEN = ("objects", "refs", "logs")

SESSION = ("SSH_AUTH_SOCK", "SSH_AGENT_PID", "GPG_AGENT_INFO", "DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR")
"""Variables that name services of the user's session, which act with the user's keys."""

CONFINED = {"IS_SANDBOX": "1"} if os.geteuid() == 0 else {}
"""Variables that are set: as root, Claude Code refuses to act without permission requests, except in a sandbox."""


class Access(Enum):
    """What a process may do with a path and all below it."""

    HIDE = "hide"
    READ = "read"
    WRITE = "write"


class SandboxPolicy(NamedTuple):
    """The access of one attempt.

    Attributes:
        access: The access by path: absolute, existing, without links. `/` is among them.
        temporary: The private folder for temporary files.
        bell: The link to the owner's doorbell, and the socket that it leads to; None if there is none.
        absent: Paths that must not exist after the attempt either, since git would take commands from them.
        links: The files by which git finds the repository of a linked work tree, and their contents, which they must
            have after the attempt too.
        network: Whether it has the machine's network.
        caches: Variables that name folders for caches of tools, instead of the user's.
    """

    access: Mapping[Path, Access]
    temporary: Path
    bell: tuple[Path, Path] | None = None
    absent: tuple[Path, ...] = ()
    links: Mapping[Path, bytes] = MappingProxyType({})
    network: bool = True
    caches: Mapping[str, str] = MappingProxyType({})

    def of(self, path: Path) -> Access:
        """The access to *path*, an absolute path without links."""
        return next(self.access[one] for one in (path, *path.parents) if one in self.access)

    def hider(self, path: Path) -> Path | None:
        """The path whose rule hides *path*; None if it is not hidden."""
        found = next(one for one in (path, *path.parents) if one in self.access)
        return found if self.access[found] is Access.HIDE else None

    def below(self, path: Path) -> list[tuple[Path, Access]]:
        """What differs below *path*, from the top down."""
        return sorted((p, a) for p, a in self.access.items() if path in p.parents and a != self.of(p.parent))


def policy_of(request: Request, env: Mapping[str, str], cwd: Path, folder: Path, argv: Sequence[str]) -> SandboxPolicy:
    """The policy of the attempt of *request*, whose process is *argv* with the environment *env*, in *cwd*.

    Args:
        folder: The attempt's folder; its folders for emits and temporary files are made.
    """
    rules: dict[Path, Access] = {Path("/"): Access.READ}

    def give(access: Access, *paths: Path | str) -> None:
        for path in paths:
            with suppress(OSError, RuntimeError):
                rules[Path(path).resolve(strict=True)] = access

    home = Path(env.get("HOME") or Path.home())
    give(Access.HIDE, *_SHARED)
    give(Access.READ, home, *_SERVICES)
    own_state = list(_own_state(request.agent, env, home))
    owns = [own for own, _ in own_state]
    secrets = (home / name for name in SECRETS.split())
    give(Access.HIDE, *(path for path in secrets if not any(own in path.parents for own in owns)))  # but its login
    runs = request.root.parent if request.root is not None else None
    state = runs.parent if runs is not None else None
    review = bool(env.get("AUTOLOOP_REVIEW_MODE"))
    if state is not None:
        given = [Path(env["AUTOLOOP_STATE_DIR"])] if env.get("AUTOLOOP_STATE_DIR") else []
        give(Access.WRITE if given else Access.READ, state)
        give(Access.READ, state / "worktrees", state / "waves", state / ".gitignore")
        give(Access.WRITE, *given)
        give(Access.HIDE, *([runs] if runs else []))
        give(Access.READ, *(Path(env.get(NOTES_FOLDER) or state) / name for name in ("memory.jsonl", "tasks.jsonl")))
    give(Access.WRITE, cwd)
    if not review:  # a review may change its loop
        give(Access.READ, *(env[name] for name in _NOTES if env.get(name)))
        give(Access.READ, *((request.here or cwd) / name for name in _CONFIGURATION))
    (folder / OUTBOX).mkdir(mode=0o700, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=TEMPORARY, dir=folder))
    give(Access.WRITE, folder)
    written, kept, absent, links = _repository(cwd)
    give(Access.WRITE, *written)
    give(Access.READ, *kept)
    for own, made in own_state:
        give(Access.WRITE, own)
        _occupy(own, made)
        give(Access.READ, *(own / name for name in _RUN_BY_USER))
    link = request.root.absolute() / BELL if request.root else None
    bell = (link, Path(os.readlink(link))) if link is not None and link.is_symlink() else None
    network = sandbox_of(request.agent) != "no-network"
    caches = _caches(env, home)
    give(Access.WRITE, *caches.values())
    policy = SandboxPolicy(rules, temporary.resolve(), bell, absent, links, network, caches)
    give(Access.READ, *((bell[1].parent,) if bell else ()))
    needed = [request.here, sys.prefix, sys.base_prefix, Path(agentside.__file__).parents[3], *argv]
    for path in needed:
        if path and os.path.isabs(path) and os.path.exists(path):
            for way in map(_installation, (Path(path), Path(path).resolve())):
                if os.fspath(policy.hider(way) or "") in _SHARED:
                    rules[way.parent.resolve() / way.name] = Access.READ
    return policy


def _installation(path: Path) -> Path:
    """What a program at *path* needs: all that npm installed with it, if npm did, else the program."""
    return next((folder for folder in reversed(path.parents) if folder.name == "node_modules"), path)


def _own_state(agent: AgentPlan, env: Mapping[str, str], home: Path) -> Iterator[tuple[Path, Sequence[str]]]:
    """The folders of a coding agent's own state, which are made, and its files; each with what is to be made in it."""
    known = " ".join((agent.backend, str(agent.options.get("provider", "")), *agent.argv[:2])).lower()
    for name, paths in _STATE.items():
        is_it = any(name == part for part in known.replace("/", " ").split()) if name == "pi" else name in known
        if not is_it:
            continue
        for path in paths:
            moved = env.get(_MOVED.get(path, ""))
            for place in (home / path, *([Path(moved)] if moved else [])):
                if not place.suffix:
                    with suppress(OSError):
                        place.mkdir(mode=0o700, parents=True, exist_ok=True)
                yield place, _MADE.get(path, ())


def _occupy(own: Path, names: Sequence[str]) -> None:
    """Make what of *names* does not exist in *own*."""
    for name in names:
        with suppress(OSError):
            if not (path := own / name).suffix:
                path.mkdir(mode=0o700, exist_ok=True)
            elif not os.path.lexists(path):
                path.write_text("{}\n" if path.suffix == ".json" else "")


def caches_in(env: Mapping[str, str], home: Path) -> Path:
    """The folder of the caches that confined agents share.

    The user's own caches hold programs that the user runs outside of a sandbox.
    """
    return Path(env.get("XDG_CACHE_HOME") or home / ".cache") / "coterie"


def _caches(env: Mapping[str, str], home: Path) -> dict[str, str]:
    """The folders for the caches of tools, by variable; they are made."""
    top = caches_in(env, home)
    try:
        for name in _CACHES.values():
            (top / name).mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return {}
    return {variable: os.fspath((top / name).resolve()) for variable, name in _CACHES.items()}


def _repository(cwd: Path) -> tuple[list[Path], list[Path], tuple[Path, ...], dict[Path, bytes]]:
    """What git must write to commit in *cwd*, what it must not, what must not exist, and the links of a work tree."""
    cwd = cwd.resolve()
    link = next((top / ".git" for top in (cwd, *cwd.parents) if os.path.lexists(top / ".git")), None)
    if link is None:
        return [], [], (), {}
    entry = link
    if link.is_file():
        with suppress(OSError, UnicodeDecodeError):
            entry = link.parent / link.read_text().partition("gitdir:")[2].strip()
    common = entry
    with suppress(OSError, UnicodeDecodeError):
        common = entry / (entry / "commondir").read_text().strip()
    if not common.is_dir():
        return [], [link], (), {}
    hooks = common / "hooks"
    if not hooks.exists():
        with suppress(OSError):
            hooks.mkdir()
    kept = [link, common, *(folder / name for folder in (common, entry) for name in _GIT_KEPT)]
    names = ("config.worktree",) if common != entry else ("commondir", "config.worktree")
    absent = tuple(entry / name for name in names if not os.path.lexists(entry / name))
    kept = [path for path in kept if path != entry]
    links = {}
    if common != entry:
        with suppress(OSError):
            links = {path: path.read_bytes() for path in (link, *(entry / name for name in _GIT_LINKS))}
    return [entry, *(common / name for name in _GIT_WRITTEN)], kept, absent, links
