"""The preset `autofix` on a small repository with a real bug."""

import subprocess
import sys
from pathlib import Path

import pytest
from scripted_provider import Provider, RealAgents

pytestmark = pytest.mark.real_agents

BUGGY = "def mean(values):\n    return sum(values) / (len(values) + 1)\n"
TEST = "from stats import mean\n\nassert mean([1, 2, 3]) == 2, mean([1, 2, 3])\nprint('tests pass')\n"
STEPS = {
    "diagnoser": "DO bash: python test_stats.py; coterie emit cause.found 'mean divides by one too many'\nSAY found",
    "fixer": (
        "DO bash: sed -i 's/(len(values) + 1)/len(values)/' stats.py && git commit -qam 'Divide by the number'\n"
        "DO bash: coterie emit fix.applied 'mean divides by the number of values'\nSAY fixed"
    ),
    "verifier": "DO bash: python test_stats.py && coterie emit fix.verified 'the tests pass'\nSAY verified",
    "closer": "DO bash: coterie emit task.complete 'the bug is closed'\nSAY closed",
}


def git(folder: Path, *words: str) -> str:
    """What git prints in *folder*."""
    words = ("-c", "user.name=t", "-c", "user.email=t@example.org", *words)
    return subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("kind", ["claude-sdk", "pi"])
def test_a_bug_is_found_fixed_tested_and_merged(
    real: RealAgents, provider: Provider, tmp_path: Path, kind: str
) -> None:
    """By four roles in a work tree, with a gate that runs the tests; the branch of the user has the fix."""
    folder = tmp_path / "repository"
    folder.mkdir()
    (folder / "stats.py").write_text(BUGGY)
    (folder / "test_stats.py").write_text(TEST)
    git(folder, "init", "-q", "-b", "main")
    git(folder, "config", "user.name", "t")
    git(folder, "config", "user.email", "t@example.org")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "Begin")
    provider.roles = {f"Suggested next roles: {role}\n": steps for role, steps in STEPS.items()}
    backend = (
        ["-b", str(real.programs["pi"]), "--", "--model", "scripted/claude-sonnet-4-5"]
        if kind == "pi"
        else ["-b", kind]
    )
    settings = ["--set", f'event_loop.gates:=[["{sys.executable}", "test_stats.py"]]', "--set", "review.enabled=false"]
    run = subprocess.run(
        [sys.executable, "-m", "coterie", "run", "autofix", "The mean is wrong", "--worktree", *settings, *backend],
        cwd=folder,
        env=real.environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )

    assert run.returncode == 0, run.stderr
    assert "closed" in run.stdout
    assert "len(values)\n" in (folder / "stats.py").read_text()
    assert git(folder, "status", "--porcelain").strip() == ""
    assert len(git(folder, "log", "--oneline").splitlines()) == 2
    assert subprocess.run([sys.executable, "test_stats.py"], cwd=folder, check=False).returncode == 0
