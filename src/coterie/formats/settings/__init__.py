"""Layered settings of a loop, each value remembering where it came from."""

from coterie.formats.settings.keys import Key, Origin, Settings, keys
from coterie.formats.settings.layers import resolve

__all__ = ["Key", "Origin", "Settings", "keys", "resolve"]
