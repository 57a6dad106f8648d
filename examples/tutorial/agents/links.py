"""Looks for changes that name no issue, such as (#12)."""

import json
import re

from turn import said_by

found = [line for line in said_by("scout").splitlines()[:-1] if not re.search(r"\(#\d+\)$", line)]
print("; ".join(f"no issue is named: {line}" for line in found) or "Every change names its issue.")
print(json.dumps({"found": len(found)}))
