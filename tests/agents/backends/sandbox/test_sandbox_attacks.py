"""A second round of attacks, played by a program in the sandbox: as this user, and as another one."""

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import another_user
import pytest
import sandbox_attacks
from sandboxes import Neighbourhood

from coterie.agents.backends.sandbox import choice
from coterie.errors import Unconfined
from coterie.team.options.secret_files import ANYWHERE, IN_HOME, ON_SYSTEM, SOCKETS

ATTACKS = Path(sandbox_attacks.__file__)


@pytest.fixture
def victim(around: Neighbourhood) -> Iterator["subprocess.Popen[bytes]"]:
    """A process outside, of the same user."""
    with subprocess.Popen(["sleep", "600"], cwd=around.project, env={"SECRET": "SECRET"}) as one:
        yield one
        one.kill()


def play(around: Neighbourhood, owner: int, confined: bool = True, **values: Any) -> dict[str, Any]:
    """What the attacks find."""
    is_landlock = choice.IMPLEMENTATIONS[0].NAME == "landlock"
    settings = {
        "home": str(around.home),
        "cwd": str(around.tree),
        "project": str(around.project),
        "owner": owner,
        "prefix": sys.prefix,
        "socket": str(around.home / ".docker" / "run" / "docker.sock"),
        "metadata": not is_landlock,
    } | values
    with around.confined(sys.executable, "-IS", str(ATTACKS), json.dumps(settings)) as given:
        if not confined:
            given["args"] = [sys.executable, "-IS", str(ATTACKS), json.dumps(settings)]
        done = subprocess.run(**given, capture_output=True, text=True, timeout=300)  # type: ignore[call-overload]
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture
def service(around: Neighbourhood) -> Iterator[None]:
    """A service that listens in the home; its path is short, since it is bound from there."""
    folder = around.home / ".docker" / "run"
    folder.mkdir(parents=True, exist_ok=True)
    before = os.getcwd()
    with socket.socket(socket.AF_UNIX) as one:
        os.chdir(folder)
        try:
            one.bind("docker.sock")
        finally:
            os.chdir(before)
        one.listen()
        yield
    (folder / "docker.sock").unlink()


@pytest.fixture
def shared(around: Neighbourhood) -> Iterator[None]:
    """Memory that another process of this user shares."""
    path = Path("/dev/shm") / around.project.name
    path.write_text("SECRET")
    yield
    path.unlink()


@pytest.mark.slow
@pytest.mark.usefixtures("service", "shared")
def test_no_attack_succeeds(around: Neighbourhood, victim: "subprocess.Popen[bytes]") -> None:
    """Mounts, namespaces, the kernel, other processes, files and sockets; but for what the page says of Landlock."""
    found = play(around, victim.pid)

    gaps = {"reach a service by its socket", "shared memory of others"}
    known = gaps if choice.IMPLEMENTATIONS[0].NAME == "landlock" else set()
    assert set(found["succeeded"]) <= known
    assert found["played"] > 100
    assert victim.poll() is None


@pytest.mark.usefixtures("service")
def test_a_service_that_can_be_reached_is_a_gap(around: Neighbourhood) -> None:
    """In the home, too: Landlock names it, and an agent that requires a sandbox is refused."""
    around.sh("true")
    if choice.IMPLEMENTATIONS[0].NAME != "landlock":
        assert not around.gaps
        return
    assert f"it cannot be kept from using {around.home}/.docker/run/docker.sock" in " ".join(around.gaps)
    with pytest.raises(Unconfined, match=r"docker\.sock"), around.confined("true", sandbox="required"):
        pass


@pytest.mark.usefixtures("service", "shared")
def test_the_attacks_can_succeed(around: Neighbourhood, victim: "subprocess.Popen[bytes]") -> None:
    """Without a sandbox those that change nothing but the neighbourhood do."""
    names = ["its environment", "its root", "signal it", "soft", "reopen", "list the home", "socket", "its score"]
    names.append("shared memory of others")

    found = play(around, victim.pid, confined=False, only=names)

    assert len(found["succeeded"]) >= len(names)


