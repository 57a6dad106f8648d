"""Gates of a loop: a completion counts only once the commands of `event_loop.gates` have succeeded."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import preforked
import pytest
from loop_projects import project, records, run
from until import until

from coterie.execution.runs import launch
from coterie.history.journal import records as r

EMITS = """
prompt = sys.stdin.read()
told = subprocess.run([emit, "emit", "done"], capture_output=True, text=True)
pathlib.Path(f"told.{turn}").write_text(f"{told.returncode}\\n{told.stdout}{told.stderr}")
pathlib.Path(f"prompt.{turn}").write_text(prompt)
if turn == "iteration#1":
    pathlib.Path("fixed").write_text("")
"""
"""An agent that completes at once, and does the work after that."""
GATE = """
import os, pathlib, shutil, sys
names = sorted(name for name in os.environ if name.startswith(("COTERIE_", "AUTOLOOP_")) or name.endswith("_KEY"))
pathlib.Path("environment").write_text(" ".join(names) + "\\n" + str(shutil.which("autoloops")))
print("checking", os.getcwd())
sys.exit(0 if pathlib.Path("fixed").exists() else "fixed is missing")
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the loop is called."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


def gated(folder: Path, script: str, gate: str = GATE, *, settings: str = "") -> Path:
    """A loop whose agent does *script*, with the program *gate* as its gate."""
    loop = project(folder, script, settings)
    (loop / "gate.py").write_text(gate)
    with (loop / "autoloops.toml").open("a") as file:
        file.write(f'event_loop.gates = [["{sys.executable}", "{loop / "gate.py"}"]]\n')
    return loop


def test_a_gate_that_fails_refuses_the_completion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The emitter, the journal and the next prompt have the command, its status and the end of its output."""
    monkeypatch.setenv("A_PROVIDER_KEY", "a secret word")
    outcome = run(gated(tmp_path / "loop", EMITS))

    assert (outcome.status, outcome.iterations) == ("completed", 2)
    [invalid] = records(outcome.run, r.EventInvalid)
    assert "gate.py` ended with status 1;" in invalid.reason
    assert f"checking {Path.cwd()}" in invalid.reason
    assert Path("told.iteration#1").read_text().startswith(f"1\nrejected: {invalid.reason}")
    assert Path("told.iteration#2").read_text().startswith("0\nemitted done")
    assert f"checking {Path.cwd()}" in Path("prompt.iteration#2").read_text()
    assert "gate.py" in Path("prompt.iteration#1").read_text()
    assert [one.passed for one in records(outcome.run, r.GateChecked)] == [False, True]
    names, tool = Path("environment").read_text().split("\n")
    assert "A_PROVIDER_KEY" not in names
    assert "COTERIE_TOKEN" not in names
    assert "COTERIE_RUN_DIR" not in names
    assert "AUTOLOOP_BIN" not in names
    assert "COTERIE_ATTEMPT_ID" in names  # by which what it leaves behind is found
    assert tool == "None"


def test_a_promise_is_checked_too(tmp_path: Path) -> None:
    script = "sys.stdin.read()\nif turn == 'iteration#2': pathlib.Path('fixed').write_text('')\nprint('ALL DONE')\n"
    settings = 'event_loop.completion_promise = "ALL DONE"\n'
    outcome = run(gated(tmp_path / "loop", script, settings=settings))

    assert (outcome.status, outcome.iterations) == ("completed", 2)
    refused, promised = records(outcome.run, r.TurnFinished)
    assert "ended with status 1" in refused.promise_refused
    assert promised.promised


def test_a_gate_that_takes_longer_than_an_emitter_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The owner asks the sender to ring again, as long as the gate runs; another event is refused meanwhile."""
    monkeypatch.setattr("coterie.execution.runs.messages.inbox.PATIENCE", 0.2)
    script = """
sys.stdin.read()
first = subprocess.Popen([emit, "emit", "done"], stdout=subprocess.PIPE, text=True)
open("gate runs").read()
second = subprocess.run([emit, "emit", "done"], capture_output=True, text=True)
open("go on", "w").write("")
print(first.communicate()[0], second.stderr)
"""
    gate = 'import time; open("gate runs", "w").write(""); open("go on").read(); time.sleep(0.5)'
    os.mkfifo("gate runs")
    os.mkfifo("go on")
    outcome = run(gated(tmp_path / "loop", script, gate))

    assert outcome.status == "completed"
    assert outcome.result["text"].split("\n")[0] == "emitted done"
    assert "the gates of done are still running" in outcome.result["text"]
    assert not records(outcome.run, r.EventInvalid)


SAYS = 'print("done, all tests pass")'
"""An agent that gives the promise, and ends."""


