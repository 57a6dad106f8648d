"""The extras of Coterie, each with its purpose and its libraries."""

from collections.abc import Mapping

from msgspec import Struct


class Extra(Struct, frozen=True):
    """An extra: its purpose, and its libraries, as the name of the distribution by module."""

    purpose: str
    libraries: Mapping[str, str]


EXTRAS: Mapping[str, Extra] = {
    "models": Extra(
        "to use models (`backend: model`)",
        {"pydantic_ai": "pydantic-ai-slim", "anthropic": "anthropic", "openai": "openai", "mcp": "mcp"},
    ),
    "re2": Extra("to match all regular expressions of files in linear time", {"re2": "google-re2"}),
    "claude": Extra(
        "to use Claude Code (`backend: claude-sdk`)",
        {"claude_agent_sdk": "claude-agent-sdk", "genai_prices": "genai-prices"},
    ),
    "acp": Extra("to use agents of editors (`backend: acp`)", {"acp": "agent-client-protocol"}),
    "lsp": Extra(
        "to show diagnostics in editors (`coterie topology lsp`)", {"pygls": "pygls", "lsprotocol": "lsprotocol"}
    ),
    "sql": Extra(
        "to store runs as rows of SQL tables",
        {"sqlmodel": "sqlmodel", "sqlalchemy": "sqlalchemy", "aiosqlite": "aiosqlite", "asyncpg": "asyncpg"},
    ),
    "otel": Extra(
        "to export spans (the plugin `otlp`)",
        {"opentelemetry": "opentelemetry-sdk", "opentelemetry.exporter": "opentelemetry-exporter-otlp-proto-http"},
    ),
    "litellm": Extra("to use models by LiteLLM (the provider `litellm`)", {"litellm": "litellm"}),
    "zmq": Extra("to connect processes by ZeroMQ (`transport: zmq`)", {"zmq": "pyzmq"}),
    "nats": Extra("to connect processes by NATS (`transport: nats`)", {"nats": "nats-py", "nkeys": "nkeys"}),
    "http": Extra(
        "to serve agents by HTTP (`type: http_gateway`)",
        {"granian": "granian", "starlette": "starlette", "jwt": "pyjwt", "prometheus_client": "prometheus-client"},
    ),
    "ui": Extra("to see runs in the browser (`coterie ui`)", {"granian": "granian", "starlette": "starlette"}),
    "http3": Extra("to serve agents by HTTP/3 (experimental)", {"hypercorn": "hypercorn", "aioquic": "aioquic"}),
    "cluster": Extra(
        "to run on a cluster (`coterie submit`)",
        {"temporalio": "temporalio", "asyncpg": "asyncpg", "cryptography": "cryptography"},
    ),
}
"""Every extra for users, by name."""


def extra_with(package: str) -> str:
    """The name of the extra that installs *package*, a module without its submodules; empty if none does."""
    return next((name for name, extra in EXTRAS.items() if package in extra.libraries), "")
