"""The cases that were taken from running an earlier system."""

import json
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[1] / "data" / "cases-loop"


def cases(area: str) -> list[dict[str, Any]]:
    """The cases of one file."""
    found: list[dict[str, Any]] = json.loads((DATA / f"{area}.json").read_text(encoding="utf-8"))["cases"]
    return found
