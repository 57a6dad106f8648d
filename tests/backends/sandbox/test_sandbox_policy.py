"""What the policy of an attempt gives."""

from pathlib import Path

import pytest

from coterie.backends.base import Request
from coterie.backends.sandbox.policy import Access, policy_of
from coterie.planning.plan import AgentPlan


@pytest.mark.parametrize(
    ("values", "env", "written"),
    [
        ({"backend": "claude-sdk"}, {}, [".claude"]),
        ({"backend": "claude-sdk"}, {"CLAUDE_CONFIG_DIR": "{home}/moved"}, [".claude", "moved"]),
        ({"backend": "pi", "argv": ("/usr/bin/pi",)}, {}, [".pi"]),
        ({"backend": "acp", "options": {"provider": "codex"}}, {}, [".codex"]),
        ({"backend": "acp", "argv": ("opencode", "acp")}, {}, [".config/opencode", ".local/share/opencode"]),
        ({"backend": "command", "argv": ("pipeline",)}, {}, []),
    ],
)
def test_an_agent_writes_its_own_state_also_at_its_first_start(
    tmp_path: Path, values: dict[str, object], env: dict[str, str], written: list[str]
) -> None:
    """The folders of its state are made, since nothing can be made in the home; files of the user's are only read."""
    home, cwd, folder = (tmp_path / name for name in ("home", "cwd", "attempt"))
    for made in (home, cwd, folder):
        made.mkdir()
    (home / ".bashrc").touch()
    agent = AgentPlan(**{"name": "a", **values})  # type: ignore[arg-type]
    request = Request(run="r", turn="a#1", attempt=1, agent=agent, prompt="", folder=folder, cwd=cwd)

    given = {name: value.format(home=home) for name, value in env.items()}
    env = {"HOME": str(home), "XDG_CACHE_HOME": str(tmp_path / "cache"), **given}
    policy = policy_of(request, env, cwd, folder, agent.argv)

    allowed = [
        str(path.relative_to(home))
        for path, what in policy.access.items()
        if what is Access.WRITE and home in path.parents
    ]
    assert set(written) <= set(allowed) if written else not allowed
    assert policy.of(home / ".bashrc") is Access.READ


@pytest.mark.parametrize(
    ("provider", "own"),
    [("claude-agent-acp", ".claude/.credentials.json"), ("codex", ".codex/auth.json"), ("pi", ".pi/agent/auth.json")],
)
def test_an_agent_has_its_own_login_and_no_other(tmp_path: Path, provider: str, own: str) -> None:
    """It reads its login, and replaces it when that is renewed, which takes a folder that can be written."""
    logins = [".claude/.credentials.json", ".codex/auth.json", ".pi/agent/auth.json"]
    home, cwd, folder = (tmp_path / name for name in ("home", "cwd", "attempt"))
    for made in (cwd, folder, *((home / name).parent for name in logins)):
        made.mkdir(parents=True)
    for name in logins:
        (home / name).touch()
    agent = AgentPlan(name="a", backend="acp", argv=("agent",), options={"provider": provider})
    request = Request(run="r", turn="a#1", attempt=1, agent=agent, prompt="", folder=folder, cwd=cwd)

    policy = policy_of(request, {"HOME": str(home)}, cwd, folder, agent.argv)

    assert home / own not in policy.access
    assert {name: policy.of(home / name) for name in logins} == {
        name: Access.WRITE if name == own else Access.HIDE for name in logins
    }


@pytest.mark.parametrize("moved", ["", "moved"])
def test_pi_can_leave_no_extension_where_none_were(tmp_path: Path, moved: str) -> None:
    """Its settings, extensions and providers are the user's, too; its sessions and its login are its own."""
    home, cwd, folder = (tmp_path / name for name in ("home", "cwd", "attempt"))
    own = tmp_path / moved if moved else home / ".pi" / "agent"
    for made in (own, cwd, folder):
        made.mkdir(parents=True)
    (own / "models.json").touch()
    agent = AgentPlan(name="a", backend="pi", argv=("pi",))
    request = Request(run="r", turn="a#1", attempt=1, agent=agent, prompt="", folder=folder, cwd=cwd)
    env = {"HOME": str(home)} | ({"PI_CODING_AGENT_DIR": str(own)} if moved else {})

    policy = policy_of(request, env, cwd, folder, agent.argv)

    for name in ("settings.json", "extensions/x.ts", "skills/x", "prompts/x.md", "AGENTS.md", "models.json"):
        assert policy.of(own / name) is Access.READ
    assert {policy.of(own / name) for name in ("sessions", "auth.json", "bin/rg")} == {Access.WRITE}


def test_claude_code_can_leave_no_hooks_where_none_were(tmp_path: Path) -> None:
    """The user's settings and commands are only read, also those that did not exist before."""
    home, cwd, folder = (tmp_path / name for name in ("home", "cwd", "attempt"))
    for made in (home, cwd, folder):
        made.mkdir()
    agent = AgentPlan(name="a", backend="claude-sdk", argv=())
    request = Request(run="r", turn="a#1", attempt=1, agent=agent, prompt="", folder=folder, cwd=cwd)

    policy = policy_of(request, {"HOME": str(home)}, cwd, folder, agent.argv)

    assert policy.of(home / ".claude" / "projects") is Access.WRITE
    for name in ("settings.json", "commands", "hooks", "agents", "CLAUDE.md"):
        assert (home / ".claude" / name).exists()
        assert policy.of(home / ".claude" / name) is Access.READ
    assert (home / ".claude" / "settings.json").read_text() == "{}\n"


def test_a_program_in_a_hidden_folder_is_seen_with_its_packages(tmp_path: Path) -> None:
    """npm puts it beside the packages that it loads; nothing else of a temporary folder is shown."""
    cwd, folder, modules = (tmp_path / name for name in ("cwd", "attempt", "agents/node_modules"))
    for made in (cwd, folder, modules / ".bin", modules / "agent", modules / "needed"):
        made.mkdir(parents=True)
    (modules / "agent" / "cli.js").touch()
    program = modules / ".bin" / "agent"
    program.symlink_to("../agent/cli.js")
    agent = AgentPlan(name="a", backend="command", argv=(str(program),))
    request = Request(run="r", turn="a#1", attempt=1, agent=agent, prompt="", folder=folder, cwd=cwd)

    policy = policy_of(request, {"HOME": str(tmp_path / "home")}, cwd, folder, agent.argv)

    assert policy.of(modules / "needed") is Access.READ
    assert policy.of(modules.parent / "other") is policy.of(tmp_path)
