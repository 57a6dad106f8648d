"""Record the cassette of `examples/research`: `python tests/support/record_research.py`; see `record_model_team`."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from fake_models import FakeModels, Say, text_of

EXAMPLE = Path(__file__).parents[2] / "examples" / "research"
FINDINGS = [
    {"claim": "London sold it from 1657.", "source": "coffee-houses", "year": 1657},
    {"claim": "It came to Amsterdam in 1610.", "source": "dutch-trade", "year": 1610},
    {"claim": "Venice knew it in 1559.", "source": "portuguese-letters", "year": 1559},
]


def choose(body: dict[str, Any]) -> Say:
    """What the model says: it searches, reads what it found, and answers with a claim that no note supports."""
    told = text_of(body)
    if "Macau" in told:
        return Say(calls=[("give_outputs", {"findings": FINDINGS})], tokens=(420, 90))
    if "dutch-trade" in told:
        return Say(calls=[("read", {"title": title}) for title in ("dutch-trade", "coffee-houses")], tokens=(310, 50))
    return Say(calls=[("find", {"word": "tea"})], tokens=(260, 30))


def record(file: Path) -> str:
    """Run the example once and keep what was asked and answered in *file*; what it printed."""
    with FakeModels(choose=choose) as models, tempfile.TemporaryDirectory() as folder:
        tape = {"COTERIE_CASSETTE": f"record:{file}", "XDG_STATE_HOME": folder}
        command = [sys.executable, str(EXAMPLE / "research.py")]
        done = subprocess.run(
            command, cwd=folder, env=os.environ | models.environment | tape, check=True, stdout=subprocess.PIPE
        )
        return done.stdout.decode()


if __name__ == "__main__":
    print(record(EXAMPLE / "cassette.jsonl"))
