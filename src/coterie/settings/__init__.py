"""Layered settings of a loop, each value remembering where it came from."""

from coterie.settings.keys import Key, keys
from coterie.settings.layers import Origin, Settings, resolve

__all__ = ["Key", "Origin", "Settings", "keys", "resolve"]
