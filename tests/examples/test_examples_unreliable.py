"""The example of a debate whose server refuses, is slow, breaks off, and answers nothing, or not what was wanted."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import Place
from free_ports import free_port

pytestmark = pytest.mark.once

UNRELIABLE = Path(__file__).parents[2] / "examples" / "unreliable"
QUESTION = ("--input", "question=Is 91 a prime number?")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A copy of the example whose server listens at a free port; on a busy machine two seconds are short."""
    port = str(free_port())
    for source in (one for one in UNRELIABLE.iterdir() if one.is_file()):
        text = source.read_text().replace("8765", port).replace("timeout_seconds: 2", "timeout_seconds: 8")
        (tmp_path / source.name).write_text(text)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("COTERIE_CASSETTE", raising=False)
    return Place(tmp_path)


@pytest.fixture
def server(place: Place) -> Iterator["subprocess.Popen[str]"]:
    """Its server, which listens."""
    with subprocess.Popen(
        [sys.executable, "server.py"], cwd=place.folder, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("listening at http://127.0.0.1:")
        yield process
        process.terminate()


@pytest.mark.slow
def test_the_debate_ends_right_and_says_what_went_wrong(place: Place, server: "subprocess.Popen[str]") -> None:
    """Each failure is shown with its kind and reason, every request is counted, and the verdict is the right one."""
    said = place.call("run", "prime.pattern.yaml", *QUESTION)

    assert said.out == "No: 91 = 7 × 13.\n"
    assert said.err.startswith("prime: 3 agents, model tiny\n")
    assert " of the team prime began: “Is 91 a prime number?”\n" in said.err
    assert re.match(r"completed: 5 turns, .* run \S+$", said.err.splitlines()[-1])
    for failure in (
        "attempt 1 of proponent#1 failed (rate_limited): openai limits the rate of requests: 429 slow down; it asks to",
        "attempt 1 of opponent#1 failed (timeout): it took longer than its time-out of 8 s",
        "attempt 2 of opponent#1 failed (transient): openai cannot answer now: 503 the model is loading",
        "attempt 1 of judge#1 failed (transient): openai sent an answer that its protocol does not allow: ",
        "attempt 2 of judge#1 failed (invalid_output): the model gave an empty answer",
        "attempt 3 of judge#1 failed (invalid_output): expected the output 'verdict' to be one of \"proponent\", ",
    ):
        assert said.err.count(failure) == 1, failure
    server.terminate()
    assert server.stderr is not None
    asked = [line.partition(":")[0] for line in server.stderr]
    assert {who: asked.count(who) for who in asked} == {"proponent": 3, "opponent": 4, "judge": 4}


@pytest.mark.long
def test_a_second_debate_has_no_failure(place: Place, server: "subprocess.Popen[str]") -> None:
    """The result says who won, and in how many rounds."""
    place.call("run", "prime.pattern.yaml", *QUESTION)
    document = json.loads(
        place.call("run", "prime.pattern.yaml", "--input", "question=Is 97 a prime number?", "--json").out
    )

    debate = document["result"]["outputs"]["debate"]
    assert debate["conclusion"] == "Yes: no number up to 9 divides 97."
    assert (debate["winner"], debate["failures"]) == ("proponent", [])
    assert "failed" not in place.look("inspect", "last").out


@pytest.mark.slow
def test_the_python_program_reports_what_failed(place: Place) -> None:
    """It brings its own server, runs the file, and lists the failed requests of child runs, too."""
    server = place.folder / "server.py"
    server.write_text(server.read_text().replace('"slow", "unavailable"', '"unavailable"').replace(', "empty"', ""))
    done = subprocess.run(
        [sys.executable, "debate.py", "Is 91 a prime number?"],
        cwd=place.folder,
        capture_output=True,
        text=True,
        timeout=120,
    )

    assert done.returncode == 0, done.stderr
    result, report = done.stdout.split("\n\n")
    assert result == "No: 91 = 7 × 13."
    head, count, *failures = report.splitlines()
    assert head == "The opponent won after round 2."
    assert count == "4 requests failed and were sent again:"
    kinds = [re.sub(r"^- (\w+), attempt (\d): (\w+), .*", r"\1 \2 \3", line) for line in failures]
    assert kinds == [
        "proponent 1 rate_limited",
        "opponent 1 transient",
        "judge 1 transient",
        "judge 2 invalid_output",
    ]


@pytest.mark.parametrize("file", ["prime.pattern.yaml", "judge.at"])
def test_its_files_are_valid(file: str) -> None:
    """Without a warning."""
    assert Place(UNRELIABLE).look("topology", "validate", file).out == f"{file}: ok\n"


def test_a_port_that_is_taken_is_one_clear_sentence(place: Place, server: "subprocess.Popen[str]") -> None:
    """No traceback reaches the user."""
    done = subprocess.run([sys.executable, "server.py"], cwd=place.folder, capture_output=True, text=True, timeout=60)

    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert re.match(r"cannot listen at port \d+: Address already in use", done.stderr)
