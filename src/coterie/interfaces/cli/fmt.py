"""`coterie topology fmt`: format .at files."""

import sys
from pathlib import Path
from typing import Annotated

from coterie.interfaces.cli.output import complain, report, say
from coterie.interfaces.cli.parameters import Arg, Opt


def fmt(
    targets: Annotated[list[Path], Arg("FILE", "Files, folders, or - for standard input.")],
    check: Annotated[bool, Opt("--check", "Change nothing; status 1 if a file would change.")] = False,
    diff: Annotated[bool, Opt("--diff", "Change nothing; print the changes, with status 1.")] = False,
) -> int:
    """Format files.

    Keeps comments and meaning. A file with syntax errors is reported and not changed, and the exit status is 1; it is 2
    if a file does not exist. With -, standard input is formatted to standard output.
    """
    from coterie.interfaces.cli.text import teams as text

    dry = check or diff
    changed = same = wrong = 0
    files = _files(targets)
    for file in files:
        before = _read(file)
        after = _laid_out(file, before) if before is not None else None
        if before is None or after is None:
            wrong += 1
            continue
        changed += after != before
        same += after == before
        if file == _INPUT and not dry:
            sys.stdout.write(after)
        elif after != before:
            _apply(file, before, after, check=check, diff=diff)
    if [*targets] != [_INPUT]:
        complain(text.laid_out(changed, same, wrong, dry=dry))
    if any(file != _INPUT and not file.exists() for file in files):
        return 2
    return int(bool(wrong or (dry and changed)))


_INPUT = Path("-")


def _files(targets: list[Path]) -> list[Path]:
    from coterie.team.formats.fixes import files_below

    return list(dict.fromkeys(file for target in targets for file in files_below(target)))


def _read(file: Path) -> str | None:
    """Return the text of *file*; if it cannot be read, print why and return None."""
    from coterie.team import formats

    if file == _INPUT:
        return _input()
    source = formats.read(file)
    if not source.text:
        report(source.diagnostics, "")
    return source.text or None


def _input() -> str | None:
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError:
        complain("coterie: standard input is not UTF-8 text")
        return None


def _laid_out(file: Path, text: str) -> str | None:
    """Return *text* formatted; if it has syntax errors, print them and return None."""
    from msgspec.structs import replace

    from coterie.errors import TopologyError
    from coterie.team.formats.at.layout import format_text
    from coterie.team.formats.files import YAML

    if file.suffix in YAML:
        complain(f"{file}: only .at files are formatted; use a YAML formatter for this one: prettier --write {file}")
        return None
    try:
        return format_text(text)
    except TopologyError as failure:
        report((replace(diagnostic, file=str(file)) for diagnostic in failure.diagnostics), text)
        return None


def _apply(file: Path, before: str, after: str, *, check: bool, diff: bool) -> None:
    from coterie.base.files import replace_text
    from coterie.interfaces.cli.text import teams as text

    if diff:
        say(text.difference(before, after, str(file)))
    elif check:
        say(f"{file}: would change")
    else:
        replace_text(file, after)
        say(f"{file}: changed")
