"""An agent cannot change the files that its loop is read from, or add one that this run, or a later one, obeys."""

import json
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from repositories import git, repository

from coterie.agents.backends.base import AttemptRef
from coterie.agents.backends.sandbox import choice
from coterie.agents.backends.team_files import kept
from coterie.execution.runs.attempt_folders import AttemptFolders
from coterie.execution.runs.repository import Runs
from coterie.interfaces.cli import app

Run = Callable[..., tuple[str, list[dict[str, Any]]]]

TOPOLOGY = """
completion = "done"
[[role]]
id = "solo"
emits = ["more", "done"]
prompt_file = "roles/solo.md"
[handoff]
more = ["solo"]
"""
SETTINGS = """
event_loop.max_iterations = 3
review.enabled = {reviews}
review.every_iterations = 1
backend.kind = 'command'
backend.command = '{agent}'
backend.prompt_mode = 'stdin'
backend.sandbox = 'auto'
"""
AGENT = """#!/bin/sh
cat > {top}/work/prompt.$AUTOLOOP_ITERATION$AUTOLOOP_REVIEW_MODE 2>/dev/null || cat > /dev/null
{attack}
[ -n "$AUTOLOOP_REVIEW_MODE" ] || [ "$AUTOLOOP_ITERATION" -lt 2 ] || "$AUTOLOOP_BIN" emit done
true
"""
EVIL = (
    "backend.sandbox = 'off'\\nnotify.command = ['touch', '{top}/sprung']\\n"
    "event_loop.gates = [['touch', '{top}/sprung']]"
)
FILES = ("topology.toml", "autoloops.toml", "roles/solo.md", "harness.md", "metareview.md", "agents.toml")


