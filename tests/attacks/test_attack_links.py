"""Links that an agent made where it works: neither the next attempt nor the owner is led to what the user owns."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from sandboxes import Neighbourhood

from coterie.agents.backends.attempt import prepared
from coterie.agents.backends.sandbox import choice, policy
from coterie.base import agent_writes, files
from coterie.errors import Unconfined
from coterie.team.options.states import WHOLE, AgentState


@pytest.fixture(params=[one.NAME for one in choice.IMPLEMENTATIONS])
def around(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Neighbourhood:
    """A home with secrets, and attempts that one implementation confines; each knows what those before it wrote."""
    if why := choice.probe(request.param):
        pytest.skip(f"{request.param} does not work here: {why}")
    one = next(one for one in choice.IMPLEMENTATIONS if request.param == one.NAME)
    monkeypatch.setattr(choice, "IMPLEMENTATIONS", (one,))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return Neighbourhood(tmp_path.resolve() / "around")


PLANTED = {
    ".git": "ln -s {home} .git",
    ".git to git's folder of another project": "ln -s {project}/.git .git",
    ".git by a file": "ln -s {project}/.git/worktrees/tree/gitdir .git",
    "a file that names the home": "echo 'gitdir: {home}' > .git",
    "a file that names a link": "ln -s {home} made; echo 'gitdir: made' > .git",
    "objects": "mkdir .git; ln -s {home} .git/objects",
    "refs": "mkdir .git; ln -s {home} .git/refs",
    "logs": "mkdir .git; ln -s {home} .git/logs",
    "hooks": "mkdir .git; ln -s {home} .git/hooks",
    "info": "mkdir .git; ln -s {home} .git/info",
    "git's configuration": "mkdir .git; ln -s {home}/.netrc .git/config",
    "modules": "mkdir .git; ln -s {home} .git/modules",
    "worktrees": "mkdir .git; ln -s {home} .git/worktrees",
    "commondir": "mkdir .git; echo {home} > .git/commondir",
    "a chain": "ln -s {home} a; ln -s a b; ln -s b .git",
    "a link above": "mkdir sub; ln -s {home} sub/x; ln -s sub/x .git",
    "team files": "for f in topology.toml autoloops.toml agents.toml roles; do ln -s {home} $f; done",
    "one team file": "ln -s {home}/.netrc autoloops.toml",
    "folders of a state": "mkdir -p .autoloop; for f in waves worktrees; do ln -s {home} .autoloop/$f; done",
}


@pytest.mark.slow
@pytest.mark.parametrize("what", PLANTED)
def test_a_link_gives_the_next_attempt_nothing(around: Neighbourhood, tmp_path: Path, what: str) -> None:
    """In a folder without a repository, in which agents may make whatever git or a team is read from."""
    (plain := tmp_path / "plain").mkdir()
    before = {path: path.read_bytes() for path in around.home.rglob("*") if path.is_file()}
    around.sh(PLANTED[what].format(home=around.home, project=around.project), cwd=plain)
    said = around.sh(
        f"echo evil > {around.home}/evil; echo evil > {around.project}/.git/evil; mkdir {around.home}/hooks\n"
        f"cat {around.home}/.netrc {around.home}/.ssh/id_rsa; echo evil >> {around.home}/.netrc; true",
        cwd=plain,
    )

    assert "SECRET" not in said.stdout
    assert {path: path.read_bytes() for path in before} == before
    assert not [name for name in ("evil", "hooks") if (around.home / name).exists()]
    assert not (around.project / ".git" / "evil").exists()


@pytest.mark.slow
@pytest.mark.parametrize("where", ["sub", "sub/deeper"])
def test_a_working_directory_that_an_agent_replaced_is_not_entered(
    around: Neighbourhood, tmp_path: Path, where: str
) -> None:
    """The agent that works there would have the home instead; a person who has looked may allow it."""
    plain = tmp_path / "plain"
    (plain / "sub").mkdir(parents=True)
    (around.home / "deeper").mkdir()
    around.sh(f"rm -rf sub; ln -s {around.home} sub", cwd=plain)
    with pytest.raises(Unconfined, match=f"leads to {around.home}, and an agent could have made this link"):
        around.sh("echo evil > evil", cwd=plain / where)
    assert not list(around.home.rglob("evil"))

    agent_writes.trust(plain / "sub")
    with around.confined("true", cwd=plain / where) as given:
        assert given["cwd"] == plain / where


@pytest.mark.slow
def test_a_link_of_the_user_is_followed(around: Neighbourhood, tmp_path: Path) -> None:
    """To a folder of work elsewhere, and to a repository."""
    (plain := tmp_path / "plain").mkdir()
    (elsewhere := tmp_path / "elsewhere").mkdir()
    (plain / "sub").symlink_to(elsewhere)
    around.git(elsewhere, "init", "--quiet")
    with around.confined("true", cwd=plain / "sub") as given:
        assert given["cwd"] == plain / "sub"
    (plain / ".git").symlink_to(elsewhere / ".git")
    with around.confined("true", cwd=plain) as given:
        assert str(elsewhere / ".git") in str(given["args"])


@pytest.mark.slow
def test_a_program_that_an_agent_replaced_by_a_link_shows_nothing(around: Neighbourhood, tmp_path: Path) -> None:
    """An interpreter would print the line of a secret that it does not understand."""
    (plain := tmp_path / "plain").mkdir()
    (script := plain / "agent.sh").write_text("true")
    around.sh(f"ln -sf {around.home}/.ssh/id_rsa agent.sh", cwd=plain)
    with around.confined("sh", str(script), cwd=plain) as given:
        done = subprocess.run(**given, capture_output=True, text=True)  # type: ignore[call-overload]
    assert "SECRET" not in done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("login", [WHOLE, "login.json"])
def test_a_link_in_the_state_of_an_agent_shows_nothing(
    around: Neighbourhood, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, login: str
) -> None:
    """An agent that may write the folder of its login leaves one there for the next."""
    state = AgentState(".agent", login=login)
    monkeypatch.setattr(policy, "states_of", lambda agent: (state,))
    (own := around.home / ".agent").mkdir()
    (own / "login.json").write_text("{}")
    around.sh(f"ln -s {around.home}/.ssh/id_rsa {own}/notes; ln -s {around.home} {own}/all; true")
    if login != WHOLE:  # what an agent without a sandbox could leave
        with agent_writes.noted(tmp_path / "earlier", [own], {}):
            (own / "notes").symlink_to(around.home / ".ssh" / "id_rsa")
    monkeypatch.setattr(Path, "home", lambda: around.home)
    said = around.sh(f"cat {own}/notes {own}/all/.netrc {around.home}/.ssh/id_rsa; true")

    assert "SECRET" not in said.stdout


KEPT = ("hard", "soft", "moved")


@pytest.mark.slow
@pytest.mark.parametrize("how", KEPT)
def test_a_descriptor_of_an_earlier_attempt_is_not_there(around: Neighbourhood, tmp_path: Path, how: str) -> None:
    """What one attempt could name, and left under another name, is the same wall for the next."""
    (plain := tmp_path / "plain").mkdir()
    act = {"hard": "ln {0} kept", "soft": "ln -s {0} kept", "moved": "mv {0} kept"}[how]
    around.sh("; ".join(act.format(f"{around.home}/{name}") for name in (".netrc", ".ssh/id_rsa", ".bashrc")), plain)
    said = around.sh("cat kept; echo evil >> kept; true", cwd=plain)

    assert "SECRET" not in said.stdout
    assert (around.home / ".netrc").read_text() == "SECRET"


def test_the_folder_of_an_attempt_names_no_other(tmp_path: Path) -> None:
    """The attempt's own variables lead to folders that the owner made for it."""
    from coterie.agents.backends.base import Request
    from coterie.team.planning.plan import AgentPlan

    agent = AgentPlan(name="a", backend="command", options={"sandbox": "off"}, argv=("sh",))
    folder = tmp_path / "a#1.1"
    folder.mkdir()
    with prepared(Request(run="r", turn="a#1", attempt=1, agent=agent, prompt="x", folder=folder)) as made:
        named = [Path(value) for name, value in made.env.items() if name.startswith(("COTERIE_", "AUTOLOOP_"))]
        inside = [path for path in named if path.is_absolute() and path.exists() and not os.path.isfile(path)]
        assert all(path.resolve().is_relative_to(tmp_path) for path in inside)
    shutil.rmtree(folder)


