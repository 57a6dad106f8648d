"""How the tests ask an agent of the repo-review example, and what its seeded defects are."""

import io
import json
import os
import re
import runpy
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

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
    """Run the agent's program once, with *turn* in the file that it expects: here, since a process costs ten times."""
    file = folder / f"turn-{agent}.json"
    file.write_text(json.dumps(turn), encoding="utf-8")
    out, err, status, known = io.StringIO(), io.StringIO(), 0, set(sys.modules)
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.chdir(folder)
        patch.syspath_prepend(AGENTS)
        patch.setattr(sys, "stdin", io.StringIO())
        patch.setenv("COTERIE_TURN_FILE", str(file))
        patch.setenv("COTERIE_AGENT", agent)
        try:
            runpy.run_path(str(AGENTS / f"{agent}.py"), run_name="__main__")
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else int(end.code is not None)
            print(*[end.code] if isinstance(end.code, str) else [], file=err)
        finally:
            for name in set(sys.modules) - known:
                if str(AGENTS) in str(getattr(sys.modules[name], "__file__", "")):
                    del sys.modules[name]
    return subprocess.CompletedProcess([agent], status, out.getvalue(), err.getvalue())


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
