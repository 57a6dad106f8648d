"""What `coterie topology validate` does with its files, whoever has parsed its arguments."""

from collections.abc import Iterable
from pathlib import Path

from coterie.cli.output import complain, say, say_json


def validate(files: Iterable[Path], fix: bool = False, as_json: bool = False) -> int:
    """Check *files* without running them, and say what was found and a verdict.

    Args:
        fix: Mend first what has one remedy.
        as_json: Answer each with one line of JSON.

    Returns:
        The exit status: 0 if all are valid, else 1.
    """
    from coterie.cli.team_file import examine, mend
    from coterie.cli.text import teams as text

    valid = True
    for file in files:
        for done in mend(file) if fix else ():
            complain(f"{file}:{done.span.line}:{done.span.column}: mended: {done.title}")
        found = examine(file)
        valid &= found.valid
        if as_json:
            say_json(found.to_dict())
        else:
            for diagnostic in found.diagnostics:
                complain(diagnostic.render(found.text).rstrip("\n"))
            say(text.verdict(found))
    return int(not valid)
