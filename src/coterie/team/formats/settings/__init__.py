"""Layered settings of a loop, each value remembering where it came from."""

from coterie.team.formats.settings.grammar import read
from coterie.team.formats.settings.keys import Key, Origin, Settings, keys
from coterie.team.formats.settings.layers import resolve

__all__ = ["Key", "Origin", "Settings", "keys", "read", "resolve"]
