"""Read the messages of agents that speak ACP.

Messages are read leniently, since adapters differ and change. Forms beyond the protocol were seen with claude-agent-acp
0.49 and codex-acp 2.6.
"""

import json
import shlex
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from coterie.agents.backends import reported

NO_METHOD = -32601
AUTH_REQUIRED = -32000
_KINDS = {
    "authentication_failed": "auth",
    "oauth_org_not_allowed": "auth",
    "billing_error": "quota",
    "rate_limit": "rate_limited",
    "overloaded": "transient",
    "server_error": "transient",
    "model_not_found": "not_found",
}
"""Kinds of failures by the `errorKind` that an adapter copies from the agent."""
_ALLOW, _REJECT = ("allow_once", "allow_always"), ("reject_once", "reject_always")


class AgentError(Exception):
    """The agent answered a request with an error."""

    def __init__(self, method: str, code: int, message: str, data: Any = None) -> None:
        self.method, self.code, self.data = method, code, data
        details = json.dumps(data, ensure_ascii=False) if data else ""
        super().__init__(f"{message} {details}".rstrip())

    @property
    def kind(self) -> str:
        """The kind of failure that the error names; empty if its text must be classified."""
        if self.code == AUTH_REQUIRED:
            return "auth"
        return _KINDS.get(str(self.data.get("errorKind")), "") if isinstance(self.data, dict) else ""


class AgentAbout(Struct, frozen=True, kw_only=True):
    """The agent's self-description in its answer to `initialize`.

    Attributes:
        version: The version of the protocol.
        resumes, loads: Whether it has `session/resume`, `session/load`.
        steers: Whether it has `_session/steering`.
        queues: Whether it accepts a prompt while it works, and reads it after its current step.
        logins: How to log in, in a few words each.
    """

    version: int = 1
    resumes: bool = False
    loads: bool = False
    steers: bool = False
    queues: bool = False
    logins: tuple[str, ...] = ()

    @classmethod
    def read(cls, answer: Mapping[str, Any]) -> "AgentAbout":
        """Read the answer to `initialize`."""
        able = _object(answer, "agentCapabilities")
        methods = [one for one in answer.get("authMethods") or () if isinstance(one, dict)]
        return cls(
            version=_number(answer.get("protocolVersion"), 1),
            resumes=_object(able, "sessionCapabilities").get("resume") is not None,
            loads=able.get("loadSession") is True,
            steers=_object(_object(answer, "_meta"), "steering").get("supported") is True,
            queues=_object(_object(able, "_meta"), "claudeCode").get("promptQueueing") is True,
            logins=tuple(": ".join(filter(None, (one.get("name"), one.get("description")))) for one in methods),
        )


class SessionSetting(Struct, frozen=True, kw_only=True):
    """The request that sets a mode or a model, and the values that the agent offers."""

    method: str
    params: dict[str, Any]
    offers: tuple[str, ...] = ()


def mode_setting(session: Mapping[str, Any], mode: str) -> SessionSetting:
    """The request to set the mode of *session*, the answer that opened it."""
    offered = _ids(_object(session, "modes").get("availableModes"), "id")
    if not offered and (setting := _option(session, "mode", mode)) is not None:
        return setting
    return SessionSetting(method="session/set_mode", params={"modeId": mode}, offers=offered)


def model_setting(session: Mapping[str, Any], model: str) -> SessionSetting:
    """The request to set the model of *session*: by its option, else by the older request."""
    if (setting := _option(session, "model", model)) is not None:
        return setting
    offered = _ids(_object(session, "models").get("availableModels"), "modelId")
    return SessionSetting(method="session/set_model", params={"modelId": model}, offers=offered)


def _option(session: Mapping[str, Any], category: str, value: str) -> SessionSetting | None:
    for option in session.get("configOptions") or ():
        if isinstance(option, dict) and category in (option.get("category"), option.get("id")):
            choices = [one for one in option.get("options") or () if isinstance(one, dict)]
            flat = [each for one in choices for each in one.get("options") or (one,)]
            params = {"configId": option.get("id"), "value": value}
            return SessionSetting(method="session/set_config_option", params=params, offers=_ids(flat, "value"))
    return None


