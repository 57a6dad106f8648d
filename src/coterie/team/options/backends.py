"""The table of all backends: how each is selected, the options it reads, the state of its agents, and its requirements.

Backends differ only in their entry here and in the methods of their class, which an attempt loads.
"""

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import PurePath
from typing import Any

from msgspec import Struct

from coterie.base.diagnostics import did_you_mean
from coterie.team.options.states import OTHERS, AgentState

GENERIC = "generic"
"""The provider of a program without an entry."""


class Provider(Struct, frozen=True):
    """A program that speaks a backend's protocol, and how to start it.

    Attributes:
        selects: Whether its name and that of its command select the backend.
    """

    command: str = ""
    args: tuple[str, ...] = ()
    selects: bool = False


class BackendEntry(Struct, frozen=True, kw_only=True):
    """One backend.

    Attributes:
        path: Its class, as `module:class`.
        reads: The groups of options that it reads, as in `Option.group`.
        is_coding: Whether its agents are coding agents, with sessions, and by default with a sandbox.
        is_named: Whether files can name it.
        uses_files: Whether its agents work on the files of the run.
        takes_arguments: Whether its program takes arguments from a file.
        program: The program that it starts by default; the name of a coding agent's program selects it.
        prompt_mode: How the prompt is passed by default.
        providers: The programs that speak its protocol, by name.
        honours: The safety fields of an agent that it enforces.
        library: The module that must be installed; *extra* is the extra of Coterie that installs it.
        is_bundled: Whether the library contains the program, so that it need not be on the PATH.
        install: How to install its program.
        states: The folders of its agent's state; empty: those of the agent that its provider or its command names.
        probe: The function that examines it for `doctor`, as `module:function`.
    """

    path: str
    reads: frozenset[str] = frozenset()
    is_coding: bool = False
    is_named: bool = True
    uses_files: bool = False
    takes_arguments: bool = False
    program: str = ""
    prompt_mode: str = "arg"
    providers: Mapping[str, Provider] = {}
    honours: tuple[str, ...] = ()
    library: str = ""
    extra: str = ""
    is_bundled: bool = False
    install: str = "install it"
    states: tuple[AgentState, ...] = ()
    probe: str = "coterie.agents.backends.coding.probes:program"

    @property
    def is_installed(self) -> bool:
        """Whether its library is installed."""
        return not self.library or find_spec(self.library) is not None

    def make(self) -> Any:
        """Make a backend: an instance of its class."""
        return load(self.path)()


REGISTRY: Mapping[str, BackendEntry] = {
    "claude-sdk": BackendEntry(
        path="coterie.agents.backends.coding.claude:ClaudeBackend",
        reads=frozenset({"permissions", "process", "gates", "thread"}),
        is_coding=True,
        uses_files=True,
        program="claude",
        honours=("tools",),
        library="claude_agent_sdk",
        extra="claude",
        is_bundled=True,
        states=(
            AgentState(
                ".claude",
                "CLAUDE_CONFIG_DIR",
                ".credentials.json",
                "projects",
                "todos tasks sessions session-env shell-snapshots file-history history.jsonl statsig telemetry debug "
                "traces logs cache backups image-cache paste-cache downloads plans",
                ".claude.json",
                ".credentials.json",
            ),
        ),
        probe="coterie.agents.backends.coding.probes:claude",
    ),
    "pi": BackendEntry(
        path="coterie.agents.backends.coding.pi:PiBackend",
        reads=frozenset({"process", "gates", "thread"}),
        is_coding=True,
        uses_files=True,
        takes_arguments=True,
        program="pi",
        install="npm install -g @earendil-works/pi-coding-agent",
        states=(AgentState(".pi/agent", "PI_CODING_AGENT_DIR", "auth.json", scratch="sessions", secrets="auth.json"),),
    ),
    "acp": BackendEntry(
        path="coterie.agents.backends.coding.acp:AcpBackend",
        reads=frozenset({"provider", "mode", "permissions", "process", "gates", "thread"}),
        is_coding=True,
        uses_files=True,
        takes_arguments=True,
        prompt_mode="acp",
        providers={
            "kiro": Provider("kiro-cli", ("acp",), selects=True),
            "claude-agent-acp": Provider("npx", ("-y", "@agentclientprotocol/claude-agent-acp")),
            GENERIC: Provider(),
        },
        library="acp",
        extra="acp",
        probe="coterie.agents.backends.coding.probes:acp",
    ),
    "command": BackendEntry(
        path="coterie.agents.backends.command:CommandBackend",
        reads=frozenset({"process", "gates", "thread"}),
        uses_files=True,
        takes_arguments=True,
        program="claude",
    ),
    "model": BackendEntry(
        path="coterie.agents.backends.models.backend:ModelBackend",
        reads=frozenset({"provider", "model", "gates", "thread"}),
    ),
    "scripted": BackendEntry(path="coterie.agents.backends.scripted:ScriptedBackend", reads=frozenset({"thread"})),
    "human": BackendEntry(path="coterie.agents.backends.human:HumanBackend"),
    "actor": BackendEntry(
        path="coterie.agents.actors.turns:ActorBackend",
        reads=frozenset({"thread"}),
        is_named=False,
        uses_files=True,
    ),
}
"""All backends."""

KINDS = tuple(name for name, entry in REGISTRY.items() if entry.is_named)
"""The backends that files can name."""
BACKENDS = frozenset(KINDS)
"""The same as a set."""
CODING = {name: entry for name, entry in REGISTRY.items() if entry.is_coding}
"""The backends of coding agents."""
PROVIDERS = {
    name: (backend, provider) for backend, entry in REGISTRY.items() for name, provider in entry.providers.items()
}
"""The programs that speak a backend's protocol, by name, with the backend."""


STATES = {entry.program: entry.states for entry in CODING.values() if entry.states} | dict(OTHERS)
"""The state of each coding agent, by a part of the agent's name."""


def usual_policy(backend: str) -> str:
    """What happens to an interrupted attempt with *backend*, unless the file says so."""
    return "resume" if backend == "model" else "retry"


def load(path: str) -> Any:
    """Import the class or function at *path*, `module:name`."""
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)


def of_program(command: str, *, has_args: bool = False) -> str:
    """The backend of coding agents that the name of the program *command* selects; empty if none."""
    name = PurePath(command).name
    found = (kind for kind, entry in CODING.items() if name and name == entry.program)
    return next((kind for kind in found if CODING[kind].takes_arguments or not has_args), "")


def provider_of(command: str) -> str:
    """The provider that the name of the program *command* selects; empty if none."""
    name = PurePath(command).name
    return next((one for one, (_, provider) in PROVIDERS.items() if provider.selects and provider.command == name), "")


def states_in(words: Sequence[str]) -> Iterator[AgentState]:
    """The state folders of the agents named in *words*, such as a backend and the command of a program."""
    known = " ".join(words).lower()
    for name, states in STATES.items():
        if name in (known.replace("/", " ").split() if len(name) < 3 else known):  # a short name must be a whole word
            yield from states


def backend_hint(name: str) -> str:
    """A hint for the unknown backend *name*."""
    return did_you_mean(name, sorted(BACKENDS)) or f"known backends: {', '.join(sorted(BACKENDS))}"
