"""Teams in YAML: patterns, and supervised systems. The top level of a file says which of them it is."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from coterie.formats.yaml.document import Report, load
from coterie.formats.yaml.reader import read_pattern
from coterie.topology.model import Topology


def read_yaml(text: str, file: str, folder: Path | None, given: Mapping[str, Any], report: Report) -> Topology | None:
    """Read *text* of *file*, a pattern or a supervised system, as far as possible, reporting every fault.

    Args:
        folder: The base of relative paths; without a folder every prompt is a text.
        given: Values that override its settings.
    """
    root = load(text, report)
    if root is None:
        return None
    from coterie.formats.yaml.system import is_system, read_system  # few files are systems

    read = read_system if is_system(root, file) else read_pattern
    return read(root, file, folder, given, report)
