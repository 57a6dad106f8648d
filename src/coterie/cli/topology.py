"""`coterie topology …`: what a file says. Nothing is run, and no code of the user's is imported."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from coterie.cli import validate as validation
from coterie.cli.options import AsJson
from coterie.cli.output import complain, say, say_json

if TYPE_CHECKING:
    from coterie.planning.plan import Plan
    from coterie.topology.outline import Outline


def validate(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="The files to check.")],
    fix: Annotated[bool, typer.Option("--fix", help="Mend first what has one remedy, in the files.")] = False,
    as_json: AsJson = False,
) -> int:
    """Check files without running them.

    Each file is answered with what was found and a verdict; with --json by one line
    {"file", "valid", "diagnostics"}. The status is 0 if all are valid, else 1.
    """
    return validation.validate(files, fix, as_json)


def show(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to show.")],
    as_json: AsJson = False,
) -> int:
    """Show a team: its nodes, who thinks, what they use and give back, arrows with bounds, and what has no effect.

    A team that answers at a node is shown below it. On a terminal long lines are broken.
    """
    from coterie.cli.output import width
    from coterie.cli.team_file import examine
    from coterie.cli.text import teams as text
    from coterie.planning import sentences, thinks
    from coterie.planning.teams import settled
    from coterie.topology.outline import outline

    found = examine(file)
    for diagnostic in found.diagnostics:
        if diagnostic.is_error:
            complain(diagnostic.render(found.text).rstrip("\n"))
    if found.topology is None:
        return 1
    topology = settled(found.topology, found.plan)
    team = outline(topology, thinks(found.plan), sentences(topology), _teams(found.plan))
    if as_json:
        say_json(team)
    else:
        say(text.outline(team, width()))
    return int(not found.valid)


def schema() -> int:
    """Print the JSON Schema of pattern files, for editors that know YAML.

    A line at the top of a file names it: # yaml-language-server: $schema=pattern.schema.json
    """
    import json

    from coterie.formats.yaml.schema import schema

    say(json.dumps(schema(), indent=2))
    return 0


def _teams(plan: "Plan | None") -> "dict[str, Outline]":
    """The teams that answer at nodes of *plan*, and those that answer at theirs."""
    from coterie.planning import thinks
    from coterie.planning.teams import as_topology, children
    from coterie.topology.outline import outline

    return {
        name: outline(as_topology(child), thinks(child), child.notes, _teams(child))
        for name, child in children(plan).items()
    }
