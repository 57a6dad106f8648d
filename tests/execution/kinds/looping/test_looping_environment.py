"""What an agent of a loop finds in its environment and its prompt, in a folder whose name has a space."""

import json
from pathlib import Path

import pytest
from loop_projects import project

from coterie.interfaces.cli.app import main

SCRIPT = """
prompt = sys.stdin.read()
here = pathlib.Path(os.environ["AUTOLOOP_PROJECT_DIR"])
mode, state = os.environ["AUTOLOOP_REVIEW_MODE"], pathlib.Path(os.environ["AUTOLOOP_STATE_DIR"])
with (here / "seen.txt").open("a") as seen:
    print(mode or turn, state.relative_to(here), file=seen)
if "/waves/" in str(state):
    assert (state / "objective.md").is_file()
elif turn == "iteration#1":
    lines = prompt.splitlines()
    at = next(n for n, line in enumerate(lines) if "emit explore.parallel" in line)
    subprocess.run("\\n".join(lines[at : at + 2]), shell=True, check=True)
elif not mode:
    line = next(line for line in prompt.splitlines() if " emit done" in line)
    subprocess.run(line, shell=True, check=True)
"""


def test_what_an_agent_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its emit lines can be run as they are, a review knows what it is, a branch has a folder of its own."""
    here = project(tmp_path / "my loop", SCRIPT, "parallel.enabled = true\nreview.every_iterations = 1\n")
    settings = here / "autoloops.toml"
    settings.write_text(settings.read_text().replace("review.enabled = false", "review.enabled = true"))
    monkeypatch.chdir(here)

    assert main(["run", ".", "go"]) == 0
    (run,) = (path.name for path in (here / ".autoloop" / "runs").iterdir())
    seen = (here / "seen.txt").read_text().splitlines()
    assert seen[0] == "iteration#1 .autoloop"
    assert sorted(seen[1:3]) == [f"iteration#1 .autoloop/waves/{run}-wave-1/branch-{k}" for k in (1, 2)]
    branch = (here / ".autoloop" / "waves" / f"{run}-wave-1" / "branch-2" / "journal.jsonl").read_text()
    prompts = [
        line["fields"]["prompt"] for line in map(json.loads, branch.splitlines()) if line["topic"] == "iteration.start"
    ]
    assert "Objective:\nsecond objective" in prompts[0]
    capsys.readouterr()
    assert main(["inspect", f"{run}/wave-1.2#1.1", "prompt"]) == 0
    assert "Objective:\nsecond objective" in capsys.readouterr().out
    assert main(["inspect", run, "prompt"]) == 2
    assert seen[3:] == ["metareview .autoloop", "iteration#2 .autoloop"]
