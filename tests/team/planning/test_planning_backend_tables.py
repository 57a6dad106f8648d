"""The tables of the pages about backends: each field of a role and of a review, `agents.toml`, arguments, time-outs."""

from pathlib import Path
from typing import Any

import pytest
from bundles import bundle
from loops import folder, plan

from coterie.team.planning.plan import AgentPlan

BASE: dict[str, Any] = {
    "kind": "acp",
    "provider": "kiro",
    "command": "kiro-cli",
    "args": ["acp"],
    "timeout_ms": 1000,
    "trust_all_tools": True,
    "agent": "base",
    "model": "small",
    "sandbox": "auto",
    "attention": "ask",
    "attention_timeout_ms": 2000,
    "attention_policy": "deny",
    "stall_after_ms": 3000,
    "on_interrupt": "ask",
}
OTHER: dict[str, Any] = {
    "kind": "pi",
    "provider": "mine",
    "command": "/opt/agent",
    "args": ["--fast", "--loud"],
    "timeout_ms": 9000,
    "trust_all_tools": False,
    "agent": "other",
    "model": "large",
    "sandbox": "required",
    "attention_timeout_ms": 7000,
    "attention_policy": "park",
    "stall_after_ms": 0,
    "on_interrupt": "resume",
}
"""What a role, or a review, says in its place; `attention` has one word."""
ROLES = """\
completion = "done"

[[role]]
id = "plain"
emits = ["done"]

[[role]]
id = "own"
emits = ["done"]
"""
EXAMPLE = """\
[[role]]
id = "planner"
emits = ["tasks.ready"]

[[role]]
id = "builder"
emits = ["review.ready"]
backend_kind = "acp"
backend_provider = "kiro"
backend_command = "kiro-cli"
backend_args = ["acp"]
backend_model = "anthropic/claude-sonnet-4"

[[role]]
id = "critic"
emits = ["task.complete", "review.rejected"]
backend_kind = "acp"
backend_provider = "claude-agent-acp"
backend_command = "npx"
backend_args = ["-y", "@agentclientprotocol/claude-agent-acp"]
backend_model = "anthropic/claude-opus-4"

[handoff]
"loop.start" = ["planner"]
"tasks.ready" = ["builder"]
"review.ready" = ["critic"]
"review.rejected" = ["builder"]
"""


def lines(prefix: str, values: dict[str, Any]) -> str:
    def toml(value: Any) -> str:
        return str(value).lower() if isinstance(value, bool) else repr(value)

    return "".join(f"{prefix}{name} = {toml(value)}\n" for name, value in values.items())


def loop(path: Path, settings: str, roles: str = ROLES, agents: str = "") -> Path:
    files = {"topology.toml": roles, "autoloops.toml": settings} | ({"agents.toml": agents} if agents else {})
    return folder(path / "team", files)


def shown(agent: AgentPlan) -> dict[str, Any]:
    """*agent* in the words of the settings."""
    options = agent.options
    return {
        "kind": agent.backend,
        "provider": options.get("provider", ""),
        "command": agent.argv[0],
        "args": list(agent.argv[1:]),
        "timeout_ms": (agent.timeout or 0) * 1000,
        "trust_all_tools": options["trust_all_tools"],
        "agent": options.get("agent", ""),
        "model": agent.model,
        "sandbox": options.get("sandbox", ""),
        "attention": options.get("attention", ""),
        "attention_timeout_ms": options.get("attention_timeout", 0) * 1000,
        "attention_policy": options.get("attention_policy", ""),
        "stall_after_ms": options["stall_after"] * 1000,
        "on_interrupt": agent.on_interrupt,
    }


NEITHER = {"provider": "", "attention": "", "attention_timeout_ms": 0, "attention_policy": ""}
"""What an agent of pi does not have."""


@bundle("field", OTHER)
def test_a_role_overrides_one_field_and_keeps_the_others(tmp_path: Path, field: str) -> None:
    """Arguments are replaced, not merged; the other role is as the settings say."""
    roles = ROLES + lines("backend_", {field: OTHER[field]})
    agents = plan(loop(tmp_path, lines("backend.", BASE), roles)).agents

    assert shown(agents["plain"]) == BASE
    assert shown(agents["own"]) == BASE | {field: OTHER[field]} | (NEITHER if field == "kind" else {})


