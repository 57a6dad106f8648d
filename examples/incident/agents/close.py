"""Closes the incident: writes the digest and what was done into incident.md. Usage: close.py WORDS"""

import json
import os
import sys
from pathlib import Path


def main(done: str) -> None:
    """Answer one turn."""
    with open(os.environ["COTERIE_TURN_FILE"], encoding="utf-8") as file:
        turn = json.load(file)
    digest = next(result["text"] for result in turn["reads"] if result["agent"] == "digest")
    reasons = [result["text"] for result in turn["inputs"] if result["agent"] == "lead"]
    lines = [f"# {turn['task']}", "", *digest.splitlines()[:-1], "", f"Decision: {reasons[-1]}", f"Done: {done}."]
    written = Path("incident.md.new")
    written.write_text("\n".join(lines) + "\n", encoding="utf-8")
    written.replace("incident.md")
    print(f"{done}: incident.md")


if __name__ == "__main__":
    main(sys.argv[1])
