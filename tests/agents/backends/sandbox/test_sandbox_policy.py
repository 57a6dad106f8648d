"""What the policy of an attempt gives."""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from audited import audited, listings
from bundles import bundle

from coterie.agents.backends.base import Request
from coterie.agents.backends.sandbox import home as sandbox_home
from coterie.agents.backends.sandbox import landlock
from coterie.agents.backends.sandbox.home import READS
from coterie.agents.backends.sandbox.policy import Access, SandboxPolicy, policy_of
from coterie.base import agent_writes
from coterie.base.file_fingerprint import SETTLED
from coterie.base.folder_names import FolderNames
from coterie.team.options import secret_files
from coterie.team.planning.plan import AgentPlan


def attempt(top: Path, env: Mapping[str, str], state: str = "state", **agent: Any) -> SandboxPolicy:
    """The policy of an attempt in a home and a run of its own."""
    home, cwd, run = (top / name for name in ("home", "cwd", f"{state}/runs/r"))
    for made in (home, cwd, run / "attempt"):
        made.mkdir(parents=True, exist_ok=True)
    request = Request(
        run="r",
        turn="a#1",
        attempt=1,
        agent=AgentPlan(name="a", **agent),
        prompt="",
        folder=run / "attempt",
        root=run,
        cwd=cwd,
    )
    return policy_of(request, {"HOME": str(home), **env}, cwd, run / "attempt", request.agent.argv)


@bundle("state", [".coterie", ".autoloop"])
def test_runs_of_both_state_directories_are_hidden(tmp_path: Path, state: str) -> None:
    """An agent of a flow cannot write the journals of loops, nor the other way round."""
    for name in (".coterie", ".autoloop"):
        (tmp_path / "cwd" / name / "runs" / "other").mkdir(parents=True)
    policy = attempt(tmp_path, {}, f"cwd/{state}")

    for name in (".coterie", ".autoloop"):
        assert policy.of(tmp_path / "cwd" / name / "runs" / "other") is Access.HIDE
    assert policy.of(tmp_path / "cwd" / "file") is Access.WRITE


@bundle(
    ("values", "folder", "variable", "login", "obeyed", "session"),
    [
        ({"backend": "claude-sdk"}, ".claude", "CLAUDE_CONFIG_DIR", ".credentials.json", "hooks", "projects"),
        ({"backend": "command", "argv": ("claude",)}, ".claude", "", ".credentials.json", "settings.json", "projects"),
        ({"backend": "pi", "argv": ("/usr/bin/pi",)}, ".pi/agent", "", "auth.json", "models.json", ""),
        ({"backend": "pi"}, ".pi/agent", "PI_CODING_AGENT_DIR", "auth.json", "SYSTEM.md", ""),
        (
            {"backend": "acp", "options": {"provider": "codex"}},
            ".codex",
            "CODEX_HOME",
            "auth.json",
            "rules",
            "sessions",
        ),
        ({"backend": "acp", "argv": ("gemini", "--acp")}, ".gemini", "", "oauth_creds.json", "extensions", "tmp"),
        ({"backend": "acp", "argv": ("opencode", "acp")}, ".local/share/opencode", "", "auth.json", "bin", "storage"),
        ({"backend": "acp", "argv": ("goose",)}, ".local/share/goose", "", "", "data", "sessions"),
        ({"backend": "acp", "argv": ("copilot",)}, ".config/github-copilot", "", "apps.json", "intellij", ""),
    ],
    ids=["claude", "command", "pi", "pi-moved", "codex", "gemini", "opencode", "goose", "copilot"],
)
def test_an_agent_writes_its_login_and_sessions_of_its_run_only(
    tmp_path: Path, values: dict[str, Any], folder: str, variable: str, login: str, obeyed: str, session: str
) -> None:
    """What else is in the folder of its state is read, and what is not there would be private."""
    own = tmp_path / "moved" if variable else tmp_path / "home" / folder
    for name in filter(None, (login, f"{obeyed}/x", f"{session or obeyed}/old")):
        (own / name).parent.mkdir(parents=True, exist_ok=True)
        (own / name).touch()
    before = set(tmp_path.joinpath("home").rglob("*")) if (tmp_path / "home").exists() else set()

    policy = attempt(tmp_path, {variable: str(own)} if variable else {}, **values)

    assert policy.of(own / obeyed / "x") is Access.READ
    assert not login or policy.of(own / login) is Access.WRITE
    assert policy.of(own / "new") is Access.HIDE
    assert policy.private[own].is_relative_to(policy.temporary)
    if session:
        assert policy.of(own / session / "old") is Access.HIDE
        assert policy.private[own / session].is_relative_to(tmp_path / "state" / "runs" / "r" / "agents")
    made = {path for path in (tmp_path / "home").rglob("*") if "cache" not in str(path)}
    assert made - before <= {tmp_path / "home"}


