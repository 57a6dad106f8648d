"""What doctor finds of coding agents: real programs, which answer, do not answer, or do not end."""

import os
import time
from pathlib import Path

import msgspec
import pytest

from coterie.agents.backends.coding import probes as agent_probes
from coterie.agents.backends.coding.probes import AgentProbe, probes
from coterie.team.options.backends import CODING

CLAUDE = """\
#!/bin/sh
case "$1" in
  --version) echo '2.1.0 (Claude Code)' ;;
  auth) echo '{"loggedIn": %s, "email": "ada@example.org"}' ;;
esac
"""
KIRO = """\
#!/bin/sh
read line
case "$line" in *'"method": "initialize"'*)
  echo '{"jsonrpc": "2.0", "id": 0, "result": {"agentInfo": {"name": "kiro", "version": "1.2"}}}' ;;
esac
sleep 600
"""


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that is the whole PATH."""
    for program in ("sh", "sleep"):
        (tmp_path / program).symlink_to(f"/bin/{program}")
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in [one for one in os.environ if one.endswith(("_API_KEY", "_AUTH_TOKEN", "_OAUTH_TOKEN"))]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(agent_probes, "DEADLINE", 60.0)
    return tmp_path


def install(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)


def found(kind: str) -> AgentProbe:
    return next(one for one in probes() if one.kind == kind)


@pytest.mark.extras("claude")
@pytest.mark.parametrize(
    ("logged_in", "usable", "said"),
    [("true", True, ", logged in"), ("false", False, ", not logged in"), ('"x"', True, ", login not known, but ")],
)
def test_claude_says_its_version_and_whether_it_is_logged_in(
    programs: Path, own_home: Path, logged_in: str, usable: bool, said: str
) -> None:
    """With what to do, and without anything about the account."""
    install(programs, "claude", CLAUDE % logged_in)
    credentials(own_home / ".claude" / ".credentials.json", days=3)
    one = found("claude-sdk")

    assert (one.usable, one.next != "") == (usable, not usable)
    assert one.found.startswith(f"2.1.0 (Claude Code){said}")
    assert "; abilities: steer, " in one.found
    assert "ada" not in one.found


def credentials(path: Path, days: int) -> None:
    """A file of credentials, so many days old."""
    path.parent.mkdir(parents=True)
    path.write_text('{"token": "hush-hush"}')
    then = time.time() - (days + 0.5) * 86_400
    os.utime(path, (then, then))


@pytest.mark.parametrize(
    ("said", "login", "known"),
    [("true", "logged in", True), ("false", "not logged in", False), ("1", "login not known, but ", None)],
)
def test_a_program_for_the_backend_of_commands_has_its_login_beside_it(
    programs: Path, own_home: Path, said: str, login: str, known: bool | None
) -> None:
    """Without the library of an extra; an earlier version says nothing, and its credentials have an age."""
    install(programs, "claude", CLAUDE % said)
    path = own_home / ".claude" / ".credentials.json"
    credentials(path, days=3)
    one = agent_probes.claude("command", CODING["claude-sdk"], "")

    assert one.found.startswith(f"2.1.0 (Claude Code), {login}")
    assert (f"{path} is 3 days old" in one.found, one.logged_in) == (known is None, known)
    assert (one.usable, one.next) == ((False, agent_probes.LOG_IN) if known is False else (True, ""))
    assert "hush" not in one.found


def test_pi_says_its_version_on_standard_error(programs: Path, own_home: Path) -> None:
    """It reports no login: its credentials, their age and keys are named, or how to log in."""
    install(programs, "pi", "#!/bin/sh\necho 0.74.2 >&2\n")
    able = "; abilities: steer, resume, cost, model"
    folder = own_home / ".pi" / "agent"
    lacks = f"0.74.2, login not known: no credentials in {folder}{able}"

    assert found("pi") == AgentProbe(kind="pi", usable=True, found=lacks, next="run `pi` and enter /login")
    credentials(folder / "auth.json", days=0)
    signs = f"login not known, but {folder}/auth.json is less than a day old"
    assert found("pi") == AgentProbe(kind="pi", usable=True, found=f"0.74.2, {signs}{able}")


def test_a_key_and_a_moved_folder_are_signs_of_a_login(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The key is named, never shown."""
    install(programs, "pi", "#!/bin/sh\necho 0.74.2\n")
    credentials(tmp_path / "moved" / "auth.json", days=1)
    monkeypatch.setenv("PI_CODING_AGENT_DIR", str(tmp_path / "moved"))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-hush-hush")

    assert found("pi").found.startswith(
        f"0.74.2, login not known, but OPENAI_API_KEY is set and {tmp_path}/moved/auth.json is 1 day old; "
    )


