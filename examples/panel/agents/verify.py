"""Measure again what an answer claims, and give a verdict as JSON.

Usage: python3 verify.py lines|function
"""

import json
import re
import sys
from pathlib import Path

from measures import longest_function

CLAIM = re.compile(r"([\w./-]+\.py) has (\d+) lines; its longest function, ([\w-]+), has (\d+)\.")


def issues(what: str, answer: str) -> list[str]:
    """What is wrong with the last claim in *answer*."""
    claims = CLAIM.findall(answer)
    if not claims:
        return ["nothing is claimed that could be measured"]
    name, lines, function, length = claims[-1]
    if not Path(name).is_file():
        return [f"there is no file {name}"]
    text = Path(name).read_text(encoding="utf-8")
    if what == "lines":
        found = len(text.splitlines())
        return [] if found == int(lines) else [f"{name} has {found} lines, not {lines}"]
    longest, size = longest_function(text)
    return [] if (longest, size) == (function, int(length)) else [f"the longest function is {longest}, with {size}"]


if __name__ == "__main__":
    wrong = issues(sys.argv[1], sys.stdin.read())
    print(json.dumps({"approved": not wrong, "confidence": 1.0, "issues": wrong, "feedback": "; ".join(wrong)}))
