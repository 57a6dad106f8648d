"""Read named sections of a text: `SUMMARY: …`, `**Conclusion:** …`, or a heading on a separate line."""

import re
from collections.abc import Sequence


def sections(text: str, names: Sequence[str]) -> dict[str, str]:
    """The sections of *text* by name; of two with one name the last counts, empty ones are omitted.

    Case, numbers, bullets and bold marks before and around a name are ignored.
    """
    known = "|".join(re.escape(name) for name in names)
    heading = re.compile(rf"^[ \t#>*_\d.)-]*+({known})[*_]*+[ \t]*+(?::[*_]*+|$)", re.MULTILINE | re.IGNORECASE)
    found: dict[str, str] = {}
    marks = list(heading.finditer(text))
    by_word = {name.casefold(): name for name in names}
    for n, mark in enumerate(marks):
        end = marks[n + 1].start() if n + 1 < len(marks) else len(text)
        if said := text[mark.end() : end].strip():
            found[by_word[mark[1].casefold()]] = said
    return found
