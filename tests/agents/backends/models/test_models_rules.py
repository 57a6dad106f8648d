"""The rules about calls of tools: for files, and for programs."""

from pathlib import Path

import pytest

from coterie.agents.backends.models.rules import Refused, Rules
from coterie.team.planning.permissions import Permissions


def file_allowed(root: Path, tool: str, path: str, **said: tuple[str, ...] | str) -> bool:
    return _allowed(lambda rules: rules.check_file(tool, path), root, **said)


def command_allowed(root: Path, *argv: str, **said: tuple[str, ...] | str) -> bool:
    return _allowed(lambda rules: rules.check_command(argv), root, **said)


def _allowed(check: object, root: Path, **said: tuple[str, ...] | str) -> bool:
    try:
        check(Rules(Permissions(**said), str(root)))  # type: ignore[operator, arg-type]
    except Refused:
        return False
    return True


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("./secrets/**", "secrets/a/b", True),
        ("./secrets/**", "src/secrets/a", False),
        ("./secrets", "secrets/a/b", True),
        ("secrets/", "src/secrets/a", True),
        ("secrets", "src/secrets/a", True),
        ("*.sql", "db/dump.sql", True),
        ("*.sql", "dump.sqlite", False),
        ("src/*.py", "src/a/b.py", False),
        ("src/**/*.py", "src/b.py", True),
        ("SRC/*", "src/b.py", True),
        ("a?c", "abc", True),
        ("[ab].txt", "b.txt", True),
        ("[!ab].txt", "b.txt", False),
        ("{a,b}/x", "b/x", True),
        ("a+b(c", "a+b(c", True),
        ("[z-a]", "anything", True),  # what cannot be understood forbids
        ("x" * 2000, "anything", True),
    ],
)
def test_a_pattern_for_files_is_one_of_gitignore(tmp_path: Path, pattern: str, path: str, matches: bool) -> None:
    """A folder stands for all in it, and letters match in either case."""
    assert file_allowed(tmp_path, "Read", path, deny=(f"Read({pattern})",)) is not matches


def test_an_absolute_pattern_is_one_of_the_machine_or_of_the_working_directory(tmp_path: Path) -> None:
    """Files say both; a link may lead there."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "link").symlink_to(tmp_path)
    for pattern in (f"{tmp_path}/docs/**", f"/{tmp_path}/docs", "/docs/**", f"{tmp_path}/link/docs/**"):
        assert not file_allowed(tmp_path, "Read", "docs/a", deny=(f"Read({pattern})",))
        assert file_allowed(tmp_path, "Read", "src/docs/a", deny=(f"Read({pattern})",))


def test_a_rule_covers_the_tools_that_do_the_same() -> None:
    """Reading is also searching, listing and editing; changing is writing and editing."""
    root = Path("/work")
    read, change = {"deny": ("Read(a)",)}, {"deny": ("Edit(a)",)}

    assert [t for t in TOOLS if not file_allowed(root, t, "a", **read)] == ["Read", "Grep", "Glob", "Edit"]
    assert [t for t in TOOLS if not file_allowed(root, t, "a", **change)] == ["Write", "Edit"]
    assert [t for t in TOOLS if not file_allowed(root, t, "a", ask=("*(a)",))] == list(TOOLS)


TOOLS = ("Read", "Grep", "Glob", "Write", "Edit")


def test_what_needs_approval_is_refused_unless_a_rule_allows_it() -> None:
    """`deny` comes first, then `ask`, then `allow`, then the agent's permissions."""
    root, supervised = Path("/work"), {"mode": "supervised"}

    assert file_allowed(root, "Read", "a", **supervised)
    assert not file_allowed(root, "Write", "a", **supervised)
    assert file_allowed(root, "Write", "docs/a", **supervised, allow=("Edit(docs/**)",))
    assert not file_allowed(root, "Write", "a", **supervised, allow=("Edit(docs/**)",))
    assert not file_allowed(root, "Write", "a", allow=("Write",), ask=("Write(a)",))
    assert not file_allowed(root, "Write", "a", allow=("Write",), deny=("Write(a)",))
    assert not file_allowed(root, "Write", "a", mode="something-new")
    assert not file_allowed(root, "Write", "a", mode="plan", allow=("Write([z-a])", "Write(a"))


