"""The folder of a loop: `topology.toml`, the prompts of its roles, `agents.toml`."""

from coterie.team.formats.toml.folder import Folder, read_folder

__all__ = ["Folder", "read_folder"]
