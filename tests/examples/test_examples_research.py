"""The example of research: a model with tools and a typed answer, a team below it, a function that costs something."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from record_research import EXAMPLE, record

pytestmark = pytest.mark.slow


def test_it_plays_its_recording_without_a_key(tmp_path: Path) -> None:
    """The claim that no note supports is dropped, the others are in order, and both costs count."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ANTHROPIC")}
    command = [sys.executable, str(EXAMPLE / "research.py")]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    said, cost = done.stdout.splitlines()
    assert said == (
        "Report(text='It came to Amsterdam in 1610. (dutch-trade) London sold it from 1657. (coffee-houses)', "
        "dropped=['Venice knew it in 1559.'])"
    )
    assert float(cost.removeprefix("$")) > 0.002


def test_its_recording_is_what_is_asked_today(tmp_path: Path) -> None:
    """`tests/support/record_research.py` makes it anew when a question or a library changed."""
    record(tmp_path / "tape.jsonl")

    assert questions(tmp_path / "tape.jsonl") == questions(EXAMPLE / "cassette.jsonl")


def questions(file: Path) -> list[Any]:
    """What the model was asked."""
    return [json.loads(line)["request"] for line in file.read_text().splitlines()]
