"""`coterie topology validate`, for the option parser and without it."""

from collections.abc import Iterable
from pathlib import Path

from coterie.cli.output import complain, report, say, say_json


def validate(files: Iterable[Path], fix: bool = False, as_json: bool = False, importing: bool = False) -> int:
    """Check *files*, print what was found and a verdict for each.

    Args:
        fix: First apply to the files the fixes that are offered.
        as_json: Print one line of JSON for each file.
        importing: Import the classes of supervised systems, and report those that are missing.

    Returns:
        The exit status: 0 if all are valid, 2 if one does not exist, else 1.
    """
    from coterie.cli.team_file import examine, mend, with_imports
    from coterie.cli.text.teams import verdict

    status = 0
    for file in files:
        for done in mend(file) if fix else ():
            complain(f"{file}:{done.span.line}:{done.span.column}: fixed: {done.title}")
        found = examine(file)
        if importing and found.is_system:
            found = with_imports(found)
        status = max(status, found.exit)
        if as_json:
            say_json(found.to_dict())
        elif found.is_system:
            from coterie.cli.text.systems import checks

            say(checks(found))
        else:
            report(found.diagnostics, found.text)
            say(verdict(found))
    return status
