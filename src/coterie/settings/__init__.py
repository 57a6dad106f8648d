"""Layered settings of a loop, each value remembering where it came from."""

from coterie.settings.keys import Key, Origin, Settings, keys
from coterie.settings.layers import resolve

__all__ = ["Key", "Origin", "Settings", "keys", "resolve"]
