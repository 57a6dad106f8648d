"""Remember the constructor arguments of a plugin, so that a plugin made in Python can be written as a plan."""

import inspect
import os
from typing import Any, Self


class Configured:
    """Base class of built-in plugins.

    Attributes:
        config: The constructor arguments by name.
    """

    config: dict[str, Any]

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Make an instance, and remember its arguments."""
        made = super().__new__(cls)
        bound = inspect.signature(cls).bind(*args, **kwargs)
        given = dict(bound.arguments)
        given |= given.pop("settings", {})  # the catch-all parameter, if there is one
        made.config = {
            name: os.fspath(value) if isinstance(value, os.PathLike) else value for name, value in given.items()
        }
        return made
