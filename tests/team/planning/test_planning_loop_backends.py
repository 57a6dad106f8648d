"""The backend that `-b` and the settings choose for a loop, and where a wrong one is reported."""

from pathlib import Path

import pytest
from bundles import bundle
from loops import TWO, folder, pair, plan, planned

from coterie.team.planning.loops.backends import SKIP_PERMISSIONS, of_flag, settle


@bundle(
    ("flag", "kind", "argv"),
    [
        ("/opt/bin/claude", "claude-sdk", ("/opt/bin/claude",)),
        ("./pi", "pi", ("./pi",)),
        ("/opt/kiro-cli", "acp", ("/opt/kiro-cli", "acp")),
        ("acp:kiro", "acp", ("kiro-cli", "acp")),
        ("acp:kiro:/opt/kiro-cli", "acp", ("/opt/kiro-cli", "acp")),
        ("acp:claude-agent-acp", "acp", ("npx", "-y", "@agentclientprotocol/claude-agent-acp")),
        ("acp:mine:agent", "acp", ("agent",)),
        ("/opt/bin/claude-like", "command", ("/opt/bin/claude-like",)),
    ],
)
def test_a_command_is_detected_by_its_name(flag: str, kind: str, argv: tuple[str, ...]) -> None:
    """With or without a path; a provider keeps its own arguments."""
    spec = settle(of_flag(flag))

    assert (spec.kind, spec.argv) == (kind, argv)


def test_a_prompt_mode_of_the_earlier_system(tmp_path: Path) -> None:
    """`file` passes the file of the prompt as standard input, for all roles or for one."""
    made = plan(pair(tmp_path / "pair", 'backend.command = "agent"\nbackend.prompt_mode = "file"\n'))

    assert {agent.prompt_via for agent in made.agents.values()} == {"stdin"}
    own = '[[role]]\nid = "a"\nemits = ["task.complete"]\nbackend_command = "x"\nbackend_prompt_mode = "file"\n'
    made = plan(folder(tmp_path / "own", {"topology.toml": own}))
    assert made.agents["a"].prompt_via == "stdin"


def test_an_unknown_kind_is_reported_once_and_where_it_is(tmp_path: Path) -> None:
    """Not once for each role that has it."""
    settings = '[event_loop]\nmax_iterations = 3\n[backend]\nkind = "comand"\n'
    made, found = planned(pair(tmp_path / "pair", settings))

    assert made is None
    assert [(one.code, Path(one.file).name, one.span and one.span.line) for one in found] == [
        ("unknown-backend", "autoloops.toml", 4)
    ]
    _, found = planned(pair(tmp_path / "own", 'backend.command = "agent"\nreview.kind = "comand"\n'))
    assert [(one.code, one.span and one.span.line) for one in found] == [("unknown-backend", 2)]


@pytest.mark.parametrize(
    ("args", "found"),
    [
        (["--fast"], ["-p", "--fast", SKIP_PERMISSIONS]),
        (["-p", "--fast"], ["-p", "--fast", SKIP_PERMISSIONS]),
        (["--print"], ["--print", SKIP_PERMISSIONS]),
        ([SKIP_PERMISSIONS], ["-p", SKIP_PERMISSIONS]),
    ],
)
def test_claude_gets_the_option_for_print_mode_once(args: list[str], found: list[str]) -> None:
    """Whichever spelling of an option the settings have."""
    spec = settle({"command": "/opt/bin/claude", "args": args})

    assert (spec.kind, list(spec.args)) == ("command", found)


def test_the_agent_of_a_role_is_that_of_agents_toml(tmp_path: Path) -> None:
    """It takes precedence over `backend_agent`, which other roles keep."""
    own = TWO.replace("[handoff]", '[[role]]\nid = "third"\nemits = []\nbackend_agent = "old"\n\n[handoff]')
    own = own.replace('id = "writer"', 'id = "writer"\nbackend_agent = "old"')
    agents = '[preset.pair]\nwriter = "new"\n'
    made = plan(pair(tmp_path / "pair", 'backend.kind = "kiro"\n', topology_toml=own, agents_toml=agents))

    assert {name: made.agents[name].options.get("agent") for name in ("writer", "reader", "third")} == {
        "writer": "new",
        "reader": None,
        "third": "old",
    }
