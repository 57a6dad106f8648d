"""Finds out what has changed: the lines of changes.txt, or of the file that the run was given as `changes`."""

import json
from pathlib import Path

from turn import TURN

lines = Path(TURN["input"].get("changes", "changes.txt")).read_text(encoding="utf-8").splitlines()
print("\n".join(lines))
print(json.dumps({"changes": len(lines)}))
