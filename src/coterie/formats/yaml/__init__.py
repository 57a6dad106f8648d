"""Patterns in YAML: `*.pattern.yaml`, or any YAML file with `pattern:` at its top level."""

from coterie.formats.yaml.reader import YamlResult, read_yaml

__all__ = ["YamlResult", "read_yaml"]
