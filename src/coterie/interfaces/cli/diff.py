"""`coterie topology diff`: the differences between two teams."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from coterie.interfaces.cli.options import AsJson
from coterie.interfaces.cli.output import print_result, report, say_json
from coterie.interfaces.cli.parameters import Arg, Opt

if TYPE_CHECKING:
    from coterie.team.topology.model import Topology


def diff(
    old: Annotated[Path, Arg("OLD", "A file.")],
    new: Annotated[Path, Arg("NEW", "Another file, in any notation.")],
    exit_code: Annotated[
        bool, Opt("--exit-code", "Status 1 if two supervised systems differ, as always for other teams.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Compare two teams by meaning.

    Ignores layout, comments and the order of declarations, but not the order of arrows or of a supervisor's children.
    Two supervised systems are compared by their effective values. Exit status: 0 if they are equal, 1 if they differ
    (for systems only with --exit-code), 2 if one cannot be read.
    """
    from coterie.interfaces.cli.text.diff import changes
    from coterie.team.topology.diff import diff

    before, after = _read(old, as_json), _read(new, as_json)
    if before is None or after is None:
        return 2
    if before.system is not None and after.system is not None:
        from coterie.interfaces.cli.text.systems import differences
        from coterie.team.topology.system.diff import diff_systems

        systems = diff_systems(before.system, after.system)
        print_result(as_json, systems, lambda: differences(systems, str(old), str(new)))
        return int(bool(systems) and exit_code)
    if before.system is not None or after.system is not None:
        from coterie.errors import UsageError

        raise UsageError("a supervised system can only be compared with another one")
    found = diff(before, after)
    print_result(as_json, found, lambda: changes(found))
    return int(bool(found))


def _read(file: Path, as_json: bool) -> "Topology | None":
    """Return the team in *file*, and print its errors; return None if it cannot be read at all.

    A supervised system with errors counts as unreadable: the values in effect are unknown.
    """
    from coterie.errors import TopologyError
    from coterie.team import formats

    source = formats.read(file)
    topology = source.topology
    if topology is not None and not (topology.system is not None and source.has_errors):
        report((one for one in source.diagnostics if one.is_error), source.text)
        return topology
    if as_json:
        say_json(TopologyError(source.diagnostics).to_dict())
    else:
        report(source.diagnostics, source.text)
    return None
