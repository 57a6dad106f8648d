"""`coterie init`: create a project from a template, or copy a preset."""

import re
import shlex
import shutil
import unicodedata
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from msgspec import Struct

from coterie.base.diagnostics import did_you_mean
from coterie.interfaces.cli.options import AsJson
from coterie.interfaces.cli.output import print_result
from coterie.interfaces.cli.parameters import Arg, Opt

FILES = {
    "team.at": "team.at.txt",
    "agents/writer.py": "writer.py.txt",
    "agents/reviewer.py": "reviewer.py.txt",
    "agents/publisher.py": "publisher.py.txt",
    "tests/test_team.py": "test_team.py.txt",
    "README.md": "README.md.txt",
    ".gitignore": "gitignore.txt",
}
"""The files of a flow, each with its source in `starter/`."""
SYSTEM = {
    "topology.yaml": "system/topology.yaml.txt",
    "agents.py": "system/agents.py.txt",
    "tests/test_system.py": "system/test_system.py.txt",
    "README.md": "system/README.md.txt",
    ".gitignore": "gitignore.txt",
}
"""The files of a supervised system, likewise."""
_EACH = {"team.at": "kinds/each.at.txt", "agents.py": "kinds/each_agents.py.txt"}
_LOOP = {
    "topology.toml": "kinds/topology.toml.txt",
    "autoloops.toml": "kinds/autoloops.toml.txt",
    "roles.py": "kinds/roles.py.txt",
}
_PATTERN = {"team.pattern.yaml": "kinds/team.pattern.yaml.txt", "agents.py": "kinds/pattern_agents.py.txt"}
_SHARED = {
    "tests/test_team.py": "kinds/test_team.py.txt",
    "README.md": "kinds/README.md.txt",
    ".gitignore": "gitignore.txt",
}


class _Kind(Struct, frozen=True):
    """A kind of project.

    Attributes:
        about: A sentence about it.
        files: Its files, each with its source.
        target: What is run.
        parts: Its files or folders, each with what it contains.
        prompt: The words behind the target; *steps* are further commands.
    """

    about: str
    files: Mapping[str, str]
    target: str
    parts: Mapping[str, str]
    prompt: str = ' "Tea, and cups"'
    steps: tuple[str, ...] = ("coterie simulate {target} --seeds 200",)


_TESTS = {"tests/test_team.py": "a test of the team"}
KINDS = {
    "flow": _Kind(
        "Agents whose order arrows say.",
        FILES,
        "team.at",
        {"team.at": "the agents and their order", "agents/": "the programs of the agents", **_TESTS},
        ' "Why we drink tea"',
    ),
    "each": _Kind(
        "The same work on each item of a list that only the run knows.",
        _EACH | _SHARED,
        "team.at",
        {"team.at": "the agents and their order", "agents.py": "the agents", **_TESTS},
    ),
    "program": _Kind(
        "A plan said in code: loops and choices on values.",
        {"program.py": "kinds/program.py.txt"} | _SHARED,
        "program.py:report",
        {"program.py": "the plan and the agents", **_TESTS},
    ),
    "loop": _Kind(
        "Roles that hand on by events until one completes the loop.",
        _LOOP | _SHARED,
        ".",
        {"topology.toml": "the roles and their events", "roles.py": "the programs of the roles", **_TESTS},
    ),
    "pattern": _Kind(
        "A known collaboration: three agents vote.",
        _PATTERN | _SHARED,
        "team.pattern.yaml",
        {"team.pattern.yaml": "the pattern and its slots", "agents.py": "the agents", **_TESTS},
    ),
    "system": _Kind(
        "Agents in Python that live on, under a supervisor.",
        SYSTEM,
        "topology.yaml",
        {
            "topology.yaml": "the agents and their supervisor",
            "agents.py": "the agents",
            "tests/test_system.py": "a test of the system",
        },
        " Ada",
        ("coterie run  # until Ctrl-C",),
    ),
}
"""The kinds of projects."""
_SYNONYMS = {"team": "flow"}
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*(?:-[A-Za-z0-9_]+)*")


def init(
    folder: Annotated[
        str | None, Arg("FOLDER", "The folder, created if missing. By default the current one, or the preset's name.")
    ] = None,
    name: Annotated[str | None, Opt("--name NAME", "The name of the team; by default that of FOLDER.")] = None,
    preset: Annotated[
        str | None, Opt("--preset P", "Copy this built-in loop instead; `coterie presets` lists them.")
    ] = None,
    kind: Annotated[
        str, Opt("--kind K", "Its kind: a `flow`, `each`, a `program`, a `loop`, a `pattern`, or a `system`.")
    ] = "flow",
    as_json: AsJson = False,
) -> int:
    """Create a project with a small team that runs at once and a test that passes; or copy a built-in loop.

    The team is a flow of three programs: arrows say their order. --kind each does the same work on each item of a list;
    program is a plan in Python; loop has roles that hand on by events; pattern is a vote; system has agents that live
    on, under a supervisor. They run without a model, key or network. If one of the files exists, nothing is created.
    """
    from coterie.errors import UsageError

    if folder == "":
        raise UsageError("FOLDER is empty: omit it to use the current folder, or name a folder")
    if (chosen := KINDS.get(_SYNONYMS.get(kind, kind))) is None:
        hint = did_you_mean(kind, KINDS) or f"choose {', '.join(KINDS)}"
        raise UsageError(f"there is no kind {kind!r} of project: {hint}")
    if preset is not None:
        return _copy(preset, Path(folder or preset), name, as_json)
    where = Path(folder or ".")
    team = _name(name, where)
    _write(where, {file: _filled(_template(source), team, chosen) for file, source in chosen.files.items()})
    value = {"folder": str(where), "name": team, "files": list(chosen.files)}
    print_result(as_json, value, lambda: _next_steps(kind, chosen, team, where))
    return 0


def _copy(preset: str, folder: Path, name: str | None, as_json: bool) -> int:
    """Copy the files of a preset."""
    from coterie.errors import UsageError
    from coterie.team.planning.presets import texts

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
    from coterie.team.options.backends import CODING

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

    return (files("coterie.interfaces.cli") / "starter" / name).read_text(encoding="utf-8")


def _filled(text: str, team: str, kind: _Kind) -> str:
    return text.replace("@NAME@", team).replace("@ABOUT@", kind.about).replace("@TARGET@", kind.target)


def _next_steps(word: str, kind: _Kind, team: str, folder: Path) -> str:
    lines = [f"created the {word} {team} in {folder}:", *(f"  {file:21}{about}" for file, about in kind.parts.items())]
    lines += ["", "next:", *([] if folder == Path(".") else [f"  cd {shlex.quote(str(folder))}"])]
    option = "-t " if kind.files is SYSTEM else ""
    lines += [f"  coterie topology show {kind.target}", f"  coterie run {option}{kind.target}{kind.prompt}"]
    lines += [f"  {step.format(target=kind.target)}" for step in (*kind.steps, "python -m unittest discover tests")]
    return "\n".join(lines)