def test_the_python_of_the_owner_is_read_only_in_the_checkout_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The owner and its helpers import from it; any other virtual environment is work."""
    for name in ("own", "other"):
        (tmp_path / "cwd" / name).mkdir(parents=True)
    monkeypatch.setattr("sys.prefix", str(tmp_path / "cwd" / "own"))
    policy = attempt(tmp_path, {})

    assert policy.of(tmp_path / "cwd" / "own" / "lib") is Access.READ
    assert policy.of(tmp_path / "cwd" / "other" / "lib") is Access.WRITE


def test_a_link_among_the_settings_of_an_agent_is_followed(tmp_path: Path) -> None:
    """As in a home whose files are kept elsewhere: the agent finds them by the name that they have there."""
    (own := tmp_path / "home" / ".claude").mkdir(parents=True)
    (kept := tmp_path / "dots" / "settings.json").parent.mkdir()
    kept.write_text("{}")
    (own / "settings.json").symlink_to(kept)
    (own / "CLAUDE.md").write_text("here")

    policy = attempt(tmp_path, {}, backend="claude-sdk")

    place = policy.private[own]
    assert (place / "settings.json").readlink() == kept
    assert policy.of(kept) is Access.READ
    assert not (place / "CLAUDE.md").is_symlink()


def test_beside_a_database_nothing_that_the_user_runs_is_written(tmp_path: Path) -> None:
    """Kiro's folder has scripts that the user's shells read, and programs of its own."""
    own = tmp_path / "home/.local/share/kiro-cli"
    for name in ("data.sqlite3", "shell/bashrc.pre.bash", "tui.js"):
        (own / name).parent.mkdir(parents=True, exist_ok=True)
        (own / name).touch()

    policy = attempt(tmp_path, {}, backend="acp", options={"provider": "kiro"})

    written = {path.name for path in (own, *own.iterdir()) if policy.of(path) is Access.WRITE}
    assert written == {"kiro-cli", "data.sqlite3"}
    assert policy.of(own / "data.sqlite3-wal") is Access.WRITE


def test_an_agent_without_state_begins_in_a_private_folder(tmp_path: Path) -> None:
    """Nothing is made in the home; a variable leads the agent to the private folder, which has its sessions."""
    policy = attempt(tmp_path, {}, backend="claude-sdk")

    assert not (tmp_path / "home" / ".claude").exists()
    place = policy.moved["CLAUDE_CONFIG_DIR"]
    assert place.is_relative_to(policy.temporary)
    assert policy.private[place / "projects"].is_dir()


def test_claude_code_has_a_copy_of_what_it_rewrites(tmp_path: Path) -> None:
    """The user's own file, which names servers of tools, stays as it is."""
    (tmp_path / "home" / ".claude").mkdir(parents=True)
    (tmp_path / "home" / ".claude.json").write_text("{}")

    policy = attempt(tmp_path, {}, backend="claude-sdk")

    own = tmp_path / "home" / ".claude"
    assert policy.moved == {"CLAUDE_CONFIG_DIR": own}
    assert (policy.private[own] / ".claude.json").read_text() == "{}"
    assert policy.of(tmp_path / "home" / ".claude.json") is Access.HIDE


def test_an_agent_has_its_own_login_and_no_other(tmp_path: Path) -> None:
    """The folders of other agents are hidden."""
    logins = [".claude/.credentials.json", ".codex/auth.json", ".pi/agent/auth.json"]
    for name in logins:
        (tmp_path / "home" / name).parent.mkdir(parents=True)
        (tmp_path / "home" / name).touch()
    for provider, own in zip(("claude-agent-acp", "codex", "pi"), logins, strict=True):
        policy = attempt(tmp_path, {}, backend="acp", argv=("agent",), options={"provider": provider})
        found = {name: policy.of(tmp_path / "home" / name) for name in logins}
        assert found == {name: Access.WRITE if name == own else Access.HIDE for name in logins}


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


