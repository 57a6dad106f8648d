from pathlib import Path

import pytest
from bundles import bundle
from planned import found, planned, sayings, team, topology

from coterie.team.planning import plan


def with_prompt(path: str) -> str:
    return team("a -> b", a=f'model: m  prompt: "{path}"')


def test_a_prompt_is_read_from_its_file(tmp_path: Path) -> None:
    """Whole; a byte order mark is not part of it."""
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "a.md").write_bytes(b"\xef\xbb\xbfBe brief.\r\n\n")

    assert planned(with_prompt("prompts/a.md"), tmp_path).agents["a"].prompt == "Be brief.\r\n\n"


@pytest.mark.parametrize("path", ["../secret.md", "{outside}/secret.md", "link.md"])
def test_a_prompt_lies_in_the_folder(tmp_path: Path, path: str) -> None:
    """Neither a relative path nor an absolute one nor a link leads out of it."""
    folder = tmp_path / "team"
    folder.mkdir()
    (tmp_path / "secret.md").write_text("hidden")
    (folder / "link.md").symlink_to(tmp_path / "secret.md")
    path = path.replace("{outside}", str(tmp_path))

    assert sayings(with_prompt(path), folder) == [
        f'error[outside-folder] "{path}": '
        f"the prompt of agent 'a' names {path!r}, which is outside the topology's folder"
    ]


def test_a_prompt_that_is_no_text_is_reported(tmp_path: Path) -> None:
    """With the reason."""
    (tmp_path / "a.txt").write_bytes(b"\xff\xfe\x00")
    (said,) = found(with_prompt("a.txt"), tmp_path)

    assert (said.code, said.message) == (
        "unreadable-file",
        "the prompt of agent 'a' names 'a.txt', which cannot be read: it is not UTF-8 text",
    )


def test_a_prompt_that_went_away_is_reported(tmp_path: Path) -> None:
    """It was there when the file was read."""
    (tmp_path / "a.md").write_text("x")
    team_ = topology(with_prompt("a.md"), tmp_path)
    (tmp_path / "a.md").unlink()

    made, (said,) = plan(team_)
    assert made is None
    assert (said.code, said.message) == (
        "no-such-file",
        "the prompt of agent 'a' names the file 'a.md', which does not exist",
    )


def test_a_folder_may_be_given(tmp_path: Path) -> None:
    """In place of that of the topology's file."""
    (tmp_path / "a.md").write_text("one")
    team_ = topology(with_prompt("a.md"), tmp_path)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "a.md").write_text("two")

    made, _ = plan(team_, folder=tmp_path / "other")
    assert made is not None
    assert made.agents["a"].prompt == "two"
    assert made.folder == str((tmp_path / "other").resolve())


@bundle(
    ("name", "role", "text"),
    [
        ("critic", "", "Find faults."),
        ("critic-of-style", "", "Mind the style."),
        ("critics", "", "Find faults."),
        ("painter", "", ""),
        ("painter", "role: critic", "Find faults."),
        ("critic-of-style", "role: critic", "Find faults."),
    ],
)
def test_a_role_is_named_or_begins_the_agents_name(name: str, role: str, text: str) -> None:
    """The longest role name that begins it; `role:` comes first."""
    blocks = '  roles { critic: "Find faults."  critic-of: "Mind the style." }'

    assert planned(team(f"{name} -> b", blocks, **{name: f"model: m {role}"})).agents[name].role == text


def test_commands_are_words_not_lines_for_a_shell() -> None:
    """They are split as a shell would, and nothing else that a shell does is done."""
    blocks = """  action x { commands: ["git commit -m 'two words'", "echo $HOME *.md"] }"""

    assert planned(team("a -> x", blocks)).agents["x"].steps == (
        ("git", "commit", "-m", "two words"),
        ("echo", "$HOME", "*.md"),
    )


@pytest.mark.parametrize(
    ("lang", "argv"),
    [
        ("bash", ("bash", "-c", "a && b")),
        ("python", ("{python}", "-c", "a && b")),
        ("node", ("node", "-e", "a && b")),
    ],
)
def test_a_language_takes_each_command_as_a_script(lang: str, argv: tuple[str, ...]) -> None:
    """One step for each."""
    blocks = f'  action x {{ lang: {lang}  commands: ["a && b", "c"] }}'

    assert planned(team("a -> x", blocks)).agents["x"].steps == (argv, (*argv[:2], "c"))


def test_an_action_without_commands_passes() -> None:
    """It has no steps."""
    agent = planned(team("a -> x", "  action x { kind: inline }")).agents["x"]

    assert (agent.kind, agent.backend, agent.steps) == ("action", "command", ())


def test_shell_syntax_in_a_command_is_reported() -> None:
    """It would be handed over as a word."""
    blocks = '  action x { commands: ["make && make install"] }'

    assert sayings(team("a -> x", blocks)) == [
        'warning[shell-syntax] ["make && make install"]: '
        "action 'x' passes '&&' to its command as an argument: no shell interprets it"
    ]


def test_a_command_that_cannot_be_split_is_an_error() -> None:
    """A quotation mark is missing."""
    (said,) = found(team("a -> b", '  gates { gate g { after: a before: b run: "say \'hello" } }'))

    assert (said.code, said.message) == (
        "bad-command",
        "gate 'g' has a command that cannot be split into words: no closing quotation",
    )


@bundle(
    ("run", "argv"),
    [
        ("check.sh --all", ("{here}/check.sh", "--all")),
        ("./check.sh", ("{here}/check.sh",)),
        ("python3 check.sh", ("python3", "{here}/check.sh")),
        ("{python} check.sh", ("{python}", "{here}/check.sh")),
        ("cat check.sh", ("cat", "check.sh")),
        ("other.sh", ("other.sh",)),
        ("../check.sh", ("../check.sh",)),
        ("python3 -m check.sh", ("python3", "-m", "check.sh")),
    ],
)
def test_a_script_beside_the_topology_is_found(tmp_path: Path, run: str, argv: tuple[str, ...]) -> None:
    """As the program, or as the script of an interpreter; its folder stays open in the plan."""
    folder = tmp_path / "team"
    folder.mkdir()
    (folder / "check.sh").write_text("")
    (tmp_path / "check.sh").write_text("")

    plan_ = planned(team("a -> b", f'  gates {{ gate g {{ after: a before: b run: "{run}" }} }}'), folder)
    assert plan_.agents["g"].steps == (argv,)


def test_a_command_beside_the_topology_is_found(tmp_path: Path) -> None:
    """As for gates and actions."""
    (tmp_path / "agent.py").write_text("")
    text = team("a -> b", a='extensions { coterie { command: ["{python}", "agent.py"] } }')

    assert planned(text, tmp_path).agents["a"].argv == ("{python}", "{here}/agent.py")
