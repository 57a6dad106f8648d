"""`coterie topology diff`: the differences between two teams."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from coterie.cli.options import AsJson
from coterie.cli.output import print_result, report, say_json

if TYPE_CHECKING:
    from coterie.topology.model import Topology


def diff(
    old: Annotated[Path, typer.Argument(metavar="OLD", help="A file.")],
    new: Annotated[Path, typer.Argument(metavar="NEW", help="Another file, in any notation.")],
    as_json: AsJson = False,
) -> int:
    """Compare two teams by meaning.

    Ignores layout, comments and the order of declarations, but not the order of arrows where it matters. Exit status:
    0 if they are equal, 1 if they differ, 2 if one cannot be read.
    """
    from coterie.cli.text.diff import changes
    from coterie.topology.diff import diff

    before, after = _read(old, as_json), _read(new, as_json)
    if before is None or after is None:
        return 2
    found = diff(before, after)
    print_result(as_json, found, lambda: changes(found))
    return int(bool(found))


def _read(file: Path, as_json: bool) -> "Topology | None":
    """Return the team in *file* despite errors; if it cannot be read at all, print them and return None."""
    from coterie import formats
    from coterie.errors import TopologyError

    source = formats.read(file)
    if source.topology is None and as_json:
        say_json(TopologyError(source.diagnostics).to_dict())
    elif source.topology is None:
        report(source.diagnostics, source.text)
    return source.topology