def test_a_weakened_wall_is_found_by_the_trial(around: Neighbourhood, monkeypatch: pytest.MonkeyPatch) -> None:
    """Capabilities, a new user namespace, and kernel files that root may write each have it refused."""
    if choice.IMPLEMENTATIONS[0].NAME != "bwrap" or os.geteuid():
        pytest.skip("bubblewrap, as root")
    from coterie.agents.backends.sandbox import bwrap

    build = bwrap.command
    off = ("--cap-drop", "ALL", "--disable-userns")
    weak = {
        "remove mounts": lambda words: [word for word in words if word not in off],
        "in a new namespace": lambda words: [word for word in words if word != "--disable-userns"],
        "files of the kernel": list,
    }
    try:
        for wanted, weaken in weak.items():
            choice.probe.cache_clear()
            monkeypatch.setattr(bwrap, "command", lambda *given, weaken=weaken: weaken(build(*given)))
            if wanted == "files of the kernel":
                monkeypatch.setattr(bwrap, "_kernel_files", list)
            assert wanted in choice.probe("bwrap")
    finally:
        choice.probe.cache_clear()


def test_it_debugs_its_own_children(around: Neighbourhood) -> None:
    """A process is traced by its parent, as debuggers do."""
    script = (
        "import ctypes, os, subprocess\n"
        "child = subprocess.Popen(['sleep', '60'])\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "assert libc.ptrace(16, child.pid, 0, 0) == 0, os.strerror(ctypes.get_errno())\n"
        "os.waitpid(child.pid, 0)\n"
        "child.kill()\n"
    )
    with around.confined(sys.executable, "-IS", "-c", script) as given:
        done = subprocess.run(**given, capture_output=True, text=True)  # type: ignore[call-overload]

    assert done.returncode == 0, done.stderr


WELL_KNOWN = """
    .ssh/id_ed25519 .aws/credentials .netrc .git-credentials .config/git/credentials .npmrc .pypirc .yarnrc
    .yarnrc.yml .gem/credentials .m2/settings.xml .m2/settings-security.xml .pip/pip.conf .config/pip/pip.conf
    .composer/auth.json .config/composer/auth.json .cargo/credentials .cargo/credentials.toml
    .gradle/gradle.properties .docker/config.json .kube/config .config/gcloud/credentials.db
    .azure/msal_token_cache.json .oci/config .config/hcloud/cli.toml .config/scw/config.yaml .s3cfg .boto
    .config/doctl/config.yaml .config/rclone/rclone.conf .terraform.d/credentials.tfrc.json .vault-token .pgpass
    .my.cnf .config/gh/hosts.yml .config/hub .config/glab-cli/config.yml .gnupg/private-keys-v1.d/k
    .password-store/k.gpg .local/share/keyrings/login.keyring .config/google-chrome/Default/Cookies
    .config/chromium/Default/Cookies .mozilla/firefox/p/logins.json .config/BraveSoftware/Brave-Browser/Cookies
    .config/microsoft-edge/Default/Cookies snap/firefox/common/k .config/github-copilot/apps.json
    .copilot/config.json .config/goose/secrets.yaml .local/share/kiro-cli/data.sqlite3 .config/cursor/auth.json
    .config/Cursor/User/k .codex/auth.json .gemini/oauth_creds.json .claude/.credentials.json .pi/agent/auth.json
    .local/share/opencode/auth.json .bash_history .huggingface/token .config/op/config .1password/agent.sock
    .docker/desktop/docker.sock .unknown/secret notes.txt Documents/letter
""".split()  # noqa: SIM905 - a list that a person reads


@pytest.mark.parametrize("at_home", [False, True], ids=["a project", "the home itself"])
def test_well_known_secrets_are_hidden(around: Neighbourhood, at_home: bool) -> None:
    """Also in the folders of toolchains, which are read; an agent that works in the home sees what no list knows."""
    for name in WELL_KNOWN:
        path = around.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("SECRET")
    (around.home / ".cargo" / "config").write_text("PLAIN")

    paths = [f"'{around.home}/{name}'" for name in WELL_KNOWN]
    done = around.sh(
        f"grep -l SECRET {' '.join(paths)} 2>/dev/null; cat {around.home}/.cargo/config",
        cwd=around.home if at_home else None,
    )

    if at_home and choice.IMPLEMENTATIONS[0].NAME == "landlock":
        assert "it cannot be kept from reading and writing" in " ".join(around.gaps)
        return
    seen = [line.removeprefix(f"{around.home}/") for line in done.stdout.splitlines() if line != "PLAIN"]
    assert seen == ([".unknown/secret", "notes.txt", "Documents/letter"] if at_home else [])
    assert "PLAIN" in done.stdout


