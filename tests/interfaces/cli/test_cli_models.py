"""Whole runs of teams of models, against a provider on loopback or a cassette."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from asking import pids
from asking_models import results_of
from command_line import Place
from fake_models import FakeModels, Refuse, Reply, Say, text_of
from record_model_team import EXAMPLE, TASK, choose

from coterie.agents.backends.processes import alive, started

TEAM = """
topology notes : [pipeline] {
  agent writer { model: sonnet  prompt: "Write."  extensions { coterie { tools: ["counting:count"] } } }
  agent critic { model: gpt-5  prompt: "Judge."  outputs { verdict: approve | revise } }
  flow {
    writer -> critic
    critic -> writer [when critic.verdict == revise, max 2]
  }
}
"""
COUNTING = '''
from coterie.agents.backends import turn_key

def count(text: str) -> str:
    """Count the words of a text."""
    return f"{len(text.split())} words, {turn_key().partition('/')[2]}"
'''


@pytest.fixture
def models_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A folder with the team; no key is set."""
    (tmp_path / "team.at").write_text(TEAM)
    (tmp_path / "counting.py").write_text(COUNTING)
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_BASE_URL", "OPENAI_BASE_URL", "COTERIE_CASSETTE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delitem(sys.modules, "counting", raising=False)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return Place(tmp_path)


