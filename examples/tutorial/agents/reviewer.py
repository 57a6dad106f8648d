"""Says whether the note can be published: no line may be too long. A note that holds is handed on."""

import json

from turn import said_by

LONGEST = 70

note = said_by("writer")
objections = [f"too long: {line}" for line in note.splitlines() if len(line) > LONGEST]
print("\n".join(objections) or f"It holds:\n\n{note}")
print(json.dumps({"verdict": "revise" if objections else "approve"}))