@pytest.mark.parametrize("what", ["cwd", "file", "state"])
def test_a_link_that_is_gone_at_the_next_look_leads_nowhere(
    around: Neighbourhood, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """An agent that lives exchanges a folder and a link while the sandbox of another one is made."""
    (plain := tmp_path.resolve() / "plain").mkdir()
    own, target, looks = around.home / ".agent", around.home / ".ssh", list[bool]()
    swapped = {"cwd": plain / "sub", "file": plain / "autoloops.toml", "state": own / "notes"}[what]
    swapped.mkdir(parents=True)
    monkeypatch.setattr(Path, "home", lambda: around.home)
    monkeypatch.setattr(policy, "states_of", lambda agent: (AgentState(".agent", login=WHOLE),))
    real_path = files.real_path

    def at_this_moment(path: str | Path, *, strict: bool = False) -> str:
        if Path(path) != swapped or looks:
            return real_path(path, strict=strict)
        looks.append(True)
        swapped.rmdir()
        swapped.symlink_to(target)
        found = real_path(path, strict=strict)
        swapped.unlink()
        swapped.mkdir()
        return found

    with agent_writes.noted(tmp_path / "other", [plain, own], {}):
        monkeypatch.setattr(files, "real_path", at_this_moment)
        if what == "cwd":
            with pytest.raises(Unconfined, match="and now leads to"), around.confined("true", cwd=swapped):
                pass
        else:
            with around.confined("true", cwd=plain) as given:
                assert str(target) not in str(given["args"])
    assert looks


@pytest.mark.slow
@pytest.mark.parametrize("around", ["landlock"], indirect=True)
def test_a_folder_that_became_a_link_before_the_program_starts_is_not_granted(
    around: Neighbourhood, tmp_path: Path
) -> None:
    """Landlock takes what a rule names by its name; bubblewrap does too, and cannot be kept from following a link."""
    (sub := tmp_path.resolve() / "plain" / "sub").mkdir(parents=True)
    with around.confined("sh", "-c", f"echo evil > {around.home}/evil; cat {around.home}/.netrc", cwd=sub) as given:
        sub.rmdir()
        sub.symlink_to(around.home)
        done = subprocess.run(**given, capture_output=True, text=True)  # type: ignore[call-overload]
    assert "SECRET" not in done.stdout
    assert not (around.home / "evil").exists()
