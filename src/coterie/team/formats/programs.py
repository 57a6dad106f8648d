"""Read a program, `FILE.py:name` or `module:name`: its module is imported, and its source is checked.

A resumed run makes the steps of a program again, so what gives another value each time is reported: clocks, random
numbers, and what lies outside of the run.
"""

import ast
import os
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from msgspec.structs import replace

from coterie.base import agent_writes
from coterie.base.diagnostics import Diagnostic, Span, did_you_mean, error, warning
from coterie.base.user_code import contained
from coterie.team.formats import bounds
from coterie.team.formats.source import Source
from coterie.team.topology.model import Topology
from coterie.team.topology.typed.program import TypedProgram

_TARGET = re.compile(r"(?P<file>.+\.py):(?P<of_file>\w+)|(?P<module>[A-Za-z_][\w.]*):(?P<name>[A-Za-z_]\w*)")
_INSTEAD = {
    "now()": ("time.time", "time.monotonic", ".now", ".utcnow", ".today"),
    "random()": ("random.", "secrets.", ".uuid1", ".uuid4", "uuid4", ".urandom"),
    "await sleep(…)": ("time.sleep", "asyncio.sleep"),
    "an agent with that function": (
        *("open", "input", "asyncio.", "subprocess.", "requests.", "httpx.", "socket.", "urlopen", ".urlopen"),
        *(".getenv", ".environ.get", ".listdir", ".iterdir", ".glob", ".read_text", ".write_text", ".read_bytes"),
    ),
}
"""What programs write in place of calls that a resumed run would not repeat, by beginnings and ends of their names."""


def is_program(target: str | Path) -> bool:
    """Whether *target* names a program, and is no file."""
    return _TARGET.fullmatch(str(target)) is not None and not Path(target).exists()


def read(target: str) -> Source:
    """Import and check the program *target*. Every problem becomes a diagnostic."""
    named = _TARGET.fullmatch(target)
    assert named is not None
    name, folder, module = named["name"] or named["of_file"], Path(), named["module"]
    if named["file"]:
        folder, module = Path(named["file"]).parent, Path(named["file"]).stem
        if not Path(named["file"]).is_file():
            return _failed(target, f"there is no file {named['file']!r}")
    agent_writes.guard_imports()
    if (place := str(folder.resolve())) not in sys.path:
        sys.path.append(place)  # at the end: it hides no other module
    try:
        with contained():
            loaded = import_module(module)
    except Exception as failure:  # its code is the user's
        return _failed(target, f"{module} cannot be imported: {type(failure).__name__}: {failure}")
    file = getattr(loaded, "__file__", None) or ""
    if named["file"] and Path(file).resolve() != Path(named["file"]).resolve():
        hint = "rename your file"
        return _failed(target, f"the module {module!r} is {file or 'part of Python'}, not this file", hint)
    found = getattr(loaded, name, None)
    if not isinstance(found, TypedProgram):
        if isinstance(found, Topology):
            hint = f"run it in Python, coterie.run({name}, …), or write it to an .at file: coterie.to_at({name})"
            return _failed(target, f"{module}.{name} is a flow, and a command runs flows of files and programs", hint)
        programs = [one for one, value in vars(loaded).items() if isinstance(value, TypedProgram)]
        hint = did_you_mean(name, programs) or (
            f"it has {', '.join(programs)}" if programs else "decorate it: @program"
        )
        return _failed(target, f"{module} has no program {name!r}", hint)
    try:
        text = bounds.read_text(Path(file))
    except OSError as why:
        return _failed(target, f"{file!r} cannot be read: {why.strerror or why}")
    shown = named["file"] or os.path.relpath(file)
    return Source(text, shown, found, tuple(_unsteady(text, found.path.rpartition(":")[2], shown)))


def _failed(target: str, message: str, hint: str = "") -> Source:
    return Source("", target, None, (replace(error("no-program", message, hint=hint), file=target),))


def _unsteady(text: str, name: str, file: str) -> Iterator[Diagnostic]:
    """A warning for each call in the program *name*, and in the functions of its file that it calls, that is unsteady.

    Functions that agents call are not meant: they may do anything.
    """
    tree, lines = ast.parse(text), text.splitlines(keepends=True)
    functions = {one.name: one for one in tree.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)}
    front, seen = [name] if name in functions else [], {name}
    while front:
        calls = [node for node in ast.walk(functions[front.pop()]) if isinstance(node, ast.Call)]
        for call in calls:
            called = ast.unparse(call.func)
            if called in functions and called not in seen:
                seen.add(called)
                front.append(called)
            elif instead := _instead(called):
                line = lines[call.lineno - 1]
                column = len(line.encode()[: call.col_offset].decode())
                span = Span(call.lineno, column + 1, len(called), sum(map(len, lines[: call.lineno - 1])) + column)
                message = f"{called}() may give another value when the run is resumed"
                yield replace(warning("unsteady-program", message, span, f"use {instead} in its place"), file=file)


def _instead(called: str) -> str:
    """What a program uses in place of the function *called*; empty if that is steady."""
    for instead, names in _INSTEAD.items():
        for name in names:
            if called == name or (
                called.endswith(name) if name[0] == "." else called.startswith(name) and name[-1] == "."
            ):
                return instead
    return ""