def test_the_user_names_more_paths(around: Neighbourhood, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder and a secret are read if they are named, and the secrets within a named folder are not."""
    names = ("library/code", "library/env/cacert.pem", ".config/app/plain", ".boto")
    secrets = ("library/.env", "library/a/b/server.key", ".config/app/.env", ".config/rclone/rclone.conf")
    for name in (*names, *secrets):
        path = around.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"IS {name}\n")
    named = (around.home / "library", around.home / ".config", around.home / ".boto")
    monkeypatch.setenv("COTERIE_SANDBOX_READS", os.pathsep.join(map(str, named)))

    done = around.sh(f"cd ~ && cat {' '.join((*names, *secrets))}; touch library/x")

    assert done.stdout.splitlines() == [f"IS {name}" for name in names]
    assert not (around.home / "library" / "x").exists()


MOVED = {
    "CARGO_HOME": ("home/tools/cargo", "credentials.toml"),
    "GRADLE_USER_HOME": ("home/tools/gradle", "gradle.properties"),
    "XDG_CONFIG_HOME": ("away/config", "gh/hosts.yml"),
    "XDG_DATA_HOME": ("away/data", "keyrings/login.keyring"),
    "DOCKER_CONFIG": ("away/docker", "config.json"),
    "GNUPGHOME": ("away/gnupg", "private-keys-v1.d/k"),
    "KUBECONFIG": ("away/kube", ""),
    "GOOGLE_APPLICATION_CREDENTIALS": ("away/google", ""),
}


def test_secrets_that_variables_move_are_hidden(around: Neighbourhood, monkeypatch: pytest.MonkeyPatch) -> None:
    """To a folder of tools in the home, or out of the home; what lies beside them is read."""
    top = around.home.parent
    for variable, (place, name) in MOVED.items():
        path = top / place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("SECRET")
        monkeypatch.setenv(variable, str(top / place))
    (top / "home/tools/cargo/config.toml").write_text("PLAIN")

    done = around.sh(f"grep -rhs 'SECRET\\|PLAIN' {top}/home/tools {top}/away")

    assert done.stdout.split() == ["PLAIN"]


def test_homes_of_other_users_are_hidden(around: Neighbourhood, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where this user could read them, as root can."""
    other = around.home.parent / "homes" / "other"
    other.mkdir(parents=True)
    (other / "notes.txt").write_text("SECRET")
    monkeypatch.setattr("coterie.agents.backends.sandbox.home._HOMES", str(other.parent))

    around.tried(f"cat {other}/notes.txt")


def test_a_link_of_the_home_to_a_toolchain_is_followed(around: Neighbourhood) -> None:
    """The program is found by the name that it has outside, and what the link leads to is only read."""
    real = around.home / "dots" / "rustup"
    real.mkdir(parents=True)
    (real / "settings").write_text("PLAIN\n")
    (around.home / ".rustup").symlink_to(real)
    (around.home / "dots" / "other").write_text("SECRET\n")

    done = around.sh("cat ~/.rustup/settings; cat ~/dots/other; echo > ~/.rustup/settings")

    assert done.stdout == "PLAIN\n"
    assert (real / "settings").read_text() == "PLAIN\n"


def test_a_link_that_an_agent_left_leads_git_nowhere(around: Neighbourhood, tmp_path: Path) -> None:
    """A folder that is no repository does not become one of another project's in the next attempt."""
    other = tmp_path / "other"
    around.git(tmp_path, "init", "-q", str(other))
    plain = tmp_path / "plain"
    for left in ("file", "folder", "entry"):
        shutil.rmtree(plain, ignore_errors=True)
        plain.mkdir()
        if left == "file":
            (plain / ".git").write_text(f"gitdir: {other}/.git\n")
        else:
            made = plain / (".git" if left == "folder" else "made")
            made.mkdir()
            (made / "commondir").write_text(f"{other}/.git\n")
            (made / "gitdir").write_text(f"{plain}/.git\n")
        if left == "entry":
            (plain / ".git").write_text(f"gitdir: {plain}/made\n")

        around.sh(f"echo evil > {other}/.git/objects/evil; echo evil > {other}/.git/evil", cwd=plain)

        assert not list((other / ".git").rglob("evil")), left


def test_the_lists_hold_no_entry_twice() -> None:
    """Each is data that a reader can check."""
    for entries in (IN_HOME, ANYWHERE, ON_SYSTEM, SOCKETS):
        assert len(set(entries)) == len(entries)


@pytest.mark.long
def test_the_same_holds_for_another_user() -> None:
    """The suite is played by a second uid, with an interpreter that it can read."""
    names = ("test_sandbox_attacks.py", "test_sandbox_escapes.py")
    another_user.play(*map(Path(__file__).with_name, names), without="another_user or in_a_sandbox")
