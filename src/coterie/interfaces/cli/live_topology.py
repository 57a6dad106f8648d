"""The state of a running system for `coterie topology show`, from its topology server."""

import json
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPException
from typing import Any

from msgspec.structs import replace

from coterie.team.topology.system.fields import TopologyServerFields, is_loopback
from coterie.team.topology.system.model import System
from coterie.team.topology.system.outline import OutlinedChild, SystemOutline

PATIENCE = 5.0
"""Seconds that the server has to answer; a busy system may take one or two."""
_LIMIT = 16 * 2**20


def with_state(outline: SystemOutline, system: System) -> SystemOutline:
    """*outline* with the state of its nodes if *system* has a topology server, and that answers.

    A server that requires a token shows only that it runs: no secret is sent to a place that a file names.
    """
    servers = [node.fields.config for node in system.root.walk() if isinstance(node.fields, TopologyServerFields)]
    if not servers:
        return outline
    answer = _get(servers[0].host, servers[0].port)
    if answer is None:
        return replace(outline, live=False)
    states = {node["name"]: node for node in _walk(answer.get("root") or {})}
    if states and outline.root.name not in states:
        return replace(outline, live=False)  # another system has the port
    return replace(outline, live=True, root=_with_states(outline.root, states))


def _get(host: str, port: int) -> dict[str, Any] | None:
    """The answer to `/topology`; empty if a token is required, None if the server does not answer as one."""
    host = "127.0.0.1" if host in ("0.0.0.0", "::", "") else host
    connection = HTTPConnection(host, port, timeout=PATIENCE)
    try:
        connection.request("GET", "/topology", headers={"Host": "localhost" if is_loopback(host) else host})
        response = connection.getresponse()
        if response.status == 401 and response.getheader("www-authenticate") == "Bearer":
            return {}
        found = json.loads(response.read(_LIMIT))
    except (OSError, HTTPException, ValueError):
        return None
    finally:
        connection.close()
    return found if isinstance(found, dict) and isinstance(found.get("root"), dict) else None


def _walk(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if isinstance(node.get("name"), str):
        yield node
    for child in node.get("children") or ():
        yield from _walk(child)


def _with_states(node: OutlinedChild, states: dict[str, dict[str, Any]]) -> OutlinedChild:
    state = states.get(node.name, {})
    children = [_with_states(child, states) for child in node.children]
    if node.kind == "dynamic_supervisor":
        children += [_spawned(child) for child in state.get("children") or ()]
    return replace(node, about=(*node.about, *_words(state)), children=tuple(children))


def _spawned(state: dict[str, Any]) -> OutlinedChild:
    about = (str(state.get("type", "")), *_words(state))
    return OutlinedChild(name=str(state.get("name", "")), kind="agent", about=about)


def _words(state: dict[str, Any]) -> Iterator[str]:
    """The unusual properties of a node."""
    if state.get("state", "running") != "running":
        yield f"[{state['state']}]"
    if state.get("restarts"):
        yield f"restarted: {state['restarts']}"