def test_landlock_names_what_it_cannot_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files within a folder that may be written, sockets, the network, and signals before version 6."""
    monkeypatch.setattr(landlock.launcher, "version", lambda: 5)
    monkeypatch.setattr(landlock, "_reachable", lambda path: [str(path)] * (path == Path("/run/docker.sock")))
    rules = {Path("/"): Access.READ, tmp_path: Access.WRITE}
    rules |= {tmp_path / name: Access.READ for name in "abcd"} | {tmp_path / "key": Access.HIDE}

    assert landlock.gaps(SandboxPolicy(rules, tmp_path, {}, {}, {}, network=False)) == [
        f"it cannot be kept from writing {tmp_path}/a, {tmp_path}/b, {tmp_path}/c and 1 more",
        f"it cannot be kept from reading and writing {tmp_path}/key",
        "it cannot be kept from using /run/docker.sock",
        "it cannot be kept from the network",
        "it cannot be kept from sending signals to other processes",
    ]
    monkeypatch.setattr(landlock.launcher, "version", lambda: 6)
    monkeypatch.setattr(landlock, "_reachable", lambda path: [])
    assert landlock.gaps(SandboxPolicy({Path("/"): Access.READ, tmp_path: Access.WRITE}, tmp_path, {}, {}, {})) == []


def test_landlock_grants_what_is_beside_something_hidden(tmp_path: Path) -> None:
    """However many files that are: they are listed by the process itself, for a command line has no room for them."""
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "key").write_text("SECRET")
    beside = {str(tmp_path / f"{'x' * 60}{n}") for n in range(200)}
    for name in beside:
        Path(name).touch()
    policy = SandboxPolicy({Path("/"): Access.READ, tmp_path / ".ssh": Access.HIDE}, tmp_path / "tmp", {}, {}, {})
    words = landlock.command(policy, ["true"], tmp_path)
    granted = dict(landlock.launcher.granted(json.loads(words[3])["rules"]))

    assert max(map(len, words)) < 10_000
    assert beside <= granted.keys()
    assert not [path for path in granted if Path(path) in (tmp_path / ".ssh" / "key").parents]


@pytest.mark.parametrize("exists", [True, False])
def test_what_agents_wrote_is_noted_where_none_can_change_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exists: bool
) -> None:
    """Even if its working directory has the user's state, as where the home of a container is the project."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "cwd" / "state"))
    if exists:
        agent_writes.trust(tmp_path, b"")
    policy = attempt(tmp_path, {})

    assert policy.of(tmp_path / "cwd") is Access.WRITE
    assert policy.of(tmp_path / "cwd" / "state" / "coterie" / agent_writes.FILE) is Access.HIDE
    assert "cannot be kept from reading and writing" in str(landlock.gaps(policy))


def test_a_toolchain_that_comes_later_is_visible_to_the_next_attempt(tmp_path: Path) -> None:
    """The names in a home are remembered until it changes."""
    cargo = tmp_path / "home" / ".cargo" / "bin"
    assert attempt(tmp_path, {}).of(cargo) is Access.HIDE
    cargo.mkdir(parents=True)
    assert attempt(tmp_path, {}).of(cargo) is Access.READ


def test_a_home_that_cannot_be_listed_has_its_toolchains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program enters a folder of a known name all the same."""

    def refused(folder: object) -> tuple[str, ...]:
        raise PermissionError(folder)

    (tmp_path / "home" / ".cargo" / "bin").mkdir(parents=True)
    monkeypatch.setattr(sandbox_home._NAMES, "of", refused)
    assert attempt(tmp_path, {}).of(tmp_path / "home" / ".cargo" / "bin") is Access.READ


def test_a_home_is_listed_once_until_it_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many names it has; a secret that comes later is hidden from the next attempt."""
    for module, wanted in ((secret_files, lambda name: True), (sandbox_home, sandbox_home._TOPS.__contains__)):
        names = FolderNames(wanted, now=lambda: time.time_ns() + 2 * SETTLED)
        monkeypatch.setattr(module, "_NAMES", names)
    home = tmp_path / "home"
    attempt(tmp_path, {})  # which makes caches in it
    attempt(tmp_path, {})
    with audited() as calls:
        attempt(tmp_path, {})
        attempt(tmp_path, {})
    assert listings(calls, home) == 0
    (home / ".netrc").write_text("x")
    monkeypatch.setenv(READS, str(home))
    policy = attempt(tmp_path, {})
    assert (policy.of(home), policy.of(home / ".netrc")) == (Access.READ, Access.HIDE)
