"""Recognize the folder of a loop."""

from pathlib import Path

from coterie.base import files

TOPOLOGY, AGENTS = "topology.toml", "agents.toml"
SETTINGS = ("autoloops.toml", "autoloops.conf")
"""The settings file of a project: the first of these that exists."""
OBEYED = (*SETTINGS, TOPOLOGY, AGENTS, "coterie.toml")
"""The files that a run obeys: a loop reads them again before each turn."""


def loop_folder(path: Path) -> Path | None:
    """The folder of the loop at *path* (the folder or its `topology.toml`); None if there is no loop."""
    if path.name == TOPOLOGY and files.is_file(path):
        return path.parent
    return path if is_folder(path) else None


def is_folder(path: Path) -> bool:
    """Whether *path*, which need not be a valid path, is a loop's folder: it has settings or a `topology.toml`."""
    return files.is_folder(path) and any(files.is_file(path / name) for name in (TOPOLOGY, *SETTINGS))
