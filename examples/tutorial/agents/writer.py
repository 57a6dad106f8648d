"""Writes the release note: a headline, and a line for each change. Begins with its last draft, if it has one.

What reviewers name is mended. Its prompt, or the editor, may say `Headline: …`; the last word on it counts.
"""

import re
import sys

from turn import said_by

question = sys.stdin.read()
headlines = re.findall(r"^Headline: (.+)$", question, re.MULTILINE)
mended = dict(re.findall(r"'(\w+)' is spelled '(\w+)'", question))

_, _, draft = said_by("writer").partition("\n\n")
lines = draft.splitlines() or [f"- {change}" for change in said_by("scout").splitlines()[:-1]]
for i, line in enumerate(lines):
    if "too long" in said_by("reviewer"):
        lines[i] = re.sub(r"[,;].*?( \(#\d+\))?$", r"\1", line)
    for wrong, right in mended.items():
        lines[i] = lines[i].replace(wrong, right)

print(f"# {headlines[-1] if headlines else 'Release notes'}\n", *lines, sep="\n")
