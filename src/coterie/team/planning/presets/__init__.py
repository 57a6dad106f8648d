"""Ready-made loops: each is a complete folder of this package, to run directly or to copy and change.

coterie run autofix "Daily jobs run twice on the last Sunday of March"
"""

from coterie.team.planning.presets.lookup import find, is_preset, names, texts

__all__ = ["find", "is_preset", "names", "texts"]
