"""The types of the public functions, as a user's type checker sees them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.long
def test_the_types_that_users_see() -> None:
    """`tests/typing/api.py` names them, and mypy agrees."""
    command = [sys.executable, "-m", "mypy", "--strict", "tests/typing/api.py"]
    environment = os.environ | {"MYPYPATH": str(ROOT / "src")}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)

    assert done.returncode == 0, done.stdout + done.stderr
