"""Teams in YAML: patterns, and supervised systems, which differ in the top level of the file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from coterie.team.formats.yaml.document import Report, load
from coterie.team.formats.yaml.reader import read_pattern
from coterie.team.topology.model import Topology


def read_yaml(text: str, file: str, folder: Path | None, given: Mapping[str, Any], report: Report) -> Topology | None:
    """Read *text* of *file*, a pattern or a supervised system, as far as possible, reporting every fault.

    Args:
        folder: The base of relative paths; without a folder every prompt is a text.
        given: Values that override its settings.
    """
    root = load(text, report)
    if root is None:
        return None
    from coterie.team.formats.yaml.system import is_system, read_system  # few files are systems

    read = read_system if is_system(root, file) else read_pattern
    return read(root, file, folder, given, report)