def chosen_option(options: Any, allowed: bool) -> str | None:
    """The id of the option that allows or rejects a permission request, by its kind; preferably only once."""
    ids = {one.get("kind"): one.get("optionId") for one in options or () if isinstance(one, dict)}
    return next((ids[kind] for kind in (_ALLOW if allowed else _REJECT) if kind in ids), None)


class ToolCall(Struct, kw_only=True):
    """A tool call, as described by its successive messages.

    Attributes:
        detail: Its input.
        command: The shell command that it runs, if shown; some agents show it only in the title.
        kind: The agent's kind of the tool.
        is_certain: Whether name or command come from more than a title.
        state: `finished` or `failed` once it has ended.
    """

    name: str = ""
    detail: str = ""
    command: str = ""
    kind: str = ""
    is_certain: bool = False
    result: str = ""
    state: str = ""

    def add(self, update: Mapping[str, Any]) -> None:
        """Apply *update*."""
        named = _object(_object(update, "_meta"), "claudeCode").get("toolName")
        title = update.get("title")
        self.name = str(named or self.name or title or update.get("kind") or "")
        self.kind = str(update.get("kind") or self.kind)
        raw = update.get("rawInput")
        if title and update.get("kind") == "execute":
            self.command = self.command or str(title).strip("`")
        if isinstance(raw, dict) and raw:
            self.command = _command(raw) or self.command
            self.is_certain = self.kind == "execute" if _command(raw) else bool(named) and not self.command
            self.detail = _command(raw) or json.dumps(raw, ensure_ascii=False)
        elif title and raw is None and str(title) != self.name:
            self.detail = self.detail or str(title)
        self.result = _output(update) or self.result
        match update.get("status"):
            case "completed":
                self.state = "finished"
            case "failed":
                self.state = "failed"


def text_of(content: Any) -> str:
    """The text of a content block."""
    return str(content.get("text") or "") if isinstance(content, dict) else ""


def tokens_of(answer: Mapping[str, Any]) -> tuple[int, int, int]:
    """The input, output and cached tokens of a turn; some agents report the input without cached tokens."""
    usage = _object(answer, "usage")
    read, written = _number(usage.get("cachedReadTokens")), _number(usage.get("cachedWriteTokens"))
    given, output = _number(usage.get("inputTokens")), _number(usage.get("outputTokens"))
    included = given + output == _number(usage.get("totalTokens")) and read + written > 0
    return given + (0 if included else read + written), output, read


def context_of(update: Mapping[str, Any]) -> tuple[int, int]:
    """The tokens in the context window, and its size, from a usage update."""
    return _number(update.get("used")), _number(update.get("size"))


def cost_of(update: Mapping[str, Any]) -> float | None:
    """The session's cost so far in US dollars, if a usage update has it."""
    cost = _object(update, "cost")
    amount = cost.get("amount")
    return reported.amount(amount) if amount is not None and cost.get("currency", "USD") == "USD" else None


def reset_of(update: Mapping[str, Any]) -> float | None:
    """Until when requests are rejected, in Unix seconds, from a usage update.

    0: they are accepted; None: the update does not say.
    """
    limit = _object(_object(update, "_meta"), "_claude/rateLimit")
    if not limit:
        return None
    return float(_number(limit.get("resetsAt"))) if limit.get("status") == "rejected" else 0.0


def _command(raw: Mapping[str, Any]) -> str:
    command = raw.get("command") or raw.get("cmd")
    return shlex.join(map(str, command)) if isinstance(command, list) else command if isinstance(command, str) else ""


def _output(update: Mapping[str, Any]) -> str:
    raw = update.get("rawOutput")
    if raw is not None:
        return raw if isinstance(raw, str) else json.dumps(raw, ensure_ascii=False)
    content = update.get("content")
    parts = content if isinstance(content, list) else ()
    return " ".join(filter(None, (text_of(one.get("content")) for one in parts if isinstance(one, dict))))


def _object(value: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = value.get(key)
    return found if isinstance(found, dict) else {}


def _number(value: Any, default: int = 0) -> int:
    return int(reported.amount(value)) if isinstance(value, int | float) else default


def _ids(values: Any, key: str) -> tuple[str, ...]:
    return tuple(str(one[key]) for one in values or () if isinstance(one, dict) and key in one)
