"""The policy of a sandbox: what the process of an attempt may read and write.

A policy assigns an access to paths; for a file, the deepest path above it decides. It does not depend on the
implementation. Links are followed, but none that an agent could have made: it would choose what the next one may do.
"""

import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from itertools import chain, takewhile
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from coterie.agents.backends import agentside
from coterie.agents.backends.agentside.client import NOTES_FOLDER, OUTBOX, TEMPORARY
from coterie.agents.backends.agentside.delivery import BELL
from coterie.agents.backends.base import Request
from coterie.agents.backends.models.rules import STATE_FOLDERS
from coterie.agents.backends.needs import sandbox_of, states_of
from coterie.agents.backends.sandbox.home import homes_of, homes_of_others, named, visible
from coterie.agents.backends.team_files import own_python
from coterie.base import agent_writes, files
from coterie.errors import Unconfined
from coterie.team.formats.folders import OBEYED
from coterie.team.options.secret_files import below, in_home, moved, on_system
from coterie.team.options.states import WHOLE, AgentState

_CACHES = {"npm_config_cache": "npm", "GOCACHE": "go-build", "UV_CACHE_DIR": "uv"}
"""Variables for the caches of tools that need a writable cache, with the names of folders."""
_PRIVATE = (Path("/tmp"), Path("/var/tmp"))
_SOURCES = os.fspath(Path(agentside.__file__).parents[4])
_SHARED = ("/tmp", "/var/tmp", "/run")
"""Folders that all programs of the machine share, with sockets of its services."""
_SERVICES = (
    *("/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager", "/run/nscd"),
    *("/run/current-system", "/run/wrappers", "/run/opengl-driver"),
)
"""The parts of them that programs need to resolve hosts, and on NixOS to start."""
_NOTES = ("AUTOLOOP_MEMORY_FILE", "AUTOLOOP_TASKS_FILE", "AUTOLOOP_JOURNAL_FILE")
_STATE = ("worktrees", "waves")
"""Folders of a state directory that the owner reads."""
_GIT_LINKS = ("commondir", "gitdir")
_GIT_KEPT = ("config", "config.worktree", "hooks", "info", "worktrees", "modules", *_GIT_LINKS)
"""Files from which git reads commands, or by which it finds them."""
_GIT_WRITTEN = ("objects", "refs", "logs")
_LONGEST_PATH = 1 << 16
"""Bytes of a file in which git names another place."""

SESSION = ("SSH_AUTH_SOCK", "SSH_AGENT_PID", "GPG_AGENT_INFO", "DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR")
"""Variables that name services of the user's session, which act with the user's keys."""

CONFINED = {"IS_SANDBOX": "1"} if os.geteuid() == 0 else {}
"""Variables to set: as root, Claude Code refuses to work without permission requests, except in a sandbox."""


MEMORY = Path("/dev/shm")
"""The folder of files in memory."""


class Access(Enum):
    """What a process may do with a path and everything below it."""

    HIDE = "hide"
    READ = "read"
    WRITE = "write"


