"""How the tests ask an agent of the repo-review example, and what its seeded defects are."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

AGENTS = Path(__file__).parents[2] / "examples" / "repo-review" / "agents"
ANALYSERS = ("complexity", "churn", "risks", "duplicates", "upkeep")
SEEDS = Path(__file__).parents[1] / "data" / "repo-review"

Result = dict[str, Any]
Ask = Callable[..., Result]

_FENCE = re.compile(r"^```json\n(.*?)\n```$", re.MULTILINE | re.DOTALL)


def git(folder: Path, *arguments: str) -> str:
    """Run git in *folder* as somebody who is always the same, at a time that is always the same."""
    environment = os.environ | {
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_SYSTEM": os.devnull,
        **{f"GIT_{who}_NAME": "Ada" for who in ("AUTHOR", "COMMITTER")},
        **{f"GIT_{who}_EMAIL": "ada@example.org" for who in ("AUTHOR", "COMMITTER")},
        **{f"GIT_{who}_DATE": "2026-01-05T10:00:00+0000" for who in ("AUTHOR", "COMMITTER")},
    }
    done = subprocess.run(["git", *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return done.stdout


def commit(folder: Path, message: str) -> None:
    """Commit everything in *folder*."""
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "--allow-empty", "-m", message)


def process(agent: str, turn: Mapping[str, Any], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the agent's program once, with *turn* in the file that it expects."""
    file = folder / f"turn-{agent}.json"
    file.write_text(json.dumps(turn), encoding="utf-8")
    command = [sys.executable, str(AGENTS / f"{agent}.py")]
    environment = os.environ | {"COTERIE_TURN_FILE": str(file), "COTERIE_AGENT": agent}
    return subprocess.run(command, env=environment, cwd=folder, input="", capture_output=True, text=True, timeout=60)


def answer(
    agent: str,
    folder: Path,
    inputs: Sequence[Result] = (),
    reads: Sequence[Result] = (),
    given: Mapping[str, str] | None = None,
) -> Result:
    """Run the agent's program, which must not fail, and give its result as a later turn would see it."""
    turn = {"task": "", "input": given or {}, "inputs": list(inputs), "reads": list(reads), "wanted": []}
    done = process(agent, turn, folder)
    assert done.returncode == 0, done.stderr
    outputs = json.loads(_FENCE.findall(done.stdout)[-1])
    return {"agent": agent, "turn": f"{agent}#1", "text": done.stdout, "outputs": outputs}


def expected(root: Path, analyser: str) -> set[tuple[str, str, int]]:
    """What *analyser* must find, read from the marks in the files: `# expect risks.eval`."""
    found = set()
    for file in root.rglob("*.py"):
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            for rule in re.findall(r"# expect ([\w.-]+)", line):
                if rule.startswith(f"{analyser}."):
                    found.add((rule, file.relative_to(root).as_posix(), number))
    return found
