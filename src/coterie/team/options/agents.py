"""The table of all options of an agent: names, values, default, meaning, readers, and protection.

The readers of `.at` extensions, YAML, roles and settings, the JSON Schema, `show`, `config`, completion, the protection
of running loops and the reference pages use this table. A name has hyphens in `.at` and underscores in YAML; in the
settings of a loop and in its roles an option has the name `loop`, durations with `_ms`.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Annotated, Any

from msgspec import Struct

from coterie.team.options.backends import REGISTRY
from coterie.team.options.protection import AsStrict, fewer, later, lower, same
from coterie.team.options.values import (
    API_KEY,
    BACKEND,
    BLOCK,
    CHARACTERS,
    CLASS,
    COMMAND,
    COMMANDS,
    ENV,
    FLAG,
    PRICE,
    QUEUE,
    SCHEMAS,
    SECONDS,
    SECONDS_OR_NEVER,
    TEXT,
    TEXTS,
    TOOLS,
    URL,
    VALUES,
    Unfit,
    ValueKind,
    one_of,
)

REQUIRED = ("required", "no-network")
"""The values with which an agent only runs in a sandbox: with the network, or without."""
SANDBOXES = ("auto", *REQUIRED, "off")
"""Whether an agent runs in a sandbox: if one works, always, or never."""
GATE_SANDBOXES = ("same", "off", "required")
"""Whether the gates of an agent run in its sandbox, in none, or always in one."""
ATTENTION_POLICIES = ("deny", "allow", "park", "fail")
"""What happens to a request for attention without an answer in time."""
INTERRUPT_POLICIES = ("retry", "resume", "adopt", "ask")
"""Policies for an attempt that an interruption or a crash of the run cut off."""
GUARDS = ("gate", "read_only", "disallowed_tools", "hooks")
"""Keys of autoloop that restrict an agent and that are not built here: ignoring one would lift the restriction."""
NO_GUARD = "remove it: check work by `event_loop.gates`, restrict agents by `trust_all_tools`, `attention` or `sandbox`"
"""What to do about a guard."""


def is_table(value: Any) -> bool:
    """Whether *value* of a TOML file is a table, or an array of tables."""
    return isinstance(value, Mapping) or (isinstance(value, list) and any(isinstance(one, Mapping) for one in value))


class Scope(IntEnum):
    """The extension blocks that may have an option; a later value includes the earlier ones."""

    TEAM = -1
    """Only in the block of the topology."""
    NOWHERE = 0
    AGENT = 1
    """In the block of an agent."""
    TOPOLOGY = 2
    """Also in the block of the topology, for all agents."""
    PROCESS = 3
    """Also in the blocks of actions and gates."""
    HUMAN = 4
    """Also in the blocks of humans."""


class Option(Struct, frozen=True):
    """The description of an option.

    Attributes:
        about: Its meaning, in one line.
        scope: The extension blocks that may have it.
        loop: Its name in the settings of loops and in roles; empty: loops do not have it.
        group: Only backends that read this group of options have it; empty: all backends, or it selects one.
        setting: The setting of a loop that contains it, if that is not one of `backend`.
        default: The value if none is given.
        protects: Compares the strictness of an old and a new value; None: it has no protective function, and a running
            loop accepts any change.
    """

    kind: ValueKind
    about: str
    scope: Scope = Scope.TOPOLOGY
    loop: str = ""
    group: str = ""
    setting: str = ""
    default: Any = None
    protects: AsStrict | None = same

    @property
    def unit(self) -> str:
        """The suffix of its name in the settings and roles of a loop."""
        return "_ms" if self.kind.form == "seconds" else ""

    @property
    def in_settings(self) -> str:
        """The setting of a loop with its value; empty if there is none."""
        return self.setting or (f"backend.{self.loop}{self.unit}" if self.loop else "")


def _options(value: Any) -> dict[str, Any]:
    read: dict[str, Any] = BLOCK.read(value)
    if key := next((key for name in read if (key := name.replace("_", "-")) in CODING_KEYS), ""):
        raise Unfit(f"a block without {key!r}", f"write {key} beside options, not in them")
    return read


FURTHER = ValueKind("", _options, BLOCK.schema)
"""The block `options`."""


# fmt: off
class AgentOptions(Struct, frozen=True, kw_only=True):
    """The options of an agent; unset ones are empty or None."""

    topology: Annotated[str, Option(TEXT, "The file of a team that is the agent.", Scope.AGENT)] = ""
    pattern: Annotated[str, Option(TEXT, "The file of a pattern that is the agent.", Scope.AGENT)] = ""
    type: Annotated[str, Option(CLASS, "An agent in Python: the dotted path of a class, or `module:function`.", Scope.AGENT, "type")] = ""
    schemas: Annotated[Mapping[str, Mapping[str, Any]], Option(
        SCHEMAS, "The JSON Schema, as a text, of each output whose type the notation has no word for.", Scope.AGENT)] = {}
    with_: Annotated[Mapping[str, Any], Option(
        VALUES, "Values of the input of a team that is the agent, by name.", Scope.AGENT)] = {}
    ask: Annotated[str, Option(TEXT, "An agent of the system around the team.", Scope.AGENT, "ask")] = ""
    backend: Annotated[str, Option(BACKEND, "The kind of backend; empty: derived from the command.", loop="kind")] = ""
    command: Annotated[tuple[str, ...], Option(COMMAND, "The program and its arguments.")] = ()
    program: Annotated[str, Option(TEXT, "The program to start.", Scope.NOWHERE, "command", default="claude")] = ""
    args: Annotated[tuple[str, ...] | None, Option(TEXTS, "Its arguments; unset: those of the provider.", Scope.NOWHERE, "args")] = None
    prompt_via: Annotated[str, Option(one_of("stdin", "file"), "How a program gets its prompt: on standard input, or as a file.")] = ""
    prompt_mode: Annotated[str, Option(
        one_of("arg", "stdin", "file", "acp"), "How the prompt is passed; empty: the provider's default.",
        Scope.NOWHERE, "prompt_mode", protects=None)] = ""
    options: Annotated[Mapping[str, Any], Option(FURTHER, "Further settings of the backend.")] = {}
    provider: Annotated[str, Option(
        TEXT, "The provider of a model or of an `acp` backend; any label is allowed.", loop="provider", group="provider")] = ""
    model: Annotated[str, Option(TEXT, "The model.", Scope.NOWHERE, "model", protects=None)] = ""
    base_url: Annotated[str, Option(URL, "The address of the model's provider.", group="model")] = ""
    api_key: Annotated[str, Option(API_KEY, "The environment variable with the provider's key, as `${NAME}`.", group="model")] = ""
    tools: Annotated[Mapping[str, str], Option(TOOLS, "Python functions for a model, as `module:function`.", group="model")] = {}
    once: Annotated[tuple[str, ...], Option(
        TEXTS, "Tools that are called at most once for an answer of a model, also after a crash: `Bash`, a function, `mcp.SERVER.TOOL`; `*` is any text.",
        group="model", default=())] = ()
    price_in: Annotated[float | None, Option(PRICE, "The price of a million input tokens in US dollars.", group="model")] = None
    price_out: Annotated[float | None, Option(PRICE, "The price of a million output tokens in US dollars.", group="model")] = None
    mode: Annotated[str, Option(TEXT, "The mode or agent to request from an `acp` provider.", loop="agent", group="mode")] = ""
    trust_all_tools: Annotated[bool | None, Option(
        FLAG, "Approve all permission requests of the agent.",
        loop="trust_all_tools", group="permissions", default=True, protects=later(True, False))] = None
    allow: Annotated[tuple[str, ...] | None, Option(
        TEXTS, "Uses of tools that are allowed without a request: a tool as `Edit`, a command as `Bash(make test)`, or its beginning as `Bash(git log:*)`.",
        loop="allow", group="permissions", default=(), protects=fewer)] = None
    attention: Annotated[str, Option(
        one_of("ask"), "`ask`: a person answers the permission requests of the agent, whatever `trust_all_tools` says.",
        loop="attention", group="permissions", default="", protects=later("", "ask"))] = ""
    attention_timeout: Annotated[float | None, Option(
        SECONDS, "Time until the policy answers for the person.",
        loop="attention_timeout", group="permissions", default=600.0)] = None
    attention_policy: Annotated[str, Option(
        one_of(*ATTENTION_POLICIES), "What happens to a permission request without an answer in time; empty: `deny`.",
        loop="attention_policy", group="permissions", default="deny", protects=later("allow", "park", "fail", "deny"))] = ""
    sandbox: Annotated[str, Option(
        one_of(*SANDBOXES), "Whether agents run in a sandbox; `no-network`: as `required`, and without a network. Empty: `auto`, and `off` for plain commands.",
        Scope.PROCESS, "sandbox", group="process", protects=later("off", "auto", *REQUIRED))] = ""
    stall_after: Annotated[float | None, Option(
        SECONDS_OR_NEVER, "Time without a sign of life after which an agent is listed as stuck; 0: never. Unset: 10 minutes for coding agents, never for others.",
        loop="stall_after", group="process", protects=None)] = None
    gates: Annotated[tuple[tuple[str, ...], ...], Option(
        COMMANDS, "Commands that must succeed before its answer is accepted.",
        group="gates", setting="event_loop.gates", default=())] = ()
    gate_timeout: Annotated[float | None, Option(
        SECONDS, "Time limit of one gate.", group="gates", setting="event_loop.gate_timeout", default=600.0)] = None
    gate_sandbox: Annotated[str, Option(
        one_of(*GATE_SANDBOXES), "Whether gates run in a sandbox: that of the agent whose work they check, never, or always; empty: `same`.",
        group="gates", setting="event_loop.gate_sandbox", default="same")] = ""
    thread: Annotated[bool | None, Option(
        FLAG, "Show the agent the earlier messages of the run's thread, and its answers to them.",
        loop="thread", group="thread", default=False, protects=None)] = None
    thread_budget: Annotated[int | None, Option(
        CHARACTERS, "How many characters of its thread an agent is shown; the oldest are left out.",
        loop="thread_budget", group="thread", default=20_000, protects=None)] = None
    timeout: Annotated[float | None, Option(
        SECONDS, "Time limit of one call.", Scope.HUMAN, "timeout", default=300.0, protects=lower)] = None
    cwd: Annotated[str, Option(TEXT, "The folder in which its process runs.", Scope.PROCESS)] = ""
    env: Annotated[Mapping[str, str], Option(ENV, "Further variables of the environment of its process.", Scope.PROCESS)] = {}
    on_interrupt: Annotated[str, Option(
        one_of(*INTERRUPT_POLICIES), "After an interruption of an attempt: retry it, go on in the conversation of a model or the session of a coding agent, adopt a command, or wait for a person; empty: `resume` for a model, else `retry`.",
        Scope.PROCESS, "on_interrupt", protects=None)] = ""
    worktree_copy: Annotated[tuple[str, ...], Option(
        TEXTS, "Ignored files of the user's checkout, as paths or patterns, that a new work tree of a run gets.",
        Scope.TEAM, setting="worktree.copy", default=())] = ()
    worktree_setup: Annotated[tuple[tuple[str, ...], ...], Option(
        COMMANDS, "Commands that prepare a new work tree of a run, in the sandbox of its agents.",
        Scope.TEAM, setting="worktree.setup", default=())] = ()
    queue: Annotated[str, Option(
        QUEUE, "On a cluster, the queue of the nodes that may perform the turns; empty: `default`.", Scope.PROCESS, "queue")] = ""
# fmt: on


OPTIONS: Mapping[str, Option] = {
    name: annotated.__metadata__[0] for name, annotated in AgentOptions.__annotations__.items()
}
"""All options, by their names in Python."""
TYPES: Mapping[str, Any] = {name: annotated.__origin__ for name, annotated in AgentOptions.__annotations__.items()}
"""The types of their values."""
NAMES = {name.rstrip("_").replace("_", "-"): name for name, option in OPTIONS.items() if option.scope}
"""The names in Python of the options of extension blocks, by key."""
BY_KEY = {key: OPTIONS[name] for key, name in NAMES.items()}
"""The options of extension blocks, by key."""


def keys_of(scope: Scope) -> tuple[str, ...]:
    """The keys that an extension block of *scope* may have."""
    return tuple(key for key, option in BY_KEY.items() if option.scope >= scope)


AGENT_KEYS = keys_of(Scope.AGENT)
"""Keys of an agent."""
TEAM_KEYS = tuple(key for key, option in BY_KEY.items() if option.scope is Scope.TEAM)
"""Keys of the topology's block that are about the team."""
DEFAULT_KEYS = keys_of(Scope.TOPOLOGY)
"""Keys of the topology's block that are for all nodes."""
PROCESS_KEYS = keys_of(Scope.PROCESS)
"""Keys of an action and a gate."""
HUMAN_KEYS = keys_of(Scope.HUMAN)
"""Keys of a human."""
CODING_KEYS = tuple(key for key, option in BY_KEY.items() if option.group not in ("", "provider", "model"))
"""Keys for coding agents; some are also for other backends."""
READERS: Mapping[str, frozenset[str]] = {
    key: frozenset(name for name, entry in REGISTRY.items() if option.group in entry.reads)
    for key, option in BY_KEY.items()
    if option.group
}
"""The backends for each key that not all backends read."""
LOOP_OPTIONS = {option.loop: option for option in OPTIONS.values() if option.loop}
"""The options of a role, by name."""
PLAN_OPTIONS = {option.loop or name: option for name, option in OPTIONS.items() if option.group}
"""The options that are in `options` of a plan's agent, by their names there."""


def readers_of(key: str) -> str:
    """The backends that read *key*, for messages."""
    names = sorted(READERS[key])
    return "models" if names == ["model"] else f"the backends {', '.join(names)}"
