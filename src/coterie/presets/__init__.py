"""Ready-made loops: each is a folder of this package, complete in itself, to be run as it is or copied and changed.

coterie run autofix "Daily jobs run twice on the last Sunday of March"
"""

from coterie.presets.lookup import find, is_preset, names, texts

__all__ = ["find", "is_preset", "names", "texts"]