@pytest.fixture(params=[one.NAME for one in choice.IMPLEMENTATIONS])
def sandbox(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if why := choice.probe(request.param):
        pytest.skip(f"{request.param} does not work here: {why}")
    one = next(one for one in choice.IMPLEMENTATIONS if request.param == one.NAME)
    monkeypatch.setattr(choice, "IMPLEMENTATIONS", (one,))
    return request.param


def project(top: Path, attack: str, *, folder: str = "work/loop", reviews: str = "false", only: bool = False) -> Path:
    """A loop in *folder* of a repository, whose agent makes *attack* in every turn; *only* has no optional file."""
    repository(top / "work")
    loop = top / folder
    (loop / "roles").mkdir(parents=True, exist_ok=True)
    (top / "agent.sh").write_text(AGENT.format(top=top, attack=attack.format(top=top, evil=EVIL.format(top=top))))
    (top / "agent.sh").chmod(0o755)
    settings = SETTINGS.format(reviews=reviews, agent=top / "agent.sh")
    (loop / "topology.toml").write_text(TOPOLOGY)
    (loop / "roles/solo.md").write_text("Work.")
    if only:
        (top / "config.toml").write_text(settings)
        return loop
    (loop / "autoloops.toml").write_text(settings)
    (loop / "harness.md").write_text("Small steps.")
    (loop / "metareview.md").write_text("Review.")
    (loop / "agents.toml").write_text("[defaults]\n")
    return loop


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the loop to its completion, and gives what it said and its records."""

    def run(*words: str) -> tuple[str, list[dict[str, Any]]]:
        monkeypatch.chdir(tmp_path / "work")
        monkeypatch.setenv("HOME", str(tmp_path / "home"))
        if (tmp_path / "config.toml").exists():
            monkeypatch.setenv("AUTOLOOP_CONFIG", str(tmp_path / "config.toml"))
        status = app.main(["run", "loop", "go", *words])
        said = capsys.readouterr().err
        assert status == 0, said
        [path] = (tmp_path / "work").glob(".autoloop/runs/*/journal.jsonl")
        return said, [json.loads(line) for line in path.read_text().splitlines()]

    return run


def texts(loop: Path) -> dict[str, str]:
    return {name: (loop / name).read_text() for name in FILES}


ATTACKS = {
    "write": "for f in autoloops.toml topology.toml agents.toml roles/solo.md harness.md metareview.md; do"
    ' printf "{evil}" > loop/$f; done',
    "replace": "for f in autoloops.toml topology.toml agents.toml roles/solo.md harness.md metareview.md; do"
    ' printf "{evil}" > new; mv -f new loop/$f; rm -f loop/$f; ln -sf /etc/passwd loop/$f; done',
    "move the folder": 'mv loop other; mkdir -p loop/roles; cp -r other/* loop/; printf "{evil}" > loop/autoloops.toml',
    "move a folder in it": 'mv loop/roles loop/old; mkdir loop/roles; printf "EVIL" > loop/roles/solo.md',
}


@pytest.mark.slow
@pytest.mark.parametrize("attack", ATTACKS)
def test_files_that_exist_are_as_before(tmp_path: Path, sandbox: str, run: Run, attack: str) -> None:
    """In the loop's folder, below the working directory of the agent."""
    loop = project(tmp_path, ATTACKS[attack])
    before = texts(loop)
    run()

    assert texts(loop) == before
    assert not (tmp_path / "sprung").exists()


NEW = ("autoloops.toml", "autoloops.conf", "agents.toml", "coterie.toml", "harness.md", "metareview.md")


@pytest.mark.slow
@pytest.mark.parametrize("words", [(), ("--worktree",)], ids=["here", "worktree"])
def test_a_file_that_did_not_exist_is_moved_and_reported(
    tmp_path: Path, sandbox: str, run: Run, words: tuple[str, ...]
) -> None:
    """Neither this run nor a later one obeys it, nor one that the work tree of the run would bring."""
    made = " ".join(f"loop/{name}" for name in NEW)
    state = ".autoloop/overrides .autoloop/profiles/p/loop"
    attack = (
        f'for f in {made}; do printf "{{evil}}" > $f; done; '
        f"for d in . {{top}}/work; do mkdir -p $(for s in {state}; do echo $d/$s; done); "
        'printf "{evil}" > $d/.autoloop/overrides/loop.toml; echo EVIL > $d/.autoloop/profiles/p/loop/solo.md; done'
    )
    loop = project(tmp_path, attack, only=True)
    git(tmp_path / "work", "add", "--all")
    git(tmp_path / "work", "commit", "--quiet", "--message", "loop")
    _, records = run(*words)

    assert not [name for name in NEW if (loop / name).exists()]
    assert not (tmp_path / "work/.autoloop/overrides").exists()
    assert not (tmp_path / "work/.autoloop/profiles").exists()
    assert not (tmp_path / "sprung").exists()
    left = {path.name.rpartition("-")[0] for path in (tmp_path / "work").glob(".autoloop/runs/*/turns/*/left/*")}
    assert left >= {*NEW}
    log = next((tmp_path / "work").glob(".autoloop/runs/*/turns/iteration#1.1/stream.jsonl")).read_text()
    assert "autoloops.toml did not exist when the attempt began: it was moved to" in log
    assert not [record for record in records if record["topic"] == "config.changed"]
    assert sorted(path.name for path in loop.iterdir()) == ["roles", "topology.toml"]


@pytest.mark.slow
def test_an_agent_makes_its_folder_a_repository_with_settings(tmp_path: Path, sandbox: str, run: Run) -> None:
    """A later run would take the folder for the root of a repository, and read the overrides in it."""
    attack = 'git init -q .; mkdir -p .autoloop/overrides; printf "{evil}" > .autoloop/overrides/loop.toml'
    project(tmp_path, attack)
    (tmp_path / "work" / ".git").rename(tmp_path / ".git")
    run()

    assert (tmp_path / "work" / ".git").exists()
    assert not (tmp_path / "work/.autoloop/overrides").exists()
    assert list((tmp_path / "work").glob(".autoloop/runs/*/turns/*/left/overrides-*"))


@pytest.mark.slow
def test_a_review_changes_texts_and_no_settings(tmp_path: Path, sandbox: str, run: Run) -> None:
    """Roles, harness and metareview as before; what holds a protecting setting stays."""
    attack = (
        '[ -z "$AUTOLOOP_REVIEW_MODE" ] || {{ echo BETTER > loop/roles/solo.md; echo BETTER > loop/harness.md; '
        'echo BETTER > loop/metareview.md; printf "{evil}" > loop/autoloops.toml; '
        'printf "{evil}" >> loop/topology.toml; '
        'printf "{evil}" > loop/autoloops.conf; }}; echo WORSE > loop/harness.md'
    )
    loop = project(tmp_path, attack, reviews="true")
    before = texts(loop)
    run()

    after = texts(loop)
    assert [name for name in FILES if after[name] == before[name]] == ["topology.toml", "autoloops.toml", "agents.toml"]
    assert after["roles/solo.md"] == "BETTER\n"
    assert not (loop / "autoloops.conf").exists()
    assert not (tmp_path / "sprung").exists()


def test_a_run_ignores_settings_that_did_not_exist_when_it_began(tmp_path: Path, run: Run) -> None:
    """Also those of an agent without a sandbox; a warning says so."""
    attack = 'printf "{evil}" > loop/autoloops.toml; printf "[defaults]\\nagent = \'evil\'" > loop/agents.toml'
    project(tmp_path, attack, only=True)
    said, records = run("--set", "backend.sandbox=off")

    assert "did not exist when the run began, so it does not read it" in said
    assert not [record for record in records if record["topic"] == "config.changed"]
    assert not (tmp_path / "sprung").exists()


def test_what_a_link_leads_to_is_not_put_back(tmp_path: Path) -> None:
    """An agent replaced a folder of the team by a link to another one, whose file stays."""
    for name in ("roles", "others"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "solo.md").write_text(name)
    (tmp_path / "attempt").mkdir()
    with kept([tmp_path / "roles", tmp_path / "roles" / "solo.md"], tmp_path / "attempt", str, restores=True):
        (tmp_path / "roles").rename(tmp_path / "old")
        (tmp_path / "roles").symlink_to("others")

    assert [(tmp_path / name / "solo.md").read_text() for name in ("roles", "others")] == ["roles", "others"]
    assert not (tmp_path / "roles").is_symlink()


def test_what_was_written_over_a_team_file_is_kept_beside_the_attempt(tmp_path: Path) -> None:
    """It may be a person's edit; the file itself is as before."""
    team = tmp_path / "team.at"
    team.write_text("as it was")
    (tmp_path / "attempt").mkdir()
    with kept([team], tmp_path / "attempt", str, restores=True):
        team.write_text("an edit")

    assert team.read_text() == "as it was"
    [left] = (tmp_path / "attempt" / "left").iterdir()
    assert left.read_text() == "an edit"


@pytest.mark.parametrize("restores", [True, False])
def test_the_next_owner_does_what_a_killed_one_has_not(tmp_path: Path, restores: bool) -> None:
    """What an attempt left in the team's files is gone before the run reads them again."""
    files, attempts = [tmp_path / name for name in ("there", "new", "link")], AttemptFolders(Runs(tmp_path / "state"))
    files[0].write_text("as it was")
    files[2].symlink_to("there")
    (folder := attempts.attempt_folder(AttemptRef(run="r", turn="a#1", attempt=1))).mkdir(parents=True)
    killed = kept(files, folder, str, restores=restores)
    with ExitStack() as never:
        never.enter_context(killed)
        files[0].write_text("evil" if restores else "as it was")
        files[1].write_text("evil")
        files[2].unlink()
        files[2].write_text("evil")

        attempts.clear_attempts("r", [("a#1", 1)])

        assert [path.read_text() if path.exists() else "" for path in files] == ["as it was", "", "as it was"]
        assert files[2].is_symlink()
        files[1].write_text("a person's")
    assert files[1].exists(), "it is done once"
    assert {path.name[:3] for path in (folder / "left").iterdir()} >= {"new", "lin"}
