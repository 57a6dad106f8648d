"""Differences between supervised systems."""

import pytest
from bundles import bundle

from coterie.team.formats import read_text
from coterie.team.topology.system.diff import diff_systems
from coterie.team.topology.system.model import System

pytestmark = pytest.mark.once

A = "agent: {name: a, type: m.A}"
B = "agent: {name: b, type: m.B}"


def system(text: str) -> System:
    source = read_text(text, "topology.yaml")
    assert source.topology is not None
    assert source.topology.system is not None
    assert not source.has_errors, source.diagnostics
    return source.topology.system


def changes(old: str, new: str) -> list[str]:
    """Each difference on a line; the way back has as many."""
    there, back = diff_systems(system(old), system(new)), diff_systems(system(new), system(old))
    signs = [each.sign for each in back]
    assert sorted(each.sign for each in there) == sorted({"+": "-", "-": "+", "~": "~"}[sign] for sign in signs)
    return [f"{each.sign} {each.path} {each.old} → {each.new}" for each in there]


def tree(*children: str, rest: str = "") -> str:
    return f"supervision: {{name: root, children: [{', '.join(f'{{{child}}}' for child in children)}]}}\n{rest}"


@bundle(
    ("old", "new"),
    [
        (tree(A), tree(A, rest="transport: {type: in_process}\n")),
        (tree(A), tree(A, rest="plugins: {state: {type: in_memory}, models: []}\ntransport:\n")),
        (tree(A), tree("agent: {type: m.A, mailbox_size: 1000, name: a, shutdown: 5, restart: permanent}")),
        (tree(A), tree("name: a, type: m.A")),
        (tree(A), tree(A, rest="transport: {pub_addr: 'tcp://x:1'}\n")),
        (
            tree(A, rest="transport: {type: nats, servers: 'nats://a'}\n"),
            tree(A, rest="transport: {type: nats, servers: ['nats://a'], jetstream: false}\n"),
        ),
        (
            tree(f"supervisor: {{name: s, strategy: one_for_all, restart_window: 60, children: [{{{A}}}]}}"),
            tree(f"supervisor: {{name: s, strategy: ONE_FOR_ALL, backoff: Constant, children: [{{{A}}}]}}"),
        ),
    ],
)
def test_what_has_the_same_effect_is_no_difference(old: str, new: str) -> None:
    """Case, the order of keys, defaults, forms of one value, and fields of a transport that is not in use."""
    assert changes(old, new) == []


@bundle(
    ("old", "new", "found"),
    [
        (tree(A), tree(A, B), ["+ /root/b  → m.B"]),
        (tree(A, B), tree(B, A), ["~ /root/@children a, b → b, a"]),
        (
            tree(A, B),
            tree(f"supervisor: {{name: s, children: [{{{A}}}]}}", B),
            ["+ /root/s  → ONE_FOR_ONE  restarts: 3/60.0s  backoff: constant", "~ /root/s/a/@supervisor root → s"],
        ),
        (
            tree(A, B),
            tree(A, "command: {name: b, argv: [cat]}"),
            ["~ /root/b/@kind agent → command", "+ /root/b/@argv  → cat", "- /root/b/@type m.B → "],
        ),
        (
            tree("agent: {name: a, type: m.A, config: {x: 1, y: {z: [1, 2]}}}"),
            tree("agent: {name: a, type: m.A, config: {y: {z: [1]}, w: true}}"),
            ["~ /root/a/@config.y.z 1, 2 → 1", "+ /root/a/@config.w  → true", "- /root/a/@config.x 1 → "],
        ),
        (tree(A), tree("agent: {name: a, type: m.A, shutdown: null}"), ["~ /root/a/@shutdown 5.0s → unlimited"]),
        (tree(A), tree(A, rest="entry: a\n"), ["+ /@entry  → a"]),
        (
            tree(A, rest="plugins: {models: [{type: openai}, {type: anthropic}]}\n"),
            tree(A, rest="plugins: {models: [{type: anthropic, config: {api_key: sk-012345}}, {type: openai}]}\n"),
            [
                "+ plugins/models/anthropic/@config.api_key  → ***",
                "~ plugins/models/@order openai, anthropic → anthropic, openai",
            ],
        ),
        (tree(A), tree(A, rest="plugins: {state: {type: sqlite}}\n"), ["~ plugins/state/@type in_memory → sqlite"]),
        (
            tree("type: http_gateway, name: g"),
            tree(
                "type: http_gateway, name: g, config: {middleware: [m.key], "
                "routes: [{path: /v, agent: g, method: GET}]}"
            ),
            [
                "~ /root/g/@config.host 127.0.0.1 → 0.0.0.0",
                "+ /root/g/@config.routes.GET /v  → g call",
                "~ /root/g/@config.middleware none → m.key",
            ],
        ),
        (
            tree(A),
            f"supervision: {{name: main, children: [{{{A}}}]}}\n",
            ["~ /main/@name root → main"],
        ),
    ],
)
def test_a_difference_has_its_path_and_both_values(old: str, new: str, found: list[str]) -> None:
    """Fields begin with `@`; a node is added or removed as a whole."""
    assert changes(old, new) == found
