"""`coterie init`: a project that runs at once, with a test that passes; or a copy of a preset."""

import re
import shlex
import unicodedata
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from coterie.cli.options import AsJson
from coterie.cli.output import say, say_json

FILES = {
    "team.at": "team.at.txt",
    "agents/writer.py": "writer.py.txt",
    "agents/reviewer.py": "reviewer.py.txt",
    "agents/publisher.py": "publisher.py.txt",
    "tests/test_team.py": "test_team.py.txt",
    "README.md": "README.md.txt",
    ".gitignore": "gitignore.txt",
}
"""What is made, and from which file in `starter/`."""
ABOUT = {
    "team.at": "who there is, and in what order they work",
    "agents/": "the programs that are asked",
    "tests/test_team.py": "what the team promises",
}
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*(?:-[A-Za-z0-9_]+)*")


def init(
    folder: Annotated[
        str | None,
        typer.Argument(
            metavar="FOLDER", help="Where; made if it is not there. By default here, or as a preset is called."
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="What the team is called; by default as FOLDER is.")
    ] = None,
    preset: Annotated[
        str | None, typer.Option(metavar="P", help="Copy this ready-made loop instead; `coterie presets` lists them.")
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Make a project: a small team that runs at once, and a test that passes; or the copy of a ready-made loop.

    The team is three programs, so it needs no model, key or network. Nothing that is there is overwritten: then the
    files are named, and nothing is made.
    """
    from coterie.errors import UsageError

    if folder == "":
        raise UsageError("FOLDER is empty: leave it out to make the project here, or name a folder")
    if preset is not None:
        return _copy(preset, Path(folder or preset), name, as_json)
    where = Path(folder or ".")
    team = _name(name, where)
    _write(where, {file: _template(template).replace("@NAME@", team) for file, template in FILES.items()})
    if as_json:
        say_json({"folder": str(where), "name": team, "files": list(FILES)})
    else:
        say(_next_steps(team, where))
    return 0


def _copy(preset: str, folder: Path, name: str | None, as_json: bool) -> int:
    """Copy the files of a preset."""
    from coterie.errors import UsageError
    from coterie.presets import texts

    if name is not None:
        raise UsageError("a preset is called as its folder is: leave --name out, and choose FOLDER")
    files = texts(preset)
    _write(folder, files)
    if as_json:
        say_json({"folder": str(folder), "name": folder.resolve().name, "files": list(files)})
    else:
        say("\n".join([f"copied {preset} to {folder}:", *(f"  {file}" for file in files), *_next(folder)]))
    return 0


def _write(folder: Path, files: Mapping[str, str]) -> None:
    """Write *files* below *folder*, all of them or, if one is there already, none."""
    from coterie.errors import UsageError

    there = [file for file in files if (folder / file).exists() or (folder / file).is_symlink()]
    if there:
        raise UsageError(f"{folder} has {', '.join(there)} already: nothing was made; choose another folder")
    for file, text in files.items():
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def _next(folder: Path) -> list[str]:
    where = shlex.quote(str(folder))
    return [
        "",
        "next:",
        f"  coterie topology validate {where}",
        f"  coterie run {where} --rehearse",
        f'  coterie run {where} "What there is to do"',
    ]


def _name(given: str | None, folder: Path) -> str:
    """*given*, or the folder's name as a file can write it."""
    from coterie.errors import UsageError

    if given is not None and not _NAME.fullmatch(given):
        raise UsageError(f"{given!r} cannot name a team: a name is letters, digits, - and _, and begins with a letter")
    if given is not None:
        return given
    letters = [each for each in unicodedata.normalize("NFKD", folder.resolve().name) if not unicodedata.combining(each)]
    if any(each.isalnum() and not each.isascii() for each in letters):  # what is left of such a name says nothing
        return "team"
    made = re.sub(r"[^A-Za-z0-9_]+", "-", "".join(letters)).strip("-")
    return made if _NAME.fullmatch(made) else "team"


def _template(name: str) -> str:
    from importlib.resources import files

    return (files("coterie.cli") / "starter" / name).read_text(encoding="utf-8")


def _next_steps(team: str, folder: Path) -> str:
    lines = [f"made the team {team} in {folder}:"]
    lines += [f"  {file:20}{about}" for file, about in ABOUT.items()]
    lines += ["", "next:", *([] if folder == Path(".") else [f"  cd {shlex.quote(str(folder))}"])]
    lines += ["  coterie topology show team.at", '  coterie run team.at "Why we drink tea"']
    lines += ["  coterie simulate team.at --seeds 200", "  python -m pytest"]
    return "\n".join(lines)
