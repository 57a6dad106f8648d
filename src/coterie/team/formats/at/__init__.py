"""The `.at` notation: text, tokens, tree, topology."""

from coterie.team.formats.at.compose import Composed, compose
from coterie.team.formats.at.parser import Parsed, parse
from coterie.team.formats.at.reader import read_at

__all__ = ["Composed", "Parsed", "compose", "parse", "read_at"]
