"""`coterie topology diff`: what changed between two teams."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from coterie.cli.options import AsJson
from coterie.cli.output import complain, say, say_json

if TYPE_CHECKING:
    from coterie.topology.model import Topology


def diff(
    old: Annotated[Path, typer.Argument(metavar="OLD", help="A file.")],
    new: Annotated[Path, typer.Argument(metavar="NEW", help="Another, in any notation.")],
    as_json: AsJson = False,
) -> int:
    """Say what changed between two teams, by meaning.

    Layout, comments and the order of declarations do not count; the order of arrows does where it decides something.
    The status is 0 if they say the same, 1 if not, 2 if one cannot be read.
    """
    from coterie.cli.text.changes import changes
    from coterie.topology.diff import diff

    before, after = _read(old), _read(new)
    if before is None or after is None:
        return 2
    found = diff(before, after)
    if as_json:
        say_json(found)
    else:
        say(changes(found))
    return int(bool(found))


def _read(file: Path) -> "Topology | None":
    """The team in *file*, whatever else is wrong with it; None after telling why there is none."""
    from coterie import formats

    source = formats.read(file)
    if source.topology is None:
        for diagnostic in source.diagnostics:
            complain(diagnostic.render(source.text).rstrip("\n"))
    return source.topology
