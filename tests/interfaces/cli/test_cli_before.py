"""Before the first turn: what the user is asked, and the block that says what a run may do."""

import json
import subprocess
from pathlib import Path
from unittest.mock import patch

import pytest
from command_line import Place
from fake_models import FakeModels, Say
from typing_user import at_terminal

from coterie.agents.backends.sandbox import choice
from coterie.base import agent_writes
from coterie.interfaces.cli.run import plan_of
from coterie.interfaces.cli.text.preflight import before
from coterie.proofs.preflight import Preflight, preflight
from coterie.team.formats.settings import remembered
from coterie.team.planning.plan import Limits

TEAM = """topology notes : [pipeline] {
  agent writer { model: sonnet  tools: [Read]  prompt: "Write." }
  agent critic { model: sonnet  prompt: "Judge."  outputs { verdict: approve | revise } }
  flow {
    writer -> critic
    critic -> writer [when critic.verdict == revise, max 2]
  }
}
"""
CLAUDE = """#!/bin/sh
case "$*" in
  --version) echo "2.1.4 (Claude Code)" ;;
  "auth status") [ -f "$HOME/.claude/login" ] && echo '{"loggedIn": true}' || echo '{"loggedIn": false}' ;;
esac
"""
ANSWER = Say("fine", calls=[("give_outputs", {"verdict": "approve"})])
ENTER = "\n"


@pytest.fixture
def at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A folder with a team that has no backend, where neither a key nor a login is known."""
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "COTERIE_CASSETTE", "CLAUDE_CONFIG_DIR"):
        monkeypatch.delenv(name, raising=False)
    folder, programs = tmp_path / "project", tmp_path / "bin"
    folder.mkdir()
    programs.mkdir()
    (folder / "notes.at").write_text(TEAM)
    (programs / "claude").write_text(CLAUDE)
    (programs / "claude").chmod(0o755)
    (programs / "quick").write_text("#!/bin/sh\necho done\n")
    (programs / "quick").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    return Place(folder)


@pytest.fixture
def models(at: Place, monkeypatch: pytest.MonkeyPatch) -> "FakeModels":
    """A provider whose key is set."""
    with FakeModels(choose=lambda body: ANSWER if "give_outputs" in str(body.get("tools")) else Say("A note.")) as made:
        for name, value in made.environment.items():
            monkeypatch.setenv(name, value)
        yield made


def repository(folder: Path) -> None:
    """Make *folder* a git repository with a commit and an uncommitted file."""
    for words in (
        ["init", "-q", "-b", "main"],
        ["add", "."],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"],
    ):
        subprocess.run(["git", *words], cwd=folder, check=True)
    (folder / "draft.txt").write_text("not committed")


def test_a_key_that_is_set_is_offered_with_the_worst_case_and_used_after_enter(at: Place, models: FakeModels) -> None:
    """The offer is not remembered unless that is asked for."""
    shown = at_terminal(at.folder, "run", "notes.at", "Tea", keys=ENTER)

    assert shown.status == 0, shown.screen
    question = shown.screen.partition("> ")[0]
    assert question.startswith("no backend is configured; ready here: the key ANTHROPIC_API_KEY\n")
    assert "notes: 2 agents, model claude-sonnet-5-5\n" in question
    assert "at most 6 turns (writer 3, critic 3)" in question
    assert "--max-cost" in question
    assert "Enter  run with -b model\n" in question
    assert "fine" in shown.out
    assert len(models.requests) == 2
    assert not remembered.backend_for(at.folder, {})


def test_a_backend_is_remembered_for_a_project_only_when_asked(at: Place, models: FakeModels, own_home: Path) -> None:
    """In the user's folder, so that no file of the project decides; then it is used without a terminal, too."""
    (at.folder / ".git").mkdir()
    (at.folder / "inner").mkdir()
    shown = at_terminal(at.folder, "run", "notes.at", "Tea", keys="what?\nr\n")

    assert shown.status == 0, shown.screen
    assert "'what?' is none of Enter, r, n" in shown.screen
    file = own_home / "settings" / "autoloop" / "backends.toml"
    assert f"remembered in {file}" in shown.screen.replace("\n", "")
    assert f'"{at.folder}" = "model"' in file.read_text()

    said = Place(at.folder / "inner").look("run", "../notes.at", "Tea")
    assert said.err.startswith(f"-b model is remembered for {at.folder} in {file}\n")
    file.write_text("no = toml = at all")
    assert "correct or remove it" in at.look("run", "notes.at", "Tea", status=2).err


