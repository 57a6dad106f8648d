"""What the process of an attempt may read and write.

A policy gives paths an access; of the paths above a file, the deepest decides. It knows no mechanism.
"""

import os
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from enum import Enum
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from coterie import files
from coterie.backends import agentside
from coterie.backends.agentside.client import NOTES_FOLDER, OUTBOX, TEMPORARY
from coterie.backends.agentside.delivery import BELL
from coterie.backends.base import Request
from coterie.backends.needs import sandbox_of, states_of
from coterie.backends.sandbox.home import homes_of, homes_of_others, named, visible
from coterie.formats.folders import OBEYED
from coterie.options.secret_files import below, in_home, moved, on_system
from coterie.options.states import WHOLE, AgentState

_CACHES = {"npm_config_cache": "npm", "GOCACHE": "go-build", "UV_CACHE_DIR": "uv"}
"""Variables that name the cache of a tool which does not work without one that it can write, with a folder's name."""
_PRIVATE = (Path("/tmp"), Path("/var/tmp"))
_SOURCES = os.fspath(Path(agentside.__file__).parents[3])
_SHARED = ("/tmp", "/var/tmp", "/run")
"""Folders that all programs of the machine share, sockets of its services among them."""
_SERVICES = (
    *("/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager", "/run/nscd"),
    *("/run/current-system", "/run/wrappers", "/run/opengl-driver"),
)
"""What of them programs need to find hosts, and on NixOS to start."""
_NOTES = ("AUTOLOOP_MEMORY_FILE", "AUTOLOOP_TASKS_FILE", "AUTOLOOP_JOURNAL_FILE")
_GIT_LINKS = ("commondir", "gitdir")
_GIT_KEPT = ("config", "config.worktree", "hooks", "info", "worktrees", "modules", *_GIT_LINKS)
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
        written: The folders of git that it writes.
        network: Whether it has the machine's network.
        caches: Variables that name folders for caches of tools, instead of the user's.
        private: The folders that it writes in the place of hidden ones, by these.
        moved: Variables that name folders of its agent's state, which are hidden and have a private one.
        aliases: Links in a hidden folder that are shown, and what they lead to.
    """

    access: dict[Path, Access]
    temporary: Path
    private: dict[Path, Path]
    moved: dict[str, Path]
    aliases: dict[Path, Path]
    bell: tuple[Path, Path] | None = None
    absent: tuple[Path, ...] = ()
    links: Mapping[Path, bytes] = MappingProxyType({})
    written: tuple[Path, ...] = ()
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
        folder: What it may write of the attempt's folder, which it may read; folders for emits and temporary files
            are made in it.
    """
    rules: dict[Path, Access] = {Path("/"): Access.READ}

    def give(access: Access, *paths: Path | str) -> None:
        for path in paths:
            with suppress(OSError):
                rules[Path(os.path.realpath(path, strict=True))] = access

    (folder / OUTBOX).mkdir(mode=0o700, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=TEMPORARY, dir=folder)).resolve()
    private, aliases = dict.fromkeys(_PRIVATE, temporary), {}
    homes = homes_of(env)
    others = homes_of_others(homes)
    give(Access.HIDE, *_SHARED, *homes, *others)
    give(Access.READ, *_SERVICES)
    for home in homes:
        for shown, real in visible(home, env):
            rules[real] = Access.READ
            if shown != real:
                aliases[shown] = shown.resolve()
    runs = request.root.parent if request.root is not None else None
    state = runs.parent if runs is not None else None
    review = bool(env.get("AUTOLOOP_REVIEW_MODE"))
    written, kept, absent, links, tops = _repository(cwd)
    tops += [state.parent] if state is not None else []
    give(Access.READ, *(top for top in tops if not any(home.is_relative_to(top.resolve()) for home in homes)))
    if state is not None:
        given = [Path(env["AUTOLOOP_STATE_DIR"])] if env.get("AUTOLOOP_STATE_DIR") else []
        give(Access.WRITE if given else Access.READ, state)
        give(Access.READ, state / "worktrees", state / "waves", state / ".gitignore")
        give(Access.WRITE, *given)
        give(Access.HIDE, *([runs] if runs else []))
        give(Access.READ, *(Path(env.get(NOTES_FOLDER) or state) / name for name in ("memory.jsonl", "tasks.jsonl")))
    give(Access.HIDE, *request.hidden)
    give(Access.WRITE, cwd)
    if not review:  # a review may change its loop
        give(Access.READ, *(env[name] for name in _NOTES if env.get(name)))
    give(Access.READ, *(request.team or ((request.here or cwd) / name for name in OBEYED if not review)))
    for above in {above for path in request.team for above in path.resolve().parents if cwd.resolve() in above.parents}:
        if above.is_dir():
            rules.setdefault(above, Access.WRITE)  # a mount, so that it cannot be moved away with what is protected
    give(Access.READ, folder.parent)
    give(Access.WRITE, folder)
    give(Access.WRITE, *written)
    give(Access.READ, *kept)
    ring = request.root.absolute() / BELL if request.root else None
    bell = (ring, Path(os.readlink(ring))) if ring is not None and ring.is_symlink() else None
    network = sandbox_of(request.agent) != "no-network"
    folders = tuple(path.resolve() for path in written)
    caches = _caches(env, Path(env.get("HOME") or Path.home()))
    give(Access.WRITE, *caches.values())
    policy = SandboxPolicy(rules, temporary, private, {}, aliases, bell, absent, links, folders, network, caches)
    give(Access.READ, *((bell[1].parent,) if bell else ()))
    program = shutil.which(argv[0], path=env.get("PATH")) if argv else None
    needed = dict.fromkeys((request.here, sys.prefix, sys.base_prefix, _SOURCES, program, *argv))
    hiding = {*map(Path, _SHARED), *homes, *others}
    for path in needed:
        if path and os.path.isabs(path) and os.path.exists(path):
            for way in map(_installation, (Path(path), Path(path).resolve())):
                if policy.hider(way) in hiding:
                    rules[way.parent.resolve() / way.name] = Access.READ
    chosen = [path.resolve() for path in named()]
    give(Access.READ, *(path for path in chosen if policy.of(path) is Access.HIDE))
    worked_on = {cwd.resolve(), *cwd.resolve().parents}
    for secret in chain(on_system(), moved(env), *map(in_home, homes), *map(below, chosen)):
        real = secret.resolve()
        if real not in chosen and real not in worked_on and policy.of(real.parent) is not Access.HIDE:
            give(Access.HIDE, real)
    for one in states_of(request.agent):
        _give_state(one, policy, request.root, env)
    return policy


