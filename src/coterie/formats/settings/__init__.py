"""Layered settings of a loop, each value remembering where it came from."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coterie.formats.settings.keys import Key, Origin, Settings, keys
    from coterie.formats.settings.layers import resolve

__all__ = ["Key", "Origin", "Settings", "keys", "resolve"]


def __getattr__(name: str) -> Any:
    """Load *name* when it is used: its modules take 6 ms, and a flow needs the locations of files alone."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{'layers' if name == 'resolve' else 'keys'}"), name)
