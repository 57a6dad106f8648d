"""Patterns in YAML: `*.pattern.yaml`, or any YAML file with `pattern:` at its top level."""

from coterie.formats.yaml.reading import Reading, read_yaml

__all__ = ["Reading", "read_yaml"]
