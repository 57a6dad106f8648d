"""The `.at` notation: text, tokens, tree, topology."""

from coterie.formats.at.compose import Composed, compose
from coterie.formats.at.parser import Parsed, parse
from coterie.formats.at.reader import Reading, read_at

__all__ = ["Composed", "Parsed", "Reading", "compose", "parse", "read_at"]