def reach(models: FakeModels, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the providers of this process be *models*."""
    for name, value in models.environment.items():
        monkeypatch.setenv(name, value)


def team(body: dict[str, Any]) -> Reply:
    """A writer that counts its words, and a critic that is content with the second note."""
    told = text_of(body)
    if "Judge." in told:
        verdict = "approve" if "the second note" in told else "revise"
        return Say("I have read it.", calls=[("give_outputs", {"verdict": verdict})], tokens=(1000, 100))
    if "words, writer#" not in told:
        return Say(calls=[("count", {"text": "three little words"})], tokens=(1000, 100))
    return Say("This is the second note." if "I have read it." in told else "A note.", tokens=(1000, 100))


def test_a_team_of_models_runs(models_place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a tool, a loop on an output, and the bill: two turns each, six answers."""
    with FakeModels(choose=team) as models:
        reach(models, monkeypatch)
        ran = models_place.look("run", "team.at", "Tea", "--backend", "model")

    assert "completed: 4 turns" in ran.err
    assert [body["model"] for body in models.requests] == [
        *["claude-sonnet-5-5"] * 2,
        "gpt-5",
        *["claude-sonnet-5-5"] * 2,
        "gpt-5",
    ]
    assert "3 words, writer#1" in text_of(models.requests[1])
    assert "3 words, writer#2" in text_of(models.requests[4])
    turn = json.loads(models_place.look("inspect", "last", "turn", "critic#2", "--json").out)
    assert (turn["text"], turn["outputs"]) == ("I have read it.", {"verdict": "approve"})
    usage = json.loads(models_place.look("inspect", "last", "usage", "--json").out)
    assert (usage["total"]["input_tokens"], usage["total"]["output_tokens"]) == (6000, 600)
    assert usage["agents"]["writer"]["cost"] > usage["agents"]["critic"]["cost"] > 0
    assert models.key not in "".join(
        path.read_text(errors="replace") for path in models_place.folder.rglob("*") if path.is_file()
    )


LOOP = """
completion = "done"
[[role]]
id = "writer"
emits = ["draft.ready"]
prompt = "Write."
[[role]]
id = "reader"
emits = ["done"]
prompt = "Read."
[handoff]
"loop.start" = ["writer"]
"draft.ready" = ["reader"]
"""
SETTINGS = 'backend.kind = "model"\nbackend.model = "sonnet"\nreview.enabled = false\n'


def test_models_play_the_roles_of_a_loop(models_place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """They emit through a tool, with the verdict in its result, and can run nothing else through it."""
    commands = ["emit done", "run team.at", "emit draft.ready 'It begins; a > b'", "emit", "emit done"]

    def choose_next(body: dict[str, Any]) -> Reply:
        results = results_of(body)
        played.extend(results[-1:])
        if results and "emitted" in results[-1]:
            return Say("Over to you.")
        return Say(calls=[("autoloops", {"command": commands.pop(0)})])

    played: list[str] = []
    folder = models_place.folder / "loop"
    folder.mkdir()
    (folder / "topology.toml").write_text(LOOP)
    (folder / "autoloops.toml").write_text(SETTINGS)
    with FakeModels(choose=choose_next) as models:
        reach(models, monkeypatch)
        ran = models_place.look("run", "loop", "Tea")

    assert "completed (completion_event): 2 turns" in ran.err
    assert "iteration#1 emitted draft.ready with “It begins; a > b”" in models_place.look("inspect", "last").out
    rejected, refused, sent, misused, done = played
    assert "exit status 1" in rejected
    assert "draft.ready" in rejected
    assert "write emit EVENT" in refused
    assert "exit status 0\\nemitted draft.ready" in sent
    assert "name the event" in misused
    assert "exit status 0\\nemitted done" in done


def test_an_output_that_does_not_fit_is_asked_for_again(models_place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run tells the model what was wrong, in a new attempt."""
    replies = [Say("A note."), Say(calls=[("give_outputs", {"verdict": "perhaps"})]), Say("verdict: approve")]
    with FakeModels(*replies) as models:
        reach(models, monkeypatch)
        ran = models_place.look("run", "team.at", "Tea", "--backend", "model")

    assert "invalid_output" in ran.err
    assert "expected the output 'verdict' to be one of" in text_of(models.requests[2])
    assert "completed: 2 turns" in ran.err


def test_an_unknown_price_is_told_with_the_bill(models_place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """It counts as nothing, and the table says so."""
    text = TEAM.replace("gpt-5", "openai/house-model").replace("sonnet", "openai/house-model")
    (models_place.folder / "team.at").write_text(text)
    with FakeModels(Say("verdict: approve")) as models:
        reach(models, monkeypatch)
        models_place.look("run", "team.at", "Tea", "--backend", "model")

    assert "The price of 2 answers is unknown and counts as $0." in models_place.look("inspect", "last", "usage").out


def test_what_is_missing_is_told_before_anything_runs(models_place: Place) -> None:
    """Every variable, with who wants it; no run is made."""
    refused = models_place.look("run", "team.at", "Tea", "--backend", "model", status=1)

    assert "error[no-api-key]: the environment variable ANTHROPIC_API_KEY is not set, but writer" in refused.err
    assert "error[no-api-key]: the environment variable OPENAI_API_KEY is not set, but critic" in refused.err
    assert not (models_place.folder / ".coterie" / "runs").exists()


def test_a_cassette_stands_in_for_the_providers(models_place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """What one run records, another plays: no key, no server, the same bill."""
    with FakeModels(choose=team) as models, monkeypatch.context() as patch:
        reach(models, patch)
        models_place.look("run", "team.at", "Tea", "--backend", "model", "--cassette", "record:tape.jsonl")
        first = models_place.look("inspect", "last", "usage", "--json").out
    models_place.look("run", "team.at", "Tea", "--backend", "model", "--cassette", "tape.jsonl")
    again = models_place.look("inspect", "last", "usage", "--json").out

    assert json.loads(again)["total"]["cost"] == json.loads(first)["total"]["cost"] > 0
    other = models_place.look("run", "team.at", "Coffee", "--backend", "model", "--cassette", "tape.jsonl", status=1)
    assert "is not on the cassette tape.jsonl" in other.err
    absent = models_place.look("run", "team.at", "-b", "model", "--cassette", "no.jsonl", status=2)
    assert "the cassette no.jsonl cannot be read" in absent.err


@pytest.mark.slow
def test_a_run_that_was_killed_asks_only_what_was_in_flight(
    models_place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer's finished turn is not asked again; the critic is, and is told so."""
    reached = threading.Event()

    def choose_slowly(body: dict[str, Any]) -> Reply:
        if "Judge." in text_of(body) and "was interrupted" not in text_of(body):
            reached.set()
            return Say("I think about it", hold=lambda: threading.Event().wait(0.01))
        return Say("verdict: approve") if "Judge." in text_of(body) else Say("A note.")

    with FakeModels(choose=choose_slowly) as models:
        process = models_place.start("run", "team.at", "Tea", "-b", "model", env=os.environ | models.environment)
        try:
            assert reached.wait(300)
            process.send_signal(signal.SIGKILL)
        finally:
            process.kill()
            process.communicate()
        assert models.dropped.wait(60)
        asked = len(models.requests)
        reach(models, monkeypatch)
        resumed = models_place.look("resume", "last")

    assert "completed: 2 turns" in resumed.err
    assert (asked, len(models.requests)) == (2, 3)
    assert "An earlier attempt was interrupted" in text_of(models.requests[2])


def test_a_provider_that_wants_to_be_left_alone_is(models_place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The journal says how long, and the run waits at least so long before it asks again."""
    replies = [
        Refuse(429, "rate_limit_error", headers={"retry-after-ms": "300"}),
        Say("A note."),
        Say("verdict: approve"),
    ]
    with FakeModels(*replies) as models:
        reach(models, monkeypatch)
        models_place.look("run", "team.at", "Tea", "--backend", "model")

    records = json.loads(models_place.look("inspect", "last", "journal", "--json").out)
    (failed,) = [record for record in records if record["topic"] == "attempt.failed"]
    (again,) = [record for record in records if record["topic"] == "turn.started" and record.get("attempt") == 2]
    assert (failed["kind"], failed["wait"]) == ("rate_limited", 0.3)
    assert again["at"] - failed["at"] >= 0.3


def test_looking_at_a_team_of_models_loads_no_library(models_place: Place) -> None:
    """Checking, showing and rehearsing need none of it, and start as fast as ever."""
    code = (
        "import sys\nfrom coterie.interfaces.cli.app import main\n"
        "for words in (['topology', 'validate', 'team.at'], ['run', 'team.at', '-b', 'model', '--rehearse']):\n"
        "    assert main(words) == 0\n"
        "heavy = {'pydantic', 'pydantic_ai', 'anthropic', 'openai', 'httpx2', 'mcp', 'fastmcp'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=models_place.folder, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr


def test_the_example_plays_its_cassette(models_place: Place) -> None:
    """Without a key: what the page on model agents shows."""
    shutil.copytree(EXAMPLE, models_place.folder / "model-team")
    ran = models_place.look("run", "model-team/team.at", TASK, "--cassette", "model-team/cassette.jsonl")

    assert 'editor#1 answered verdict = "revise"' in ran.err
    assert "completed: 4 turns" in ran.err


def test_the_cassette_of_the_example_is_what_is_asked_today(
    models_place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`tests/support/record_model_team.py` makes it anew when a question or a library changed."""
    with FakeModels(choose=choose) as models:
        reach(models, monkeypatch)
        models_place.look("run", str(EXAMPLE / "team.at"), TASK, "--cassette", "record:tape.jsonl")

    def questions(file: Path) -> list[Any]:
        return [json.loads(line)["request"] for line in file.read_text().splitlines()]

    assert questions(models_place.folder / "tape.jsonl") == questions(EXAMPLE / "cassette.jsonl")


def test_the_first_team_of_the_readme_reads_and_writes_files(
    models_place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each agent has the tools that it names, in the directory of the run; the state of runs stays closed."""
    shutil.copy(Path(__file__).parents[3] / "examples" / "code-review.at", models_place.folder / "review.at")
    (models_place.folder / "parser.py").write_text("def parse(): ...\n")
    offered: dict[frozenset[str], int] = {}

    def choose(body: dict[str, Any]) -> Reply:
        names = {tool.get("function", tool)["name"] for tool in body.get("tools", ())} - {"give_outputs"}
        offered[frozenset(names)] = offered.get(frozenset(names), 0) + 1
        told = text_of(body)
        if "Write" in names and "wrote" not in told:
            return Say(calls=[("Write", {"path": "review.md", "content": "good"})])
        if "Grep" in names and "parser.py:1:" not in told:
            return Say(calls=[("Grep", {"pattern": "def"}), ("Glob", {"pattern": ".coterie/**"})])
        return Say("Done.\n\nverdict: approve")

    with FakeModels(choose=choose) as models:
        reach(models, monkeypatch)
        said = models_place.look("run", "review.at", "Review the parser", "-b", "model")

    assert "warning" not in said.err
    assert (models_place.folder / "review.md").read_text() == "good"
    assert set(offered) == {frozenset({"Read", "Grep"}), frozenset({"Read", "Write"}), frozenset({"Read"})}


@pytest.mark.slow
def test_a_program_of_a_model_does_not_outlive_a_killed_run(
    models_place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next owner ends it, as it ends what a command agent left, and asks the model again."""
    folder = models_place.folder
    (folder / "busy.at").write_text(
        'topology busy : [pipeline] {\n  settings { allow: ["Bash"] }\n  extensions { coterie { backend: model } }\n'
        "  agent a { model: sonnet  tools: [Bash] }\n  agent b { model: sonnet }\n  flow { a -> b }\n}\n"
    )
    (folder / "busy.sh").write_text("setsid sleep 600 & echo $! > pid-1\necho $$ > pid-2\necho > ready\nwait\n")
    os.mkfifo(folder / "ready")

    with FakeModels(Say(calls=[("Bash", {"command": "sh busy.sh"})]), Say("Done.")) as models:
        reach(models, monkeypatch)
        with models_place.start("run", "busy.at", "x") as process:
            (folder / "ready").read_text()
            process.kill()
            process.communicate()
        left = [pid for pid in pids(folder) if alive(pid, started(pid))]
        models_place.look("resume", "last")

    assert len(left) == 2
    assert not any(alive(pid, started(pid)) for pid in left)