@bundle("field", OTHER)
def test_a_review_overrides_one_field_and_falls_back_to_the_others(tmp_path: Path, field: str) -> None:
    """But for its time-out, which has a default: large ones of tasks do not make reviews hang."""
    settings = lines("backend.", BASE) + lines("review.", {field: OTHER[field]})
    agents = plan(loop(tmp_path, settings)).agents

    usual = BASE | {"timeout_ms": 300_000}
    assert shown(agents["@review"]) == usual | {field: OTHER[field]} | (NEITHER if field == "kind" else {})
    assert shown(agents["plain"]) == BASE


def test_the_worked_example_of_the_page(tmp_path: Path) -> None:
    """A planner on pi, a builder on kiro, a critic on Claude's adapter."""
    agents = plan(loop(tmp_path, 'backend.kind = "pi"\nbackend.command = "pi"\n', EXAMPLE)).agents

    assert {name: (one.backend, one.argv, one.model) for name, one in agents.items() if name != "@review"} == {
        "planner": ("pi", ("pi",), ""),
        "builder": ("acp", ("kiro-cli", "acp"), "anthropic/claude-sonnet-4"),
        "critic": ("acp", ("npx", "-y", "@agentclientprotocol/claude-agent-acp"), "anthropic/claude-opus-4"),
    }
    assert [agents[name].options.get("provider") for name in ("builder", "critic")] == ["kiro", "claude-agent-acp"]


LEVELS = (
    ('[preset.team]\nown = "1"\n', "1"),
    ('[preset.team]\ndefault = "2"\n', "2"),
    ('[defaults]\nagent = "3"\n', "3"),
    ("", "role"),
)


@pytest.mark.parametrize("first", range(len(LEVELS)))
def test_the_most_specific_agent_of_the_map_wins(tmp_path: Path, first: int) -> None:
    """The role's, the preset's, the default; then that of the role itself, and that of the settings."""
    given = [text for text, _ in LEVELS[first:]]
    tables = "[preset.team]\n" + "".join(text.removeprefix("[preset.team]\n") for text in given if "preset" in text)
    agents = tables + "".join(text for text in given if "defaults" in text)
    made = plan(loop(tmp_path, lines("backend.", BASE), ROLES + 'backend_agent = "role"\n', agents)).agents

    assert made["own"].options["agent"] == LEVELS[first][1]
    below = next((value for text, value in LEVELS[max(first, 1) : 3] if text in given), "base")
    assert made["plain"].options["agent"] == below


@pytest.mark.parametrize("agents", ['[defaults]\nagent = "mapped"\n', '[preset.team]\ndefault = "mapped"\n'])
def test_without_roles_the_map_does_not_apply(tmp_path: Path, agents: str) -> None:
    """The iteration has the settings, and nothing over them."""
    made = plan(loop(tmp_path, lines("backend.", BASE), 'completion = "done"\n', agents)).agents

    assert shown(made["@loop"]) == BASE


@bundle(
    ("flag", "argv"),
    [
        ("pi", ("pi", "--x", "y")),
        ("kiro", ("kiro-cli", "acp", "--x", "y")),
        ("claude-agent-acp", ("npx", "-y", "@agentclientprotocol/claude-agent-acp", "--x", "y")),
        ("acp:mine:/opt/agent", ("/opt/agent", "--x", "y")),
        ("codex", ("codex", "--x", "y")),
    ],
)
def test_words_behind_the_dashes_are_added_to_the_backend_of_all(
    tmp_path: Path, flag: str, argv: tuple[str, ...]
) -> None:
    """A role with arguments has its own; configured ones of all go with `-b`."""
    roles = ROLES + 'backend_args = ["own"]\n'
    made = plan(loop(tmp_path, 'backend.args = ["gone"]\n', roles), backend=flag, args=("--x", "y")).agents

    assert made["plain"].argv == argv
    assert made["own"].argv == (argv[0], "own")


@bundle(
    ("settings", "role", "seconds"),
    [
        ("", "", 300.0),
        ("backend.timeout_ms = 1000\n", "", 1.0),
        ('backend.timeout_ms = 1000\nevent_loop.max_iteration_runtime = "1m"\n', "", 60.0),
        ('event_loop.max_iteration_runtime = "1m"\n', "backend_timeout_ms = 5000\n", 5.0),
        ("backend.timeout_ms = 1000\n", "backend_timeout_ms = 5000\n", 5.0),
    ],
)
def test_the_time_of_a_turn(tmp_path: Path, settings: str, role: str, seconds: float) -> None:
    """The role's, then that of iterations, then that of the backend, then the default."""
    made = plan(loop(tmp_path, f'backend.kind = "pi"\n{settings}', ROLES + role)).agents

    assert made["own"].timeout == seconds
    assert made["@review"].timeout == 300.0
