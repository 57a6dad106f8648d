"""Supervised systems in YAML: `topology.yaml`, or any YAML file with `supervision:` at its top level."""

from coterie.team.formats.yaml.system.reader import is_system, read_system

__all__ = ["is_system", "read_system"]
