"""`coterie topology fmt`: the one layout."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from coterie.cli.output import complain, say


def fmt(
    targets: Annotated[
        list[Path], typer.Argument(metavar="FILE", help="Files, folders with all files below, or - for the input.")
    ],
    check: Annotated[bool, typer.Option("--check", help="Change nothing; status 1 if something would change.")] = False,
    diff: Annotated[
        bool, typer.Option("--diff", help="Change nothing; show what would change, with status 1.")
    ] = False,
) -> int:
    """Bring files into the one layout.

    Comments stay, and what a file says stays the same. A file that is not well-formed is left as it is, and reported:
    the status is then 1. With - the input is printed in the one layout.
    """
    from coterie.cli.text import teams as text

    dry = check or diff
    changed = same = wrong = 0
    for file in _files(targets):
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
            _tell_or_do(file, before, after, check=check, diff=diff)
    if [*targets] != [_INPUT]:
        complain(text.laid_out(changed, same, wrong, dry=dry))
    return int(bool(wrong or (dry and changed)))


_INPUT = Path("-")


def _files(targets: list[Path]) -> list[Path]:
    from coterie.formats.fixes import files_below

    return list(dict.fromkeys(file for target in targets for file in files_below(target)))


def _read(file: Path) -> str | None:
    """The text of *file*; None after telling why it cannot be read."""
    from coterie import formats

    if file == _INPUT:
        return _input()
    source = formats.read(file)
    if not source.text:
        for diagnostic in source.diagnostics:
            complain(diagnostic.render().rstrip("\n"))
    return source.text or None


def _input() -> str | None:
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError:
        complain("coterie: the input is not UTF-8 text")
        return None


def _laid_out(file: Path, text: str) -> str | None:
    """*text* in the one layout; None after telling what is wrong with it."""
    from dataclasses import replace

    from coterie.errors import TopologyError
    from coterie.formats.at.layout import format_text
    from coterie.formats.files import YAML

    if file.suffix in YAML:
        complain(
            f"{file}: only .at files are laid out; any YAML formatter does it for this one: prettier --write {file}"
        )
        return None
    try:
        return format_text(text)
    except TopologyError as failure:
        for diagnostic in failure.diagnostics:
            complain(replace(diagnostic, file=str(file)).render(text).rstrip("\n"))
        return None


def _tell_or_do(file: Path, before: str, after: str, *, check: bool, diff: bool) -> None:
    from coterie.cli.text import teams as text
    from coterie.files import replace_text

    if diff:
        say(text.difference(before, after, str(file)))
    elif check:
        say(f"{file}: would change")
    else:
        replace_text(file, after)
        say(f"{file}: changed")
