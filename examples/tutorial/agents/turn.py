"""What the programs of this team have in common: the question of their turn, as data."""

import json
import os
from pathlib import Path
from typing import Any

TURN: dict[str, Any] = json.loads(Path(os.environ["COTERIE_TURN_FILE"]).read_text(encoding="utf-8"))


def said_by(agent: str) -> str:
    """What *agent* said last, or nothing."""
    return next((one["text"] for one in [*TURN["inputs"], *TURN["reads"]] if one["agent"] == agent), "")
