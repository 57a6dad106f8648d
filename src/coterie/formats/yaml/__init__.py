"""Patterns in YAML: `*.pattern.yaml`, or any YAML file with `pattern:` at its top level."""

from coterie.formats.yaml.reader import read_yaml

__all__ = ["read_yaml"]
