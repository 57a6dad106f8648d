"""Record the cassette of `examples/shop`: `python tests/support/record_shop.py`.

No model is asked: a provider on loopback says what one might.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from fake_models import FakeModels, Say

EXAMPLE = Path(__file__).parents[2] / "examples" / "shop"


def choose(body: dict[str, Any]) -> Say:
    """The letter of the model."""
    return Say("Dear Ada, your order is on its way and arrives on Friday.", tokens=(60, 20))


def record(file: Path) -> None:
    """Run the system once and keep what was asked and answered in *file*."""
    with FakeModels(choose=choose) as models, tempfile.TemporaryDirectory() as state:
        command = [sys.executable, "-m", "coterie", "run", str(EXAMPLE / "topology.yaml"), "Answer the post"]
        environment = os.environ | models.environment | {"XDG_STATE_HOME": state}
        subprocess.run([*command, "--state-dir", state, "--cassette", f"record:{file}"], env=environment, check=True)


if __name__ == "__main__":
    record(EXAMPLE / "cassette.jsonl")