class SandboxPolicy(NamedTuple):
    """The access of one attempt.

    Attributes:
        access: The access by path: absolute, existing, without links; includes `/`.
        temporary: The private folder for temporary files.
        bell: The link to the owner's doorbell, and its target socket; None if there is none.
        absent: Paths that do not exist and must not exist after the attempt, since git would read commands from them.
        links: The files by which git finds the repository of a linked work tree, with their contents, which must be the
            same after the attempt.
        written: The folders of git that it writes.
        shown: Files that it sees in the place of others, and cannot write, by these.
        network: Whether it has access to the network.
        variables: Variables to set: the folders for caches of tools, in place of the user's, and settings of git.
        private: The folders that it writes in place of hidden ones, by the hidden folder.
        moved: Variables with folders of its agent's state, which are hidden and have a private replacement.
        aliases: Links in a hidden folder that are shown, and their targets.
        restored: Files and folders that are put back after the attempt: those of the team.
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
    variables: Mapping[str, str] = MappingProxyType({})
    shown: Mapping[Path, Path] = MappingProxyType({})
    restored: tuple[Path, ...] = ()

    def of(self, path: Path) -> Access:
        """The access to *path*, an absolute path without links."""
        return self.access[self._rule(path)]

    def hider(self, path: Path) -> Path | None:
        """The path whose rule hides *path*; None if it is not hidden."""
        found = self._rule(path)
        return found if self.access[found] is Access.HIDE else None

    def _rule(self, path: Path) -> Path:
        while path not in self.access:
            path = path.parent
        return path

    def in_memory(self, *others: Path) -> set[str]:
        """The folders of files in memory, which are no devices, that hold its paths or *others*."""
        return {f"{MEMORY}/{path.parts[3]}" for path in (*self.access, *others) if MEMORY in path.parents}

    def below(self, path: Path) -> list[tuple[Path, Access]]:
        """The paths below *path* with a different access, from the top down."""
        return sorted((p, a) for p, a in self.access.items() if path in p.parents and a != self.of(p.parent))


def policy_of(request: Request, env: Mapping[str, str], cwd: Path, folder: Path, argv: Sequence[str]) -> SandboxPolicy:
    """The policy of the attempt of *request*, whose process is *argv* with the environment *env*, in *cwd*.

    Args:
        folder: The part of the attempt's folder that it may write; folders for emits and temporary files are made in
            it.

    Raises:
        Unconfined: If an agent could have made a link that leads to *cwd*.
    """
    place = _real(cwd)
    if why := agent_writes.misled(cwd, os.fspath(place)):
        raise Unconfined(f"the working directory is not entered: {why}")
    rules: dict[Path, Access] = {Path("/"): Access.READ}

    def give(access: Access, *paths: Path | str) -> None:
        for path in paths:
            with suppress(OSError):
                rules[_real(path, strict=True) if access is Access.HIDE else agent_writes.resolved(path)] = access

    (folder / OUTBOX).mkdir(mode=0o700, exist_ok=True)
    temporary = _real(tempfile.mkdtemp(prefix=TEMPORARY, dir=folder))
    private, aliases = dict.fromkeys(_PRIVATE, temporary), {}
    homes = homes_of(env)
    others = homes_of_others(homes)
    give(Access.HIDE, *_SHARED, *homes, *others)
    give(Access.READ, *_SERVICES)
    for home in homes:
        for shown, real in visible(home, env):
            rules[real] = Access.READ
            if shown != real:
                aliases[shown] = _real(shown)
    runs = request.root.parent if request.root is not None else None
    state = runs.parent if runs is not None else None
    review = bool(env.get("AUTOLOOP_REVIEW_MODE"))
    own, replaced = request.repository, dict[Path, Path]()
    if own is None:
        written, kept, absent, links, tops = _repository(cwd)
    else:
        link = _real(own.tree) / ".git"
        replaced = {_real(at.parent) / at.name: real for at, real in own.shown}
        written, kept, absent, links, tops = [], [*own.read], (), {}, [own.tree]
        tops += [own.common.parent] if own.common.name == ".git" else []
        if own.link is not None:
            written, replaced[link] = [own.git], own.link
            with suppress(OSError):
                links = {link: link.read_bytes()}
    tops += [state.parent] if state is not None else []
    give(Access.READ, *(top for top in tops if not any(home.is_relative_to(_real(top)) for home in homes)))
    give(Access.HIDE, *([own.common] if own is not None else []))
    if own is not None and own.link is None:
        private[link] = _real(own.git)
    if state is not None:
        is_loop = bool(env.get("AUTOLOOP_STATE_DIR"))
        here = is_loop and _real(state).is_relative_to(place)  # agents of a loop may keep files in it
        given = [Path(env["AUTOLOOP_STATE_DIR"])] if here else []
        give(Access.WRITE if given else Access.READ, state)
        if is_loop:
            _occupy(state, [env[name] for name in _NOTES if env.get(name) and not review])
        give(Access.READ, *(state / name for name in (*_STATE, ".gitignore")))
        give(Access.WRITE, *given)
        beside = [state.with_name(name) for name in STATE_FOLDERS if state.name in STATE_FOLDERS]
        give(Access.HIDE, *(one / "runs" for one in (state, *beside)))
        give(Access.READ, *(Path(env.get(NOTES_FOLDER) or state) / name for name in ("memory.jsonl", "tasks.jsonl")))
    give(Access.HIDE, *request.hidden)
    give(Access.WRITE, cwd)
    if not review:  # a review may change its loop's files
        give(Access.READ, *(env[name] for name in _NOTES if env.get(name)))
    give(Access.READ, *(request.team or ((request.here or cwd) / name for name in OBEYED if not review)))
    inside = (takewhile(lambda above: place in above.parents, _real(path).parents) for path in request.team)
    for above in set(chain.from_iterable(inside)):
        if above.is_dir():
            rules.setdefault(above, Access.WRITE)  # a mount, so that it cannot be moved together with protected files
    give(Access.READ, *own_python(cwd))
    give(Access.READ, folder.parent)
    give(Access.WRITE, folder)
    give(Access.WRITE, *written)
    give(Access.READ, *kept, *replaced)
    ring = request.root.absolute() / BELL if request.root and not request.clean else None
    bell = (ring, Path(os.readlink(ring))) if ring is not None and ring.is_symlink() else None
    network = sandbox_of(request.agent) != "no-network"
    folders = tuple(_real(path) for path in written) if own is None else ()
    caches = _caches(env, Path(env.get("HOME") or files.user_home()), state.parent if state is not None else cwd)
    give(Access.WRITE, *caches.values())
    policy = SandboxPolicy(
        rules,
        temporary,
        private,
        {},
        aliases,
        bell,
        absent,
        links,
        folders,
        network,
        caches | _without_keys(env),
        replaced,
        tuple(_real(path) for path in request.team),
    )
    give(Access.READ, *filter(None, (files.runtime_folder(),)), *((bell[1].parent,) if bell else ()))
    program = shutil.which(argv[0], path=env.get("PATH")) if argv else None
    needed = dict.fromkeys((request.here, sys.prefix, sys.base_prefix, _SOURCES, program, *argv))
    hiding = {*map(Path, _SHARED), *homes, *others}
    for path in (path for path in needed if path and os.path.isabs(path)):
        with suppress(OSError):
            for way in map(_installation, (Path(path), agent_writes.resolved(path))):
                if policy.hider(way) in hiding:
                    rules[agent_writes.resolved(way.parent) / way.name] = Access.READ
    chosen = [_real(path) for path in named()]
    give(Access.READ, *(path for path in chosen if policy.of(path) is Access.HIDE))
    worked_on = {place, *place.parents}
    state_of_user = files.user_state()  # it notes what agents could write, and may be in the working directory
    with suppress(OSError):
        files.make_folder(state_of_user)
    for secret in chain([state_of_user], on_system(), moved(env), *map(in_home, homes), *map(below, chosen)):
        real = _real(secret)
        if real not in chosen and real not in worked_on and policy.of(real.parent) is not Access.HIDE:
            give(Access.HIDE, real)
    for one in states_of(request.agent):
        _give_state(one, policy, request.root, env)
    return policy


def _occupy(state: Path, notes: Iterable[str]) -> None:
    """Make what the owner reads in the folder *state*, and *notes*, where there is none: a rule needs an existing path.

    An agent could otherwise make it, with entries that count as the run's, or as a link that leads the owner elsewhere.
    """
    with suppress(OSError):
        for name in _STATE:
            files.make_folder(state / name)
    for path in map(Path, notes):
        if not os.path.lexists(path):
            with suppress(OSError):
                files.make_folder(path.parent)
                files.write(path, b"")


def _give_state(state: AgentState, policy: SandboxPolicy, run: Path | None, env: Mapping[str, str]) -> None:
    """Give an agent access to its *state*: write its login, read the rest, and a private folder for new files.

    Sessions are kept in the folder of the *run*.
    """
    home, variable = Path(env.get("HOME") or files.user_home()), env.get(state.variable, "")
    own = _real(variable or home / state.folder)
    exists = own.is_dir()
    if state.login == WHOLE:
        if exists:
            policy.access[own] = Access.WRITE
            for path in (entry.path for entry in os.scandir(own) if not state.is_own(entry.name)):
                with suppress(OSError):
                    policy.access[agent_writes.resolved(path)] = Access.READ
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
        policy.access[own / folder], policy.private[own / folder] = Access.HIDE, _real(kept)
    for entry in os.scandir(own) if exists else ():
        login = entry.name in state.login.split()
        if login or not state.is_own(entry.name):
            with suppress(OSError):
                real = agent_writes.resolved(entry.path)
                policy.access[real] = Access.WRITE if login else Access.READ
                if real != own / entry.name:
                    (place / entry.name).symlink_to(real)


def _installation(path: Path) -> Path:
    """The files that a program at *path* needs: its whole npm installation, if there is one, else the program."""
    return next((folder for folder in reversed(path.parents) if folder.name == "node_modules"), path)


def caches_in(env: Mapping[str, str], home: Path) -> Path:
    """The folder of the caches of confined agents, with a folder for each project, whose agents share it.

    The user's own caches contain programs that the user runs outside a sandbox, and those of a project programs that
    its agents run with its environment.
    """
    return Path(env.get("XDG_CACHE_HOME") or home / ".cache") / "coterie"


def _caches(env: Mapping[str, str], home: Path, project: Path) -> dict[str, str]:
    """Create the folders for the caches of tools; return them by variable."""
    real = _real(project)
    top = caches_in(env, home) / f"{real.name}-{hashlib.sha256(os.fsencode(real)).hexdigest()[:12]}"
    try:
        for name in _CACHES.values():
            (top / name).mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return {}
    return {variable: os.fspath(_real(top / name)) for variable, name in _CACHES.items()}


def _without_keys(env: Mapping[str, str]) -> dict[str, str]:
    """Variables with which git signs nothing: the user's keys are hidden, and no commit could be made."""
    try:
        count = int(env.get("GIT_CONFIG_COUNT", 0))
    except ValueError:
        return {}  # git refuses it, too
    found = {"GIT_CONFIG_COUNT": str(count + 2)}
    for n, key in enumerate(("commit.gpgSign", "tag.gpgSign"), start=count):
        found |= {f"GIT_CONFIG_KEY_{n}": key, f"GIT_CONFIG_VALUE_{n}": "false"}
    return found


