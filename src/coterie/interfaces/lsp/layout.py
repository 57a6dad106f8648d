"""Format a document with the smallest edit."""

from itertools import takewhile

from coterie.errors import TopologyError
from coterie.interfaces.lsp.document import Document
from coterie.interfaces.lsp.positions import LineIndex
from coterie.interfaces.lsp.rename import Edit
from coterie.team.formats.at.layout import format_text


def format_document(document: Document) -> list[Edit]:
    """The edit that formats *document* like `coterie topology fmt`; none if it is formatted, has errors, or is YAML.

    Lines before the first and after the last change are not part of the edit, so a cursor there does not move.
    """
    if document.is_yaml:
        return []
    try:
        text = LineIndex(format_text(document.text.content))
    except TopologyError:
        return []
    old, new = _lines(document.text), _lines(text)
    above = _common(old, new)
    below = _common(old[above:][::-1], new[above:][::-1])
    start = document.text.starts[above] if above < len(old) else len(document.text.content)
    removed = "".join(old[above : len(old) - below])
    added = "".join(new[above : len(new) - below])
    return [Edit(start, len(removed), added)] if removed != added else []


def _lines(text: LineIndex) -> list[str]:
    ends = [*text.starts[1:], len(text.content)]
    return [text.content[start:end] for start, end in zip(text.starts, ends, strict=True)]


def _common(one: list[str], other: list[str]) -> int:
    """The number of common first lines."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
