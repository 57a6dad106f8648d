"""How the folder of a loop is known."""

import os.path
from pathlib import Path

TOPOLOGY, AGENTS = "topology.toml", "agents.toml"
SETTINGS = ("autoloops.toml", "autoloops.conf")


def loop_folder(path: Path) -> Path | None:
    """The folder of the loop at *path*, which is that folder or its `topology.toml`; None when there is no loop."""
    if path.name == TOPOLOGY and path.is_file():
        return path.parent
    return path if is_folder(path) else None


def is_folder(path: Path) -> bool:
    """Whether *path*, which may be no path at all, is the folder of a loop: it holds settings, or a `topology.toml`."""
    return os.path.isdir(path) and any((path / name).is_file() for name in (TOPOLOGY, *SETTINGS))
