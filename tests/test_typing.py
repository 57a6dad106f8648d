"""The types of the public functions, as a user's type checker sees them."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.long
@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_the_types_that_users_see(checker: str) -> None:
    """The programs in `tests/typing` name them, and type checkers agree."""
    if shutil.which(checker, path=str(Path(sys.executable).parent)) is None:
        pytest.skip(f"{checker} is not installed")
    command = [checker, "--pythonpath", sys.executable] if checker == "pyright" else [checker, "--strict"]
    done = subprocess.run(
        [sys.executable, "-m", *command, "tests/typing"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env=os.environ | {"MYPYPATH": str(ROOT / "src")},
    )

    assert done.returncode == 0, done.stdout + done.stderr
