"""The `.at` notation: text, tokens, tree, topology."""

from coterie.formats.at.compose import Composed, compose
from coterie.formats.at.parser import Parsed, parse
from coterie.formats.at.reader import read_at

__all__ = ["Composed", "Parsed", "compose", "parse", "read_at"]
