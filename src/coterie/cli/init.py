"""`coterie init`: create a project from a template, or copy a preset."""

import re
import shlex
import shutil
import unicodedata
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from coterie.cli.options import AsJson
from coterie.cli.output import print_result
from coterie.cli.parameters import Arg, Opt

FILES = {
    "team.at": "team.at.txt",
    "agents/writer.py": "writer.py.txt",
    "agents/reviewer.py": "reviewer.py.txt",
    "agents/publisher.py": "publisher.py.txt",
    "tests/test_team.py": "test_team.py.txt",
    "README.md": "README.md.txt",
    ".gitignore": "gitignore.txt",
}
"""The files of the template, each with its source in `starter/`."""
ABOUT = {
    "team.at": "the agents and their order",
    "agents/": "the programs of the agents",
    "tests/test_team.py": "a test of the team",
}
SYSTEM = {
    "topology.yaml": "system/topology.yaml.txt",
    "agents.py": "system/agents.py.txt",
    "tests/test_system.py": "system/test_system.py.txt",
    "README.md": "system/README.md.txt",
    ".gitignore": "gitignore.txt",
}
"""The files of a supervised system, likewise."""
ABOUT_SYSTEM = {
    "topology.yaml": "the agents and their supervisor",
    "agents.py": "the agents",
    "tests/test_system.py": "a test of the system",
}
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*(?:-[A-Za-z0-9_]+)*")


def init(
    folder: Annotated[
        str | None,
        Arg(metavar="FOLDER", help="The folder, created if missing. By default the current one, or the preset's name."),
    ] = None,
    name: Annotated[str | None, Opt(metavar="NAME", help="The name of the team; by default that of FOLDER.")] = None,
    preset: Annotated[
        str | None, Opt(metavar="P", help="Copy this built-in loop instead; `coterie presets` lists them.")
    ] = None,
    kind: Annotated[
        str, Opt(metavar="K", help="A `team` of programs in a flow, or a supervised `system` of agents.")
    ] = "team",
    as_json: AsJson = False,
) -> int:
    """Create a project with a small team that runs at once and a test that passes; or copy a built-in loop.

    The team consists of three programs, or with --kind system of two agents in Python under a supervisor, and needs no
    model, key or network. If one of the files exists, nothing is created.
    """
    from coterie.errors import UsageError

    if folder == "":
        raise UsageError("FOLDER is empty: omit it to use the current folder, or name a folder")
    if kind not in ("team", "system"):
        raise UsageError(f"there is no kind {kind!r} of project: choose team or system")
    if preset is not None:
        return _copy(preset, Path(folder or preset), name, as_json)
    where = Path(folder or ".")
    team = _name(name, where)
    files = SYSTEM if kind == "system" else FILES
    _write(where, {file: _template(template).replace("@NAME@", team) for file, template in files.items()})
    value = {"folder": str(where), "name": team, "files": list(files)}
    print_result(as_json, value, lambda: _next_steps(kind, team, where))
    return 0


def _copy(preset: str, folder: Path, name: str | None, as_json: bool) -> int:
    """Copy the files of a preset."""
    from coterie.errors import UsageError
    from coterie.planning.presets import texts

    if name is not None:
        raise UsageError("a copied preset is named after its folder: omit --name and choose FOLDER")
    files = texts(preset)
    _write(folder, files)
    value = {"folder": str(folder), "name": folder.resolve().name, "files": list(files)}
    lines = [f"copied {preset} to {folder}:", *(f"  {file}" for file in files), *_next(folder)]
    print_result(as_json, value, lambda: "\n".join(lines))
    return 0


def _write(folder: Path, files: Mapping[str, str]) -> None:
    """Write *files* below *folder*; if one of them exists, raise a `UsageError` and write none."""
    from coterie.errors import UsageError

    there = [file for file in files if (folder / file).exists() or (folder / file).is_symlink()]
    if there:
        raise UsageError(f"{folder} already contains {', '.join(there)}: nothing was created; choose another folder")
    for file, text in files.items():
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def _next(folder: Path) -> list[str]:
    """The next steps with a copied preset; each works here and now, given a login of Claude Code."""
    from coterie.options.backends import CODING

    where = shlex.quote(str(folder))
    steps = [f"topology validate {where}", f"run {where} --rehearse", "doctor  # shows the backends for a real run"]
    if CODING["claude-sdk"].is_installed:
        steps[-1] = f'run {where} "What to do"'
    elif shutil.which("claude"):
        steps[-1] = f'run {where} -b command "What to do"'
    return ["", "next:", *(f"  coterie {step}" for step in steps)]


def _name(given: str | None, folder: Path) -> str:
    """Return *given*, or a valid name made from the folder's."""
    from coterie.errors import UsageError

    if given is not None and not _NAME.fullmatch(given):
        raise UsageError(f"{given!r} is not a valid name: use letters, digits, - and _, beginning with a letter")
    if given is not None:
        return given
    letters = [each for each in unicodedata.normalize("NFKD", folder.resolve().name) if not unicodedata.combining(each)]
    if any(each.isalnum() and not each.isascii() for each in letters):  # what remains of such a name is meaningless
        return "team"
    made = re.sub(r"[^A-Za-z0-9_]+", "-", "".join(letters)).strip("-")
    return made if _NAME.fullmatch(made) else "team"


def _template(name: str) -> str:
    from importlib.resources import files

    return (files("coterie.cli") / "starter" / name).read_text(encoding="utf-8")


def _next_steps(kind: str, team: str, folder: Path) -> str:
    lines = [f"created the {kind} {team} in {folder}:"]
    lines += [f"  {file:21}{about}" for file, about in (ABOUT_SYSTEM if kind == "system" else ABOUT).items()]
    lines += ["", "next:", *([] if folder == Path(".") else [f"  cd {shlex.quote(str(folder))}"])]
    if kind == "system":
        lines += ["  coterie topology show topology.yaml", "  coterie run -t topology.yaml Ada"]
        return "\n".join([*lines, "  coterie run  # until Ctrl-C", "  python -m unittest discover tests"])
    lines += ["  coterie topology show team.at", '  coterie run team.at "Why we drink tea"']
    lines += ["  coterie simulate team.at --seeds 200", "  python -m unittest discover tests"]
    return "\n".join(lines)
