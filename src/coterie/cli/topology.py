"""`coterie topology …`: what a file says. Nothing is run, and no code of the user's is imported."""

from pathlib import Path
from typing import Annotated

import typer

from coterie.cli.options import AsJson
from coterie.cli.output import complain, say, say_json


def validate(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="The files to check.")],
    as_json: AsJson = False,
) -> int:
    """Check files without running them.

    Each file is answered with what was found and a verdict; with --json by one line
    {"file", "valid", "diagnostics"}. The status is 0 if all are valid, else 1.
    """
    from coterie.cli import text
    from coterie.cli.reading import examine

    valid = True
    for file in files:
        found = examine(file)
        valid &= found.valid
        if as_json:
            say_json(found.to_dict())
        else:
            for diagnostic in found.diagnostics:
                complain(diagnostic.render(found.text).rstrip("\n"))
            say(text.verdict(found))
    return int(not valid)


def show(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to show.")],
    as_json: AsJson = False,
) -> int:
    """Show a team: its nodes, who thinks, what they give back, the arrows with their bounds, and what has no effect."""
    from coterie.cli import text
    from coterie.cli.reading import examine
    from coterie.planning import sentences, thinks
    from coterie.topology.outline import outline

    found = examine(file)
    for diagnostic in found.diagnostics:
        if diagnostic.is_error:
            complain(diagnostic.render(found.text).rstrip("\n"))
    if found.topology is None:
        return 1
    team = outline(found.topology, thinks(found.plan), sentences(found.topology))
    if as_json:
        say_json(team)
    else:
        say(text.outline(team))
    return int(not found.valid)
