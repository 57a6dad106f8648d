"""Sends messages to runs as an operator does."""

from pathlib import Path

from coterie.execution.runs import control
from coterie.execution.runs.messages import RunMessage, Verdict
from coterie.execution.runs.repository import run_in


def send(folder: Path, message: RunMessage) -> Verdict:
    """Send the run in *folder* a message."""
    runs, run = run_in(folder)
    return control.send(runs, run, message)