def _give_state(state: AgentState, policy: SandboxPolicy, run: Path | None, env: Mapping[str, str]) -> None:
    """Give an agent its *state*: its login to write, the rest to read, and a private folder for what it adds.

    Sessions are kept in the folder of the *run*.
    """
    home, variable = Path(env.get("HOME") or Path.home()), env.get(state.variable, "")
    own = Path(variable or home / state.folder).resolve()
    exists = own.is_dir()
    if state.login == WHOLE:
        if exists:
            policy.access[own] = Access.WRITE
            read = (Path(entry.path).resolve() for entry in os.scandir(own) if not state.is_own(entry.name))
            policy.access.update(dict.fromkeys(read, Access.READ))
        return
    name = state.folder.replace("/", "-").lstrip(".")
    place = policy.temporary / name
    place.mkdir(mode=0o700, parents=True)
    if state.copied:
        with suppress(OSError):
            shutil.copyfile((own if variable else home) / state.copied, place / state.copied)
    if not exists and state.variable:
        own = place
    elif exists or policy.of(own) is Access.HIDE:
        policy.access[own], policy.private[own] = Access.HIDE, place
    if state.variable:
        policy.moved[state.variable] = own
    for folder in state.sessions.split():
        kept = (run.absolute() if run is not None else policy.temporary) / "agents" / name / folder
        files.make_folder(kept)
        policy.access[own / folder], policy.private[own / folder] = Access.HIDE, kept.resolve()
    for entry in os.scandir(own) if exists else ():
        login = entry.name in state.login.split()
        if login or not state.is_own(entry.name):
            with suppress(OSError, RuntimeError):
                real = Path(entry.path).resolve(strict=True)
                policy.access[real] = Access.WRITE if login else Access.READ
                if real != own / entry.name:
                    (place / entry.name).symlink_to(real)


def _installation(path: Path) -> Path:
    """What a program at *path* needs: all that npm installed with it, if npm did, else the program."""
    return next((folder for folder in reversed(path.parents) if folder.name == "node_modules"), path)


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


def _repository(cwd: Path) -> tuple[list[Path], list[Path], tuple[Path, ...], dict[Path, bytes], list[Path]]:
    """What git must write to commit in *cwd*, what it must not, what must not exist, the links of a work tree, and the
    main work tree.

    A link is followed only into a repository that knows it: an agent may have left one that leads elsewhere.
    """
    cwd = cwd.resolve()
    link = next((top / ".git" for top in (cwd, *cwd.parents) if os.path.lexists(top / ".git")), None)
    if link is None:
        return [], [], (), {}, []
    entry = link
    if link.is_file():
        with suppress(OSError, UnicodeDecodeError):
            entry = link.parent / link.read_text().partition("gitdir:")[2].strip()
    common = entry
    if entry != link:
        with suppress(OSError, UnicodeDecodeError):
            common = entry / (entry / "commondir").read_text().strip()
    if not common.is_dir() or (entry != link and not _is_known(link, entry.resolve(), common.resolve())):
        return [], [link], (), {}, []
    hooks = common / "hooks"
    if not hooks.exists():
        with suppress(OSError):
            hooks.mkdir()
    kept = [link, common, *(folder / name for folder in (common, entry) for name in _GIT_KEPT)]
    names = ("config.worktree",) if common != entry else ("commondir", "config.worktree", "info")
    absent = tuple(entry / name for name in names if not os.path.lexists(entry / name))
    kept = [path for path in kept if path != entry]
    links = {}
    if common != entry:
        with suppress(OSError):
            links = {path: path.read_bytes() for path in (link, *(entry / name for name in _GIT_LINKS))}
    main = [link.parent, *([common.resolve().parent] if common.name == ".git" else [])]
    return [entry, *(common / name for name in _GIT_WRITTEN)], kept, absent, links, main


def _is_known(link: Path, entry: Path, common: Path) -> bool:
    """Whether the repository *common*, whose *entry* the file *link* names, has that work tree or submodule."""
    if entry == common:  # a submodule
        return any((top / ".git" / "modules") in entry.parents for top in link.parents)
    with suppress(OSError, UnicodeDecodeError):
        return entry.parent == common / "worktrees" and Path((entry / "gitdir").read_text().strip()).resolve() == link
    return False
