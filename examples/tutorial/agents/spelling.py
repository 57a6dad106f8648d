"""Looks for words that are often spelled wrong. A model would think for a while; so does this, for THINK seconds."""

import json
import os
import time

from turn import said_by

WRONG = {"recieved": "received", "seperate": "separate", "occured": "occurred"}

time.sleep(float(os.environ.get("THINK", "1")))
found = [f"'{word}' is spelled '{WRONG[word]}'" for word in said_by("scout").split() if word in WRONG]
print("; ".join(found) or "No word is spelled wrong.")
print(json.dumps({"found": len(found)}))