def _repository(cwd: Path) -> tuple[list[Path], list[Path], tuple[Path, ...], dict[Path, bytes], list[Path]]:
    """The paths of git for *cwd*: to write, not to write, to keep absent, links of a work tree, and the main work tree.

    A link is followed only into a repository that knows it, since an agent may have left a link to another place.
    """
    cwd = _real(cwd)
    link = next((top / ".git" for top in (cwd, *cwd.parents) if os.path.lexists(top / ".git")), None)
    if link is None:
        return [], [], (), {}, []
    if agent_writes.misled(link):
        return [], [link], (), {}, []
    entry = link
    if link.is_file():
        with suppress(OSError, UnicodeDecodeError):
            entry = link.parent / _text(link).partition("gitdir:")[2].strip()
    common = entry
    if entry != link:
        with suppress(OSError, UnicodeDecodeError):
            common = entry / _text(entry / "commondir").strip()
    if not common.is_dir() or (entry != link and not _is_known(link, _real(entry), _real(common))):
        return [], [link], (), {}, []
    hooks = common / "hooks"
    if not hooks.exists():
        with suppress(OSError):
            hooks.mkdir()
    kept = [link, common, *(folder / name for folder in dict.fromkeys((common, entry)) for name in _GIT_KEPT)]
    names = ("config.worktree",) if common != entry else ("commondir", "config.worktree", "info")
    absent = tuple(entry / name for name in names if not os.path.lexists(entry / name))
    kept = [path for path in kept if path != entry]
    links = {}
    if common != entry:
        with suppress(OSError):
            links = {path: _text(path).encode() for path in (link, *(entry / name for name in _GIT_LINKS))}
    main = [link.parent, *([_real(common).parent] if common.name == ".git" else [])]
    return [entry, *(common / name for name in _GIT_WRITTEN)], kept, absent, links, main


def _real(path: str | Path, *, strict: bool = False) -> Path:
    return Path(files.real_path(path, strict=strict))


def _is_known(link: Path, entry: Path, common: Path) -> bool:
    """Whether the repository *common* has the work tree or submodule of the file *link*, which names *entry*."""
    if entry == common:  # a submodule
        return any((top / ".git" / "modules") in entry.parents for top in link.parents)
    with suppress(OSError, UnicodeDecodeError):
        return entry.parent == common / "worktrees" and _real(_text(entry / "gitdir").strip()) == link
    return False


def _text(path: Path) -> str:
    """The text of a file in which git names another place; an agent could have put anything there."""
    return files.read(path, _LONGEST_PATH, follow=True).decode()