@pytest.mark.parametrize(
    "path",
    [
        ".env",
        "app/.env.production",
        "keys/server.PEM",
        ".ssh/config",
        "home/.aws/credentials",
        ".coterie/runs/x",
    ],
)
def test_files_with_secrets_and_the_state_of_runs_are_closed(path: str) -> None:
    """The first until a rule names them, the second always."""
    root = Path("/work")

    assert not file_allowed(root, "Read", path)
    assert not file_allowed(root, "Write", path, allow=("Read", "Write"))
    assert file_allowed(root, "Read", path, allow=(f"Read({path})",)) is not path.startswith(".coterie")
    assert not file_allowed(root, "Read", path, allow=(f"Edit({path})",))
    assert file_allowed(root, "Read", ".env.example")
    assert file_allowed(root, "Read", ".git/config")
    assert not file_allowed(root, "Write", "sub/.git/hooks/post-commit")


@pytest.mark.parametrize("tool", ["Read", "Write"])
def test_the_state_of_the_user_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: str) -> None:
    """It says which files an agent could have written; a home can be the working directory."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    rules = Rules(Permissions(), str(tmp_path))
    rules.check_file(tool, "state/other")
    with pytest.raises(Refused, match="state of runs"):
        rules.check_file(tool, "state/coterie/agent-writes.jsonl")


def test_the_runs_of_another_folder_of_state_are_closed(tmp_path: Path) -> None:
    """`--state-dir` may be anywhere, also inside the working directory."""
    rules = Rules(Permissions(), str(tmp_path), tmp_path / "state" / "runs")

    rules.check_file("Read", "state/other")
    with pytest.raises(Refused, match="state of runs"):
        rules.check_file("Read", "state/runs/1/journal.jsonl")
    with pytest.raises(Refused, match="state of runs"):
        rules.check_file("Glob", "state/runs")


ALLOW = {"allow": ("Bash(git *)", "Bash(pytest:*)", "Bash(make test)")}


@pytest.mark.parametrize(
    ("command", "allowed"),
    [
        ("git status", True),
        ("git", True),
        ("gitk", False),
        ("pytest -q tests", True),
        ("make test", True),
        ("make test install", False),
        ("/tmp/git status", False),
        ("env git status", False),
        ("rm -rf .", False),
    ],
)
def test_only_programs_that_a_rule_allows_run(tmp_path: Path, command: str, allowed: bool) -> None:
    """Its pattern is compared with the command line."""
    assert command_allowed(tmp_path, *command.split(), **ALLOW) is allowed


@pytest.mark.parametrize(
    "argv",
    [
        ("rm", "-rf", "x"),
        ("rm",),
        ("/bin/rm", "x"),
        ("env", "rm", "x"),
        ("sh", "-c", "rm x"),
        ("sh", "-c", "true;rm x"),
        ("bash", "-c", "cd / && /bin/rm x"),
        ("find", ".", "-exec", "rm", "{}", ";"),
        ("sh", "-c", "echo 'open; rm x"),
    ],
)
def test_a_forbidden_program_is_found_behind_others(tmp_path: Path, argv: tuple[str, ...]) -> None:
    """Whatever else is allowed."""
    assert not command_allowed(tmp_path, *argv, allow=("Bash",), deny=("Bash(rm *)",))
    assert not command_allowed(tmp_path, *argv, mode="unrestricted", ask=("Bash(rm:*)",))
    assert command_allowed(tmp_path, "rmdir", "x", allow=("Bash",), deny=("Bash(rm *)",))


@pytest.mark.parametrize(
    "argv",
    [
        ("cat", "secrets/key"),
        ("cat", "./src/../secrets/key"),
        ("cat", "link/key"),
        ("dd", "if=secrets/key"),
        ("sh", "-c", "cat secrets/key"),
        ("cat", ".env"),
        ("cat", ".coterie/runs/x"),
    ],
)
def test_a_program_is_not_given_a_file_that_may_not_be_read(tmp_path: Path, argv: tuple[str, ...]) -> None:
    """As far as its arguments tell."""
    (tmp_path / "secrets").mkdir()
    (tmp_path / "link").symlink_to("secrets")

    assert not command_allowed(tmp_path, *argv, allow=("Bash",), deny=("Read(./secrets/**)",))
    assert command_allowed(tmp_path, "cat", "src/key", allow=("Bash",), deny=("Read(./secrets/**)",))


def test_a_rule_that_cannot_be_compiled_allows_no_program(tmp_path: Path) -> None:
    """But it forbids all."""
    long = f"Bash({'x' * 2000})"

    assert not command_allowed(tmp_path, "true", allow=(long,))
    assert not command_allowed(tmp_path, "true", allow=("Bash",), deny=(long,))