@pytest.mark.slow
@pytest.mark.parametrize(("script", "calls"), [(SAYS, 1), (EMITS, 2)], ids=["answered", "emitted"])
def test_after_a_kill_while_a_gate_runs_the_gate_is_repeated(
    tmp_path: Path, here: Path, script: str, calls: int
) -> None:
    """An agent that has answered is not called again; one that has only emitted is, and is told what was accepted."""
    loop = tmp_path / "loop"
    settings = 'event_loop.completion_promise = "done, all tests pass"\n'
    gate = "import time; open('runs', 'a').write('x'); time.sleep(60)"
    gated(loop, 'open("calls", "a").write("x")\n' + script, gate, settings=settings)
    words = ["run", str(loop), "go", "--state-dir", ".autoloop"]
    owner = preforked.start_quietly(*words, cwd=here)
    until(Path("runs").exists)
    owner.kill()
    owner.wait()
    (loop / "gate.py").write_text("")
    [folder] = Path(".autoloop/runs").iterdir()
    outcome = asyncio.run(launch.resume(folder.name, state_dir=Path(".autoloop")))

    assert (outcome.status, outcome.iterations) == ("completed", 1)
    assert Path("calls").read_text() == "x" * calls
    assert [one.passed for one in records(folder.name, r.GateChecked)] == [True] * calls
    assert len(records(folder.name, r.EventEmitted)) == (calls if script is EMITS else 0)
    if script is EMITS:
        assert "must not be repeated: `done`" in Path("prompt.iteration#1").read_text()
    assert subprocess.run(["pgrep", "-f", str(loop / "gate.py")], check=False).returncode == 1


@pytest.mark.parametrize("agents", [10, pytest.param(100, marks=pytest.mark.long)])
def test_lying_agents_complete_nothing(tmp_path: Path, agents: int) -> None:
    """Each says that all tests pass; a fifth emit, the others give the promise."""
    script = """
sys.stdin.read()
if int(turn.partition("#")[2]) % 5 == 0:
    subprocess.run([emit, "emit", "done", "all tests pass"], capture_output=True)
print("done, all tests pass")
"""
    settings = 'event_loop.completion_promise = "done, all tests pass"\n'
    settings += 'event_loop.gates = [["sh", "-c", "echo 1 failed; exit 1"]]\n'
    outcome = run(project(tmp_path / "loop", script, settings), f"event_loop.max_iterations={agents}")

    assert (outcome.status, outcome.reason, outcome.iterations) == ("stopped", "max_iterations", agents)
    assert len(records(outcome.run, r.GateChecked)) == agents
    assert len(records(outcome.run, r.EventInvalid)) == agents // 5
    assert not records(outcome.run, r.EventEmitted)


WAVE = """
prompt = sys.stdin.read()
branch = os.environ["COTERIE_RUN"].partition("wave-1.")[2][:1]
if branch == "1":
    subprocess.run([emit, "emit", "done", "all tests pass"], capture_output=True)
    print("branch 1: done, all tests pass")
elif branch == "2":
    print("ALL DONE")
elif branch:
    pathlib.Path("fixed").write_text(branch)
    subprocess.run([emit, "emit", "done"], check=True, capture_output=True)
    print("branch 3: fixed")
elif turn == "iteration#1":
    subprocess.run([emit, "emit", "next.parallel", "- a\\n- b\\n- c"], check=True, capture_output=True)
else:
    (pathlib.Path(sys.argv[1]).parent / "prompt.txt").write_text(prompt)
    subprocess.run([emit, "emit", "done"], check=True, capture_output=True)
"""


@pytest.mark.slow
def test_the_gates_of_a_branch_run_in_its_work_tree(tmp_path: Path, here: Path) -> None:
    """Two lie, by the event and by the promise: both are refused, and the next prompt has the reasons."""
    for words in (["init", "-q", "-b", "main"], ["commit", "-q", "--allow-empty", "-m", "begin"]):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], check=True)
    settings = 'worktree.enabled = true\nparallel.enabled = true\nevent_loop.completion_promise = "ALL DONE"\n'
    outcome = run(gated(tmp_path / "loop", WAVE, settings=settings))

    assert (outcome.status, outcome.iterations) == ("completed", 2), outcome.reason
    trees = []
    for k, passed in (("1", False), ("2", False), ("3", True)):
        [checked] = records(f"{outcome.run}/wave-1.{k}#1.1", r.GateChecked)
        assert checked.passed is passed
        trees.append(checked.output.splitlines()[0])
    assert len({*trees, f"checking {here}"}) == 4
    prompt = (tmp_path / "loop" / "prompt.txt").read_text()
    assert "branch 1: done, all tests pass\n\nIts completion was refused: done: the gate" in prompt
    assert "`ALL DONE`\n\nIts completion was refused: the gate" in prompt
    assert "branch 3: fixed" in prompt
    assert prompt.count("Its completion was refused") == 2
    assert (here / "fixed").read_text() == "3"
    assert [one.passed for one in records(outcome.run, r.GateChecked)].count(False) == 2


def test_a_gate_has_the_time_of_its_setting(tmp_path: Path) -> None:
    """It is ended then, and has failed."""
    settings = 'event_loop.gate_timeout = "100ms"\nevent_loop.max_iterations = 1\n'
    outcome = run(gated(tmp_path / "loop", EMITS, "import time; time.sleep(60)", settings=settings))

    assert outcome.status == "stopped"
    [checked] = records(outcome.run, r.GateChecked)
    assert "took longer than" in checked.reason
