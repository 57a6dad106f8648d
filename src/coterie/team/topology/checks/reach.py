"""Servers, providers and secrets: complete, unambiguous, and no key in the file."""

import re
from collections.abc import Iterator

from msgspec.structs import replace

from coterie.base.diagnostics import Diagnostic, Span, did_you_mean, error, warning
from coterie.team.topology.block import NOTHING
from coterie.team.topology.checks.facts import UNREADABLE, Facts, listing, mended, title

_VARIABLE = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}")
_SECRET = ("webhook", "auth", "token", "secret", "api-key", "password")
_SCHEMES = ("vault", "op", "awssm", "ssm", "gcpsm", "azurekv")
_SEALED = re.compile(r"ENC\[[A-Za-z0-9_-]+,data:[^\]]+\]")


def keys_stay_outside(facts: Facts) -> Iterator[Diagnostic]:
    """A file refers to keys by environment variable and never contains one."""
    for provider in facts.topology.block("providers").entries:
        if not _VARIABLE.fullmatch(provider.get("api-key", "${KEY}")):
            yield _key(f"'api-key' of provider {provider.name!r}", provider.place("api-key"))
    for interface in facts.topology.block("interfaces").entries:
        for name in _SECRET:
            value = interface.kept.get(name)
            if value is not None and not (isinstance(value, str) and _VARIABLE.search(value)):
                yield _key(f"{name!r} of interface {interface.name!r}", interface.place(name))


def _key(what: str, span: Span | None) -> Diagnostic:
    message = f"{what} must be a reference to an environment variable, not a literal value"
    return replace(error("key-in-file", message, span, 'export it, and write "${NAME}"'), secret=True)


def variables_are_sealed(facts: Facts) -> Iterator[Diagnostic]:
    """A variable marked as secret, sensitive or encrypted has no plain value."""
    for variable in facts.topology.block("env").entries:
        owner, span = f"{variable.name!r} of 'env'", variable.place("value")
        kind, value = variable.get("kind"), variable.get("value")
        if kind == "secret" and value.partition("://")[0] not in _SCHEMES:
            message = f"{owner} names an unknown secret store"
            hint = f'write secret "vault://…"; known stores: {", ".join(_SCHEMES)}'
            yield replace(warning("unknown-secret-store", message, span, hint), secret=True)
        elif kind == "sensitive" and not _VARIABLE.search(value):
            message = f"{owner} is sensitive, but its value is in the file"
            yield replace(warning("sensitive-in-file", message, span, 'export it, and write "${NAME}"'), secret=True)
        elif kind == "encrypted" and not _SEALED.fullmatch(value):
            message = f"{owner} has no known encrypted form"
            hint = 'write encrypted "ENC[METHOD,data:…]"'
            yield replace(warning("bad-encryption", message, span, hint), secret=True)


def providers_are_clear(facts: Facts) -> Iterator[Diagnostic]:
    """At most one provider is the default, and oidc authentication has an issuer."""
    first = None
    for provider in facts.topology.block("providers").entries:
        is_default, auth = provider.get("default", False), provider.get("auth", NOTHING)
        if is_default and first is not None:
            message = f"both {first!r} and {provider.name!r} are the default provider"
            yield error("two-default-providers", message, provider.place("default"), "keep one")
        first = provider.name if is_default and first is None else first
        if auth.get("type") == "oidc" and not auth.get("issuer"):
            message = f"'auth' of provider {provider.name!r} is oidc, but has no issuer"
            yield warning("incomplete-auth", message, auth.place("type"), 'write issuer: "https://…"')


def servers_can_be_reached(facts: Facts) -> Iterator[Diagnostic]:
    """A stdio server has a command, any other a url."""
    for server in facts.topology.block("mcp-servers").entries:
        kind = server.get("type") or ("http" if server.get("url") else "stdio")
        needs = "command" if kind == "stdio" else "url"
        if kind != UNREADABLE and not server.get(needs):
            message = f"the MCP server {server.name!r} of type {kind!r} needs a {needs}"
            example = 'command: "program"' if needs == "command" else 'url: "https://…"'
            yield error("incomplete-server", message, server.place("type"), f"write {example}")


def servers_are_declared(facts: Facts) -> Iterator[Diagnostic]:
    """An agent's MCP servers are declared in `mcp-servers`, if the file declares any."""
    known = [server.name for server in facts.topology.block("mcp-servers").entries]
    for node in facts.agents if known else ():
        for name in node.extra.get("mcp-servers", ()):
            if name not in known:
                message = f"{title(node)} uses the MCP server {name!r}, which is not declared"
                hint = did_you_mean(name, known) or f"declared {'is' if len(known) == 1 else 'are'} {listing(known)}"
                span = node.extra.place("mcp-servers", name)
                yield error("unknown-server", message, span, hint, mended(hint, name, span))