def test_a_program_that_is_not_there_is_named_with_how_to_get_it(programs: Path) -> None:
    """A note: not everybody needs every agent."""
    one = found("pi")

    assert (one.usable, one.found) == (False, "`pi` is not on the PATH")
    assert one.next.startswith("npm install -g ")


@pytest.mark.parametrize("text", ["#!/bin/sh\nexit 1\n", "", "#!/bin/sh\nsleep 600\n"])
def test_a_program_that_does_not_answer_holds_nothing_up(
    programs: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """It fails, cannot be started, or does not end; the other agents are looked at meanwhile."""
    monkeypatch.setattr(agent_probes, "DEADLINE", 0.3)
    monkeypatch.setitem(CODING, "acp", msgspec.structs.replace(CODING["acp"], library="json"))
    for name in ("pi", "claude", "kiro-cli"):
        install(programs, name, text)
    began = time.monotonic()
    seen = {one.kind: one for one in probes()}

    assert time.monotonic() - began < 60
    assert seen["pi"].found == f"{programs}/pi does not say its version within 0.3 s"
    assert not seen["pi"].usable
    assert seen["acp"].found.startswith("-b kiro: `kiro-cli` does not answer; abilities: ")


@pytest.mark.extras("acp")
def test_an_acp_agent_answers_initialize(programs: Path) -> None:
    """It is ended as soon as it has answered, although it would go on."""
    install(programs, "kiro-cli", KIRO)
    began = time.monotonic()

    assert found("acp").found.startswith("-b kiro: `kiro-cli` 1.2 answers, login not known: no credentials in ")
    assert time.monotonic() - began < agent_probes.DEADLINE


@pytest.mark.extras("acp")
@pytest.mark.parametrize(
    "place",
    ["", "work", "lib", "home/.npm/_npx/0123456789abcdef", "home/.cache/coterie/work-01/npm/_npx/0123456789abcdef"],
)
def test_an_agent_behind_npx_is_looked_up_and_not_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """In the project, the global packages and the cache of npx; nothing is downloaded to know."""
    programs, package = tmp_path / "bin", "@agentclientprotocol/claude-agent-acp"
    for folder in (programs, tmp_path / "work" / "below", tmp_path / "home"):
        folder.mkdir(parents=True)
    install(programs, "npx", f"#!/bin/sh\necho started > {tmp_path}/started\n")
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("npm_config_cache", "NPM_CONFIG_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path / "work" / "below")
    said = f"`npx` downloads `{package}` when it is first used"
    if place:
        file = tmp_path / place / "node_modules" / package / "package.json"
        file.parent.mkdir(parents=True)
        file.write_text('{"version": "0.49.0"}')
        said = f"`{package}` 0.49.0"

    assert found("acp").found.startswith(f"-b claude-agent-acp: {said}; abilities: ")
    assert not (tmp_path / "started").exists()


def test_a_missing_library_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is started then."""
    monkeypatch.setitem(CODING, "acp", msgspec.structs.replace(CODING["acp"], library="no_such_library"))
    one = next(one for one in probes() if one.kind == "acp")

    assert (one.usable, one.found) == (False, "lacks its library")
    assert one.next == "pip install 'coterie[acp]', to use -b acp"
