"""What broke real runs of an earlier system, each as a real run here: long prompts, quick programs, steered waves."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from loop_projects import project, records, run
from posted import send

from coterie.execution.runs.messages import guidance
from coterie.history.journal import records as r


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the loop is called."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


READS = """
given = sys.argv[2] if len(sys.argv) > 2 else sys.stdin.read()
path = os.environ["AUTOLOOP_PROMPT_PATH"]
whole = pathlib.Path(path).read_text()
print(len(whole) > 300_000, given == whole, path in given and len(given) < 1000)
subprocess.run([emit, "emit", "done"], check=True, stdout=subprocess.DEVNULL)
"""


@pytest.mark.parametrize(("mode", "shown"), [("arg", "True False True"), ("stdin", "True True False")])
def test_a_prompt_of_300_kb(tmp_path: Path, mode: str, shown: str) -> None:
    """Defect D: it stood in the one argument of a shell. An argument names the file; standard input holds all of it."""
    loop = project(tmp_path / "loop", READS)
    (loop / "harness.md").write_text("Work in small steps.\n" * 15_000)
    outcome = run(loop, f"backend.prompt_mode={mode}")

    assert outcome.status == "completed", outcome
    assert outcome.result["text"].strip() == shown


@pytest.mark.parametrize("times", [60, pytest.param(200, marks=pytest.mark.long)])
def test_a_program_that_ends_at_once(tmp_path: Path, times: int) -> None:
    """Defect E: every twentieth of them was taken for a failure."""
    (tmp_path / "loop").mkdir()
    settings = 'backend.kind = "command"\nbackend.command = "true"\nreview.enabled = false\n'
    (tmp_path / "loop" / "autoloops.toml").write_text(settings + f"event_loop.max_iterations = {times}\n")
    outcome = run(tmp_path / "loop")

    assert (outcome.reason, outcome.iterations) == ("max_iterations", times)
    assert len(records(outcome.run, r.TurnFinished)) == times
    assert not records(outcome.run, r.AttemptFailed)


FANS_OUT = """
if "/" in os.environ["COTERIE_RUN"]:
    open("in the wave", "w").close()  # pipes: each end waits for the other
    open("go on").close()
elif turn == "iteration#1":
    subprocess.run([emit, "emit", "explore.parallel", "- look"], check=True, stdout=subprocess.DEVNULL)
else:
    print("Mind the tests" in sys.stdin.read())
    subprocess.run([emit, "emit", "done"], check=True, stdout=subprocess.DEVNULL)
"""


def test_what_the_command_line_sets_holds_for_emits_and_a_wave_is_steered(tmp_path: Path) -> None:
    """Defects N and G: emits knew nothing of `--set`, and nobody was heard while a wave ran."""
    os.mkfifo("in the wave")
    os.mkfifo("go on")

    def operate() -> None:
        Path("in the wave").read_text()
        [folder] = Path(".autoloop/runs").iterdir()
        assert send(folder, guidance("Mind the tests")).status == "accepted"
        Path("go on").write_text("")

    with ThreadPoolExecutor() as operator:
        operated = operator.submit(operate)
        outcome = run(project(tmp_path / "loop", FANS_OUT), "parallel.enabled=true")
    operated.result()
    assert outcome.status == "completed", outcome
    [guided] = records(outcome.run, r.OperatorSaid)
    [joined] = records(outcome.run, r.WaveJoined)
    assert guided.text == "Mind the tests"
    assert guided.at < joined.at
    assert outcome.result["text"].strip() == "True"


def test_without_that_setting_there_is_no_wave(tmp_path: Path) -> None:
    """The emit is rejected when it is made, and the program hears it."""
    outcome = run(project(tmp_path / "loop", FANS_OUT), "event_loop.max_failures=1")

    assert (outcome.status, outcome.reason.partition(":")[0]) == ("failed", "iteration#1 failed (exit)")
    assert [one.event for one in records(outcome.run, r.EventInvalid)] == ["explore.parallel"]
