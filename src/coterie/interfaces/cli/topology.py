"""`coterie topology validate`, `show` and `schema`, which neither run a team nor import the user's code."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from coterie.interfaces.cli.options import AsJson
from coterie.interfaces.cli.output import complain, print_result, report, say, say_json, width
from coterie.interfaces.cli.parameters import Arg, Opt

if TYPE_CHECKING:
    from coterie.team.planning.plan import Plan
    from coterie.team.topology.outline import Outline


def validate(
    files: Annotated[list[Path], Arg("FILE", "The files to check.")],
    fix: Annotated[bool, Opt("--fix", "First apply the fixes that are offered to the files.")] = False,
    importing: Annotated[
        bool, Opt("--import", "Also import the classes of supervised systems, which runs their modules.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Check files without running them.

    Prints diagnostics and a verdict for each file, for a supervised system a list of checks, or with --json one line
    {"file", "valid", "diagnostics"}. The exit status is 0 if all files are valid, 2 if one does not exist, else 1.
    """
    from coterie.interfaces.cli.team_file import examine, mend, with_imports, with_programs
    from coterie.interfaces.cli.text.teams import verdict

    status = 0
    for file in files:
        for done in mend(file) if fix else ():
            complain(f"{file}:{done.span.line}:{done.span.column}: fixed: {done.title}")
        found = with_programs(examine(file))
        if importing:
            found = with_imports(found)
        status = max(status, found.exit)
        if as_json:
            say_json(found.to_dict())
        elif found.is_system:
            from coterie.interfaces.cli.text.systems import checks

            say(checks(found))
        else:
            report(found.diagnostics, found.text)
            say(verdict(found))
    return status


def show(file: Annotated[Path, Arg("FILE", "The file to show.")], as_json: AsJson = False) -> int:
    """Show a team: its nodes with backends, tools and outputs, its arrows with bounds, and fields without effect.

    A nested team is shown below its node, a supervised system as its tree. On a terminal, long lines are wrapped. If
    the file has a topology_server that answers within a second, the tree shows the state of its nodes.
    """
    from coterie.interfaces.cli.team_file import examine
    from coterie.interfaces.cli.text import teams as text
    from coterie.team.planning import sentences, thinks
    from coterie.team.planning.teams import settled
    from coterie.team.topology.outline import outline

    found = examine(file)
    if found.topology is None:
        if as_json:
            say_json(found.to_dict())
        else:
            report(found.errors, found.text)
        return found.exit
    report(found.errors, found.text)
    if found.topology.system is not None:
        from coterie.interfaces.cli.live_topology import with_state
        from coterie.interfaces.cli.text.systems import tree
        from coterie.team.topology.system.outline import outline_system

        system = with_state(outline_system(found.topology.system), found.topology.system)
        print_result(as_json, system, lambda: tree(system, str(file)))
        return int(not found.valid)
    topology = settled(found.topology, found.plan)
    team = outline(topology, thinks(found.plan), sentences(topology), _teams(found.plan))
    print_result(as_json, team, lambda: text.outline(team, width()))
    return int(not found.valid)


def schema() -> int:
    """Print the JSON Schema of YAML files, supervised systems and patterns, for editors with YAML support.

    To use it, begin a file with the line: # yaml-language-server: $schema=topology.schema.json
    """
    import json

    from coterie.team.formats.yaml.system.schema import file_schema

    say(json.dumps(file_schema(), indent=2))
    return 0


def _teams(plan: "Plan | None") -> "dict[str, Outline]":
    """Return the outlines of the teams nested in *plan*, at any depth."""
    from coterie.team.planning import thinks
    from coterie.team.planning.teams import as_topology, children
    from coterie.team.topology.outline import outline

    return {
        name: outline(as_topology(child), thinks(child), child.notes, _teams(child))
        for name, child in children(plan).items()
    }