@pytest.mark.parametrize("keys", ["n\n", ""], ids=["no", "ctrl-d"])
def test_what_is_refused_does_not_run(at: Place, models: FakeModels, keys: str) -> None:
    """Nothing is asked of a model, and nothing is written."""
    shown = at_terminal(at.folder, "run", "notes.at", "Tea", keys=keys)

    assert shown.status == 130
    assert not models.requests
    assert [path.name for path in at.folder.iterdir()] == ["notes.at"]


def test_yes_uses_what_is_ready_without_a_question(at: Place, models: FakeModels) -> None:
    """Without a terminal, too; a document says before what was known before."""
    said = at.look("run", "notes.at", "Tea", "--yes", "--json", "--max-cost", "1")
    document = json.loads(said.out)
    assert "recorded in" not in said.err

    assert document["outcome"] == "completed"
    known = document["before"]
    assert known["backends"] == {"model claude-sonnet-5-5": ["writer", "critic"]}
    assert (known["turns"], known["agents"], known["max_cost"]) == (6, {"writer": 3, "critic": 3}, 1.0)
    assert (known["tools"], known["spends"]) == (["Read"], True)
    assert "at most 6 turns" in at.look("run", "notes.at", "Tea", "--yes").err


def test_elsewhere_an_error_says_what_each_backend_needs(
    at: Place, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The login is that of this home; --yes cannot use what is not there."""
    monkeypatch.setattr("coterie.team.options.backends.find_spec", lambda name: None)
    for words in (["run", "notes.at", "Tea"], ["run", "notes.at", "Tea", "--yes"]):
        said = at.look(*words, status=1).err
        assert "no backend configured for writer, critic" in said
        assert "-b claude-sdk   needs:\n                    pip install 'coterie[claude]'\n" in said
        assert "run `claude` and enter /login" in said
        assert "-b model        needs:\n                    export ANTHROPIC_API_KEY=…\n" in said
        assert "--rehearse" in said

    monkeypatch.setenv("ANTHROPIC_API_KEY", "key")
    shown = at_terminal(at.folder, "run", "notes.at", "Tea", "--json", keys=ENTER)  # a program reads it
    assert (shown.status, shown.screen) == (1, "")
    assert "ready: the key ANTHROPIC_API_KEY" in shown.out
    monkeypatch.delenv("ANTHROPIC_API_KEY")

    (own_home / ".claude").mkdir()
    (own_home / ".claude" / "login").touch()
    said = at_terminal(at.folder, "run", "notes.at", "Tea", keys=ENTER)
    assert said.status == 1
    assert "pip install 'coterie[claude]'" in said.screen
    assert "/login" not in said.screen


def test_a_fork_says_it_too_and_takes_a_cassette(at: Place, models: FakeModels) -> None:
    """A run is recorded, and its fork replays it at no cost: then there is no block, which a fork that pays has."""
    at.look("run", "notes.at", "Tea", "--yes", "--cassette", "record:tape.jsonl")
    asked = len(models.requests)
    replayed = at.look("fork", "last", "--at", "1", "--cassette", "tape.jsonl").err
    assert len(models.requests) == asked
    assert "recorded in" not in replayed

    said = at.look("fork", "last", "--at", "1", "--max-cost", "1").err
    assert len(models.requests) > asked
    assert "notes: 2 agents, model claude-sonnet-5-5\n" in said
    assert "(writer 3, critic 3) and $1.0" in said
    assert "\n  recorded in" in said
    document = json.loads(at.look("fork", "last", "--at", "1", "--json").out)
    assert document["before"]["max_cost"] is None


UNCONFINED = """topology t : [pipeline] {
  agent coder { extensions { coterie { command: ["quick"]  sandbox: auto%s } } }
  agent helper { extensions { coterie { command: ["sh", "helper.sh"] } } }
  agent other { extensions { coterie { command: ["quick"] } } }
  action test { commands: ["make test"] }
  action safe { commands: ["make safe"]  extensions { coterie { sandbox: auto } } }
  flow { coder -> helper -> other -> test -> safe }
}
"""


def test_the_block_names_what_runs_the_files_of_a_checkout_unconfined(at: Place) -> None:
    """Actions, gates and agents whose program is there, if programs in a sandbox write there; else nothing is new."""
    if choice.working() is None:
        pytest.skip("no sandbox works here")
    (at.folder / "helper.sh").write_text("true")
    gates = '  gates: [["make", "check"]]  gate-sandbox: off'
    for words, more in ((UNCONFINED % gates, ["the gate of coder (`make check`)"]), (UNCONFINED % "", [])):
        (at.folder / "t.at").write_text(words)
        found = preflight(plan_of(at.folder / "t.at"), Limits(), at.folder, "")
        assert sorted(found.unconfined) == sorted(["helper (`sh helper.sh`)", "test (`make test`)", *more])
    assert "may execute, without a sandbox, what its agents write" in before(found)

    with agent_writes.noted(at.folder, [at.folder], {}):
        (at.folder / "helper.sh").write_text("evil")
        found = preflight(plan_of(at.folder / "t.at"), Limits(), at.folder, "")
    assert any("helper (`sh helper.sh`), which will not start: it executes" in one for one in found.unconfined)

    (at.folder / "t.at").write_text((UNCONFINED % gates).replace("sandbox: auto", "sandbox: off"))
    found = preflight(plan_of(at.folder / "t.at"), Limits(), at.folder, "")
    assert found.unconfined == []
    assert "without a sandbox" not in before(found)


def test_the_block_for_nodes_says_what_is_sent_to_them(at: Place) -> None:
    """Their sandbox is not this machine's, and Ctrl-C does not stop them."""
    repository(at.folder)
    plan = plan_of(at.folder / "notes.at", "claude-sdk")
    text = before(preflight(plan, Limits(), at.folder, "the cluster", on_nodes=True)).replace("\n  ", " ")
    assert "the sandbox of each node; all tools allowed" in text
    assert f"works on the nodes of the cluster, with the files of {at.folder} on main, with 1 uncommitted file" in text
    assert "recorded in the cluster; `coterie control stop RUN` stops it, `coterie resume RUN` continues it" in text
    bare = before(preflight(plan, Limits(), None, "the cluster", on_nodes=True))
    assert "  works on the nodes of the cluster, without files\n" in bare


def test_what_cannot_run_is_refused_before_the_block(at: Place) -> None:
    """A key or an input that is missing: nothing else is printed."""
    said = at.look("run", "notes.at", "Tea", "-b", "model", status=1).err
    assert said.startswith("error[no-api-key]: the environment variable ANTHROPIC_API_KEY is not set")
    debate = Path(__file__).parents[3] / "examples" / "patterns" / "debate.pattern.yaml"
    assert at.look("run", str(debate), status=2).err.startswith("coterie: debate: Debate needs an input `question`")


def test_of_several_backends_that_are_ready_another_can_be_chosen(
    at: Place, models: FakeModels, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The login of Claude Code comes first."""
    monkeypatch.setattr("coterie.team.options.backends.find_spec", lambda name: True)
    (own_home / ".claude").mkdir()
    (own_home / ".claude" / "login").touch()
    shown = at_terminal(at.folder, "run", "notes.at", "Tea", keys="model\n")

    assert shown.status == 0, shown.screen
    assert "ready here: Claude Code 2.1.4, logged in; the key" in shown.screen.replace("\n", " ")
    assert "notes: 2 agents, claude-sdk\n" in shown.screen
    assert len(models.requests) == 2


def test_a_preset_asks_for_its_objective(at: Place) -> None:
    """On a terminal; elsewhere, and without an answer, that is an error in the use."""
    once = ("run", "autofix", "-b", "quick", "--iterations", "1")
    shown = at_terminal(at.folder, *once, keys="Find the bug\n")
    assert shown.status == 3, shown.screen
    assert shown.screen.startswith("What is autofix to do? ")
    assert "Find the bug" in at.look("inspect", "last", "timeline").out

    line = 'coterie: autofix has no objective: coterie run autofix "…"\n'
    assert at_terminal(at.folder, *once, keys=ENTER).screen.endswith(line)
    assert at.look(*once, status=2).err == line


def test_a_preset_offers_a_work_tree_where_files_are_not_committed(at: Place) -> None:
    """Enter works in these files; nothing is asked with an option that decides, with --yes, and elsewhere."""
    repository(at.folder)
    once = ("run", "autofix", "Find it", "-b", "quick", "--iterations", "1")
    branch = ["git", "branch", "--list", "autoloop/*"]

    def branches() -> int:
        return len(subprocess.run(branch, cwd=at.folder, capture_output=True, text=True).stdout.splitlines())

    shown = at_terminal(at.folder, *once, keys=ENTER)
    assert (shown.status, branches()) == (3, 0)
    assert "on main, with 1 uncommitted file" in " ".join(shown.screen.split())
    shown = at_terminal(at.folder, *once, keys="w\n")
    assert (shown.status, branches()) == (3, 1), shown.screen
    for words in (["--yes"], ["--no-worktree"]):
        shown = at_terminal(at.folder, *once, *words)
        assert (shown.status, branches()) == (3, 1)
    at.look(*once, status=3)
    assert branches() == 1
    subprocess.run(["git", "stash", "-qu"], cwd=at.folder, check=True)
    assert at_terminal(at.folder, *once).status == 3


def test_the_block_is_short_and_fits_a_terminal(at: Place) -> None:
    """Programs cost nothing: only a terminal shows them."""
    repository(at.folder)
    (at.folder / "quick.at").write_text(
        'topology quick : [pipeline] { agent a { extensions { coterie { command: ["quick"] } } } flow { a } }'
    )
    shown = at_terminal(at.folder, "run", "quick.at", "Tea")
    block = shown.screen.partition("recorded in")[0].splitlines()
    assert block[:2] == ["quick: 1 agent, programs", "  no sandbox"]
    assert "  at most 1 turn" in block
    with patch("coterie.proofs.preflight.preflight", side_effect=AssertionError):  # it would delay the run
        at.look("run", "quick.at", "Tea")

    (at.folder / "boss.at").write_text("topology asks : [human-gate] { human boss { } flow { boss } }")
    shown = at_terminal(at.folder, "run", "boss.at", "Tea", "--park")
    assert shown.status == 4, shown.screen
    assert "recorded in" not in shown.screen

    system = "supervision: {name: root, children: [{type: dynamic_supervisor, name: pool}]}"
    (at.folder / "topology.yaml").write_text(system)
    found = preflight(plan_of(at.folder / "topology.yaml"), Limits(max_turns=3), at.folder, ".coterie")
    assert (found.turns, found.acts, found.spends) == (3, False, False)

    large = Preflight(
        team="large",
        backends={"claude-sdk": [f"agent-{n}" for n in range(9)], "human": ["boss"]},
        spends=True,
        acts=True,
        sandbox={"none": ["agent-0"], "bwrap": [f"agent-{n}" for n in range(1, 9)]},
        permissions={"person": ["agent-0"], "denied": ["agent-1"]},
        tools=[],
        folder="/srv/work",
        worktree=True,
        max_cost=0.12345,
        results=".coterie",
    )
    text = before(large)
    assert max(map(len, text.splitlines())) <= 80
    assert "NO SANDBOX works here (agent-0), sandbox bwrap (agent-1," in " ".join(text.split())
    assert "asks you for permission (agent-0), none is granted (agent-1)" in " ".join(text.split())
    assert "separate git work tree, from /srv/work\n  turns without limit and $0.123\n" in text
