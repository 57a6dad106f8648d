"""Benchmarks are kept up to date: they can be imported, and the one that counts calls knows each file."""

import os
import runpy
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = pytest.mark.once

FOLDER = Path(__file__).parents[1] / "benchmarks"
CROSSINGS = FOLDER / "crossings.py"
IMPORT_ALL = "import importlib, sys; [importlib.import_module(name) for name in sys.argv[1:]]"


@pytest.mark.slow
def test_each_file_that_a_turn_crosses_has_a_reason() -> None:
    """A turn, an iteration and a resume are counted, and a file without a reason in the table fails the program."""
    done = subprocess.run([sys.executable, CROSSINGS], capture_output=True, text=True)

    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    counts = [line for line in done.stdout.splitlines() if " files, " in line and not line.startswith(" ")]
    assert [count.partition(":")[0] for count in counts] == [
        "one more turn of a flow",
        "one more iteration of a loop",
        "a resume, up to its first turn",
    ]


@pytest.mark.slow
def test_what_the_benchmarks_import_exists() -> None:
    """A renamed function or module is renamed in the benchmarks, too."""
    names = sorted(path.stem for path in FOLDER.glob("*.py"))
    environment = os.environ | {"PYTHONPATH": str(FOLDER)}  # they import each other
    done = subprocess.run([sys.executable, "-c", IMPORT_ALL, *names], env=environment, capture_output=True, text=True)

    assert (done.returncode, done.stderr) == (0, "")


def test_a_reason_names_a_module_that_exists() -> None:
    """A module that was renamed or removed leaves no reason behind."""
    names = runpy.run_path(str(CROSSINGS))["WHY"]

    assert [name for name in names if find_spec(name) is None] == []
