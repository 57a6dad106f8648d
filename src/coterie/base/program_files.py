"""Which files a command executes when it starts, so that none of them is one that an agent could have written.

A command names its program, and for an interpreter the script or module: these files are known, with their virtual
environment or npm installation. What a program reads later (a Makefile, a library elsewhere) is not.
"""

import os
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

from coterie.base import agent_writes, files

_MODULES = (".py", ".pyc", ".so")
_ENV_OPTION = re.compile(r"(?:-[a-zA-Z]*?([uCS])|--(unset|chdir|split-string)(?:=|$))(.*)", re.DOTALL)
"""An option of `env` that has a value."""
_PYTHON_OPTION = re.compile("-([^cmWX]*)([cmWX]?)(.*)", re.DOTALL)
"""Flags, and at the end an option with a value."""
_LOADS_FIRST = ("-r", "--require", "--import", "--loader", "--experimental-loader")
"""Options of interpreters whose value is a file that is executed before the script."""
_LOADING = ("BASH_ENV", "ENV", "LD_AUDIT", "LD_PRELOAD", "NODE_OPTIONS", "PERL5OPT", "RUBYOPT")
"""Variables that name files which programs execute when they start."""
_LINE_MOST = 4096
_NESTED = 3
"""How many interpreters of interpreters are followed."""


def refusal(argv: Sequence[str], cwd: Path, env: Mapping[str, str]) -> str:
    """Why the command *argv* is not started in *cwd*, and what to do; empty if no agent could have written its files.

    Args:
        env: The environment of its process; `PATH` finds the program.
    """
    if not agent_writes.are_known():
        return ""
    for path in executed(argv, cwd, env):
        for written in agent_writes.written_below(path):
            return f"it executes {written}, and {agent_writes.refusal(written)}"
    return ""


def executed(argv: Sequence[str], cwd: Path, env: Mapping[str, str], _depth: int = _NESTED) -> Iterator[Path]:
    """The files and folders from which the command *argv* takes what it executes in *cwd*.

    These are its program and the first argument that is a file, in Python with the modules beside it, and what options
    and variables have loaded before.
    """
    cwd = Path(os.path.abspath(cwd))
    program = _program(argv[0], cwd, env) if argv else None
    if program is None or not _depth:
        return
    if program.name == "env":
        yield from executed(*_within_env(argv[1:], cwd, env), _depth - 1)
        return
    yield from _installed(program)
    if interpreter := _interpreter(program):
        yield from executed([*interpreter, str(program)], cwd, env, _depth - 1)
    for word in filter(None, re.split(r"[\s:=]+", " ".join(env.get(name, "") for name in _LOADING))):
        yield from _script(cwd / word)
    if program.name.startswith("python"):
        yield from _of_python(argv[1:], cwd, env)
        return
    for before, word in pairwise(argv):
        option, _, value = word.partition("=")
        if option in _LOADS_FIRST:
            yield from _script(cwd / value)
        elif files.is_file(script := cwd / word):
            yield from _installed(script)
            if before not in _LOADS_FIRST:
                return


def _within_env(words: Sequence[str], cwd: Path, env: Mapping[str, str]) -> tuple[list[str], Path, Mapping[str, str]]:
    """The command that `env` with *words* starts, its folder, and its environment."""
    words = [*words]
    while words and (words[0].startswith("-") or "=" in words[0]):
        word = words.pop(0)
        if not word.startswith("-"):
            name, _, value = word.partition("=")
            env = {**env, name: value}
        elif found := _ENV_OPTION.fullmatch(word):
            value = found[3] or (words.pop(0) if words else "")
            match found[1] or found[2]:
                case "C" | "chdir":
                    cwd = cwd / value
                case "S" | "split-string":
                    with suppress(ValueError):  # an unclosed quote, which `env` refuses
                        words = [*shlex.split(value), *words]
    return words, cwd, env


def _of_python(words: Sequence[str], cwd: Path, env: Mapping[str, str]) -> Iterator[Path]:
    """What Python, started with *words* in *cwd*, executes: its script or module, and what it finds beside it."""
    flags, found, place, words = "", list[Path](), cwd, [*words]
    while words and (option := words[0]).startswith("-"):
        words = words[1:]
        before, letter, value = _PYTHON_OPTION.fullmatch("-X" if option.startswith("--") else option).groups()  # type: ignore[union-attr]
        flags += before
        if letter in ("W", "X") and not value and option != "--":
            words = words[1:]
        elif letter in ("c", "m"):
            module = (value or "".join(words[:1])) if letter == "m" and "I" not in flags else ""
            found += _module(cwd / module.replace(".", os.sep)) if module else []
            break
    else:
        if words and files.is_file(script := cwd / words[0]):
            found, place = [*_installed(script)], script.resolve().parent
        elif words:
            found, place = [*_module(cwd / words[0] / "__main__")], cwd / words[0]
    yield from found
    if not {*"IP"} & {*flags}:
        yield from _beside(place)
    for folder in filter(None, [] if {*"IE"} & {*flags} else env.get("PYTHONPATH", "").split(os.pathsep)):
        yield from _beside(cwd / folder)


def _script(path: Path) -> Iterator[Path]:
    if files.is_file(path):
        yield from _installed(path)


def _program(word: str, cwd: Path, env: Mapping[str, str]) -> Path | None:
    """The program that *word* starts in *cwd*; None if there is none."""
    folders = (env.get("PATH") or os.defpath).split(os.pathsep)
    with suppress(ValueError):  # no valid path
        name = str(cwd / word) if os.sep in word else word
        found = shutil.which(name, path=os.pathsep.join(os.path.join(cwd, folder) for folder in folders))
        return Path(found) if found else None
    return None


def _installed(path: Path) -> Iterator[Path]:
    """The file *path*, and the virtual environment or the npm installation that it belongs to."""
    yield path
    ways = (str(path), os.path.join(files.real_path(path.parent), path.name), files.real_path(path))
    for way in dict.fromkeys(ways):
        if os.path.exists(f"{(environment := os.path.dirname(os.path.dirname(way)))}/pyvenv.cfg"):
            yield Path(environment)
        above, installed, _ = way.partition("/node_modules/")
        if installed:
            yield Path(above, "node_modules")


def _interpreter(path: Path) -> list[str]:
    """The words after `#!` in the file *path*; none if it has no such line."""
    try:
        with open(files.open_fd(path, follow=True), "rb") as file:
            line = file.readline(_LINE_MOST)
        return shlex.split(line[2:].decode()) if line.startswith(b"#!") else []
    except (OSError, ValueError):
        return []


def _module(path: Path) -> Iterator[Path]:
    yield from (path.with_name(path.name + suffix) for suffix in _MODULES)
    yield path


def _beside(folder: Path) -> Iterator[Path]:
    """What Python, started with a file or a module in *folder*, imports from it in place of any other module."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(_MODULES):
                yield Path(entry.path)
            elif entry.name.isidentifier() and os.path.isdir(entry.path):
                yield from (Path(entry.path, f"__init__{suffix}") for suffix in _MODULES)
