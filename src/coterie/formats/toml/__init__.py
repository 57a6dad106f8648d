"""The folder of a loop: `topology.toml`, the prompts of its roles, `agents.toml`."""

from coterie.formats.toml.folder import Folder, is_folder, read_folder

__all__ = ["Folder", "is_folder", "read_folder"]
