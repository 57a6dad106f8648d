"""Write the table of abilities into `docs/coding-agents.md`.

python docs/generate/coding_page.py
"""

import re
from pathlib import Path

from msgspec.structs import asdict, fields

from coterie.agents.backends.base import Abilities
from coterie.team.options.backends import CODING

PAGE = Path(__file__).parents[1] / "coding-agents.md"
MEANINGS = {
    "steer": "takes guidance while it works",
    "resume": "goes on in its session after a crash",
    "find": "outlives the process that started it",
    "cost": "reports what it cost",
    "model": "works with the model that is named",
    "mode": "works in the mode that is named",
    "permission": "requests permission before it uses a tool",
}
"""The words of the page for each ability."""

_TABLE = re.compile(r"(?<=<!-- abilities -->\n\n).*?(?=\n\n<!-- end -->)", re.DOTALL)


def table() -> str:
    """The table: one row for each ability, one column for each backend."""
    rows = {kind: asdict(backend.make().abilities) for kind, backend in CODING.items()}
    lines = [f"| | {' | '.join(f'`{kind}`' for kind in rows)} |", "|---" * (len(rows) + 1) + "|"]
    for ability in fields(Abilities):
        marks = ("yes" if row[ability.name] else "no" for row in rows.values())
        lines.append(f"| {MEANINGS[ability.name]} | {' | '.join(marks)} |")
    return "\n".join(lines)


def page(text: str) -> str:
    """*text*, the page, with the table as it should be."""
    return _TABLE.sub(lambda _: table(), text)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
