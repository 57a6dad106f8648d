"""`coterie topology validate`, for the option parser and without it."""

from collections.abc import Iterable
from pathlib import Path

from coterie.cli.output import complain, report, say, say_json


def validate(files: Iterable[Path], fix: bool = False, as_json: bool = False) -> int:
    """Check *files*, print what was found and a verdict for each.

    Args:
        fix: First apply to the files the fixes that are offered.
        as_json: Print one line of JSON for each file.

    Returns:
        The exit status: 0 if all are valid, 2 if one does not exist, else 1.
    """
    from coterie.cli.team_file import examine, mend
    from coterie.cli.text.teams import verdict

    status = 0
    for file in files:
        for done in mend(file) if fix else ():
            complain(f"{file}:{done.span.line}:{done.span.column}: fixed: {done.title}")
        found = examine(file)
        status = max(status, found.exit)
        if as_json:
            say_json(found.to_dict())
        else:
            report(found.diagnostics, found.text)
            say(verdict(found))
    return status
