"""What agents work with: tools, servers, skills, providers of models, and what they are allowed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from coterie.topology.blocks.base import Block, Entry


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool(Entry):
    """A script that agents may call by name."""

    script: str = ""
    args: tuple[str, ...] = ()
    description: str = ""
    lang: str = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class McpServer(Entry):
    """A server of tools that speaks the Model Context Protocol.

    Attributes:
        type: `stdio` (it is started by *command*), `http` or `sse` (it listens at *url*).
        env: Further environment variables, as written.
    """

    type: str = ""
    url: str = ""
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill(Entry):
    """Scripts, knowledge and instructions under one name."""

    description: str = ""
    scripts: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    prompt: str = ""
    disable_model_invocation: bool = False
    user_invocable: bool = False
    context: str = ""
    agent: str = ""
    allowed_tools: tuple[str, ...] = ()
    extensions: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Auth(Block):
    """How a provider knows who asks."""

    type: str = ""
    issuer: str = ""
    audience: str = ""
    token_url: str = ""
    client_id: str = ""
    scopes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider(Entry):
    """Who serves models. What the notation does not know of it is in `kept`.

    Attributes:
        api_key: `${NAME}` of an environment variable.
    """

    api_key: str = ""
    base_url: str = ""
    models: tuple[str, ...] = ()
    default: bool = False
    auth: Auth | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(Block):
    """What tools may do unasked, never, or after asking."""

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    sandbox: str = ""
    fallback_chain: tuple[str, ...] = ()
