"""The options of an agent with the model backend: provider, settings, tools and servers.

The backend reads `AgentPlan.options` and nothing else. Keys come from the agent's extension, then the topology's, then
the fields of the notation. Tools are named here and imported only when a run needs them.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from coterie.base.diagnostics import Diagnostic, did_you_mean, error, warning
from coterie.team.options.agents import READERS, readers_of
from coterie.team.options.backends import CODING
from coterie.team.options.models import MODEL_SETTINGS
from coterie.team.options.values import VARIABLE
from coterie.team.planning.extension import Extension, Report
from coterie.team.planning.permissions import BUILT_IN, READING, Permissions, read_rules
from coterie.team.planning.providers import Unclear, choose_provider
from coterie.team.topology.block import NOTHING, Block
from coterie.team.topology.checks.facts import listing, title
from coterie.team.topology.model import Agent, Orchestrator, Topology

_ALLOW = {"Write": '"Write"', "Edit": '"Edit"', "Bash": '"Bash(git *)"'} | {name: f'"{name}"' for name in READING}
_MCP = re.compile(r"mcp\.([^.]+)\.(.+)")


def model_options(
    node: Agent | Orchestrator,
    own: Extension,
    default: Extension,
    options: Mapping[str, Any],
    topology: Topology,
    report: Report,
) -> dict[str, Any]:
    """The options of *node* with the model backend; *options* are those of extensions for any backend."""
    owner = title(node)
    made = _fields(node, topology) | _settings(owner, options, node, own, report)
    for name in ("provider", "base_url", "api_key", "price_in", "price_out"):
        for block in (default, own):
            if name == "provider" and block.backend in CODING:  # the label of an agent, not of a model's server
                continue
            if (value := getattr(block, name)) not in ("", None):
                made[name] = value
    if providers := topology.block("providers").entries:
        made["providers"] = {provider.name: _provider(provider) for provider in providers}
    permissions = permissions_of(node, topology)
    tools, servers, built_in = _tools(node, own, default, topology, permissions, report)
    if built_in:
        made["built_in_tools"] = built_in
        made["permissions"] = msgspec.to_builtins(permissions)
    if tools:
        made["python_tools"] = tools
    if servers:
        made["mcp_servers"] = servers
    for name in own.once:
        if not any(fnmatchcase(tool, name) for tool in (*tools, *built_in)) and not _served(name, servers):
            hint = (
                did_you_mean(name, (*tools, *built_in))
                or "name a function, Bash, or a tool of a server: mcp.SERVER.TOOL"
            )
            report(error("no-such-tool", f"{owner} has no tool {name!r} to call once", own.spans.get("once"), hint))
    if once := [*dict.fromkeys((*default.once, *own.once))]:
        made["once"] = once
    chosen = choose_provider(node.model, made)
    if isinstance(chosen, Unclear):
        span = node.spans.get("model") or own.spans.get("backend") or node.span
        report(error("no-provider", f"{owner} uses a model, but {chosen.message}", span, chosen.hint))
    return made


def idle_keys(owner: str, backend: str, own: Extension) -> list[Diagnostic]:
    """A warning for each key of an agent that its *backend* does not read."""
    idle = [key for key, readers in READERS.items() if key in own.given and backend and backend not in readers]
    why = f"but its backend is {backend!r}"
    return [
        warning("idle-key", f"{key!r} of {owner} is for {readers_of(key)}, {why}", own.spans.get(key)) for key in idle
    ]


def _settings(
    owner: str, options: Mapping[str, Any], node: Agent | Orchestrator, own: Extension, report: Report
) -> dict[str, Any]:
    """The settings in `options`, names with underscores; unknown or invalid ones are reported and skipped.

    A pattern file has them among the other entries of an agent, each with its span.
    """
    read: dict[str, Any] = {}
    for given, value in options.items():
        place = node.spans.get(f"extension.options.{given}")
        span, where = (place, "") if place else (own.spans.get("options") or node.span, " in 'options'")
        name = given.replace("-", "_")
        setting = MODEL_SETTINGS.get(name)
        if setting is None:
            known = [key.replace("_", "-") for key in MODEL_SETTINGS]
            hint = did_you_mean(given, known) or f"known settings: {', '.join(known)}"
            report(warning("unknown-key", f"{given!r}{where} of {owner} is not a model setting", span, hint))
        elif not setting.fits(value):
            report(error("bad-value", f"{given!r}{where} of {owner} must be {setting.wanted}, not {value!r}", span))
        else:
            read[name] = list(value) if isinstance(value, tuple) else value
    return read


def _tools(
    node: Agent | Orchestrator,
    own: Extension,
    default: Extension,
    topology: Topology,
    permissions: Permissions,
    report: Report,
) -> tuple[dict[str, str], dict[str, Any], list[str]]:
    """The Python functions, MCP servers and built-in tools offered to *node*.

    Its own functions are always offered. Of the topology's functions, an agent with a list `tools` gets those it names,
    any other agent all. Servers go to agents that name them in `mcp-servers` or `tools`, built-in tools to those that
    name them in `tools`. Disallowed and forbidden tools are never offered, nor tools whose every call would be refused.
    """
    asked = node.tools if isinstance(node, Agent) else None
    extra = node.extra if isinstance(node, Agent) else NOTHING
    refused = read_rules((*permissions.deny, *permissions.ask), forbid=True)
    not_allowed = {*extra.get("disallowed-tools", ()), *(_dotted(rule.tool) for rule in refused)}
    wanted = extra.get("mcp-servers", ())
    shared = {name: path for name, path in default.tools.items() if asked is None or name in asked}
    functions = {name: path for name, path in {**shared, **own.tools}.items() if not _matches(name, not_allowed)}
    servers = {
        server.name: _server(server, asked or (), not_allowed)
        for server in topology.block("mcp-servers").entries
        if (server.name in wanted or _of(server.name, asked or ())) and not _matches(f"mcp.{server.name}", not_allowed)
    }
    built_in = [name for name in BUILT_IN if name in (asked or ()) and name not in functions]
    built_in = [name for name in built_in if not permissions.forbids(name)]
    if waiting := {name: why for name in built_in if (why := permissions.waits(name))}:
        reasons = " and ".join(dict.fromkeys(waiting.values()))
        message = f"{listing(waiting)} of {title(node)} cannot be used: {reasons}"
        hint = "allow calls without approval: settings { allow: [" + ", ".join(_ALLOW[name] for name in waiting) + "] }"
        report(warning("no-such-tool", message, node.spans.get("tools") or node.span, hint))
    missing = [
        name
        for name in asked or ()
        if name not in (*functions, *BUILT_IN) and not _served(name, servers) and not _matches(name, not_allowed)
    ]
    missing += [f"mcp.{name}" for name in wanted if name not in servers]
    if missing:
        it = "it" if len(missing) == 1 else "them"
        message = f"{listing(missing)} of {title(node)} cannot be offered to a model: nothing provides {it}"
        close = did_you_mean(missing[0], (*BUILT_IN, *default.tools))
        hint = close or 'name a function: extensions { coterie { tools { NAME: "module:function" } } }'
        report(warning("no-such-tool", message, node.spans.get("tools") or node.span, hint))
    return functions, servers, [name for name in built_in if name not in waiting]


def permissions_of(node: Agent | Orchestrator, topology: Topology) -> Permissions:
    """The rules of the file about the tools of *node*."""
    settings = topology.block("settings")
    return Permissions(
        mode=node.extra.get("permissions") if isinstance(node, Agent) else "",
        **{name: tuple(settings.get(name, ())) for name in ("allow", "deny", "ask")},
    )


def _server(server: Block, asked: Sequence[str], not_allowed: Collection[str]) -> dict[str, Any]:
    """The plan of *server*; its variables are filled in when it starts."""
    only = _of(server.name, asked)
    return _given(
        {
            "type": server.get("type") or ("http" if server.get("url") else "stdio"),
            "url": server.get("url"),
            "command": server.get("command"),
            "args": list(server.get("args", ())),
            "env": dict(server.get("env", {})),
            "headers": server.kept.get("headers"),
            "only": [] if "*" in only else only,
            "never": _of(server.name, not_allowed),
        }
    )


def _dotted(tool: str) -> str:
    """*tool*, converted to `mcp.SERVER.TOOL` if it is written `mcp__SERVER__TOOL`."""
    return tool.replace("__", ".") if tool.startswith("mcp__") else tool


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _of(server: str, tools: Iterable[str]) -> list[str]:
    """The tools of *server* that *tools* names as `mcp.SERVER.TOOL`."""
    return sorted(found[2] for word in tools if (found := _MCP.fullmatch(word)) and found[1] == server)


def _served(tool: str, servers: Mapping[str, Any]) -> bool:
    found = _MCP.fullmatch(tool)
    return found is not None and found[1] in servers


def _fields(node: Agent | Orchestrator, topology: Topology) -> dict[str, Any]:
    """The settings in fields of *node*, over those that `defaults` gives all agents."""
    found: dict[str, Any] = {}
    for block in (topology.block("defaults"), node.extra if isinstance(node, Agent) else NOTHING):
        named = ((name.replace("-", "_"), value) for name, value in block.fields.items())
        found |= {name: value for name, value in named if name in MODEL_SETTINGS}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in found.items()}


def _provider(provider: Block) -> dict[str, Any]:
    """The plan of a provider, never including a literal key."""
    return _given(
        {
            "api": provider.kept.get("api"),
            "base-url": provider.get("base-url").rstrip("/"),
            "default": provider.get("default"),
            "models": list(provider.get("models", ())),
            "api-key": key if VARIABLE.fullmatch(key := provider.get("api-key")) else "",
        }
    )


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    """The non-empty *values*."""
    return {name: value for name, value in values.items() if value}
