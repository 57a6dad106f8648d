"""Record the cassette of `examples/model-team`: `python tests/support/record_model_team.py`.

No model is asked: a provider on loopback says what models might. What is recorded is what a real one would be asked.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from fake_models import FakeModels, Say, text_of

EXAMPLE = Path(__file__).parents[2] / "examples" / "model-team"
TASK = "Version 2.0 reads its settings from settings.toml"

DRAFT = "Version 2.0 reads its settings from settings.toml, which is easier to read and to review."
NOTE = (
    "Version 2.0 reads its settings from settings.toml. Rename your settings.ini, and put texts in quotes; "
    "everything else stays as it is. Without the file, the defaults hold."
)


def choose(body: dict[str, Any]) -> Say:
    """What the models of the team say, given what they are asked."""
    told = text_of(body)
    if "good enough for users" in told:
        return _edit(told)
    text = NOTE if "what users have to do" in told else DRAFT
    if "tool_result" in told:
        return Say(text, tokens=(310, 45))
    return Say(calls=[("count_words", {"text": text})], tokens=(240, 60))


def _edit(told: str) -> Say:
    if "Rename" in told:
        verdict, reason = "approve", "It says what changed and what users have to do about it."
    else:
        verdict, reason = "revise", "It says what changed, but not what users have to do."
    return Say(reason, calls=[("give_outputs", {"verdict": verdict})], tokens=(180, 30))


def record(file: Path) -> None:
    """Run the team once and keep what was asked and answered in *file*."""
    with FakeModels(choose=choose) as models, tempfile.TemporaryDirectory() as state:
        command = [sys.executable, "-m", "coterie", "run", str(EXAMPLE / "team.at"), TASK, "--state-dir", state]
        environment = os.environ | models.environment | {"XDG_STATE_HOME": state}
        subprocess.run([*command, "--cassette", f"record:{file}"], env=environment, check=True)


if __name__ == "__main__":
    record(EXAMPLE / "cassette.jsonl")
