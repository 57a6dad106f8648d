"""Read a topology in any notation, with the files that belong to it."""

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from msgspec.structs import replace

from coterie.base.diagnostics import Diagnostic, error, place
from coterie.team.formats.at import Parsed, compose, parse, read_at
from coterie.team.formats.files import YAML, Library, Unreadable
from coterie.team.formats.folders import loop_folder
from coterie.team.formats.imports import Chain, Importer
from coterie.team.formats.source import Source
from coterie.team.topology.checks import check
from coterie.team.topology.composition import located
from coterie.team.topology.conditions import Scalar
from coterie.team.topology.model import Topology

_SAFE = frozenset({"duplicate-name", "duplicate-output", "no-model", "unknown-agent", "unknown-value"})
"""Codes that are valid even if a part of the flow could not be read."""

_OF_A_FRAGMENT = frozenset({"bad-max", "duplicate-name", "duplicate-output", "fallback-to-itself", "no-model"})
"""Codes that are valid for a fragment by itself."""


def read(path: Path, params: Mapping[str, Scalar] | None = None) -> Source:
    """Read and check *path*: a file, the folder of a loop, or a program, `FILE.py:name`, whose module is imported.

    Every problem becomes a diagnostic.

    Args:
        params: Values for its declared parameters, or for the settings of a pattern file.
    """
    if (folder := loop_folder(path)) is not None:
        return _read_loop(folder)
    if ":" in path.name:
        from coterie.team.formats import programs  # few teams are programs

        if programs.is_program(path):
            return programs.read(str(path))
    library = Library()
    file = str(path)
    try:
        text = library.text(path)
    except Unreadable as unreadable:
        message = f"{file!r} cannot be read: {unreadable.reason}"
        found = error(unreadable.code, message, unreadable.span, unreadable.hint)
        return Source("", file, None, (replace(found, file=file),))
    return _Reader(library).read(text, file, path.parent, params or {})


def read_text(
    text: str, file: str = "", folder: Path | None = None, params: Mapping[str, Scalar] | None = None
) -> Source:
    """Read and check a text; included and imported files are read from disk.

    Args:
        file: The path shown in diagnostics; its suffix selects the notation, `.at` by default.
        folder: The base of relative paths in it; without a folder every prompt is a text, and no other file is read.
        params: Values for its declared parameters, or for the settings of a pattern file.
    """
    return _Reader(Library()).read(text, file, folder, params or {})


def changed(source: Source, text: str, folder: Path | None) -> Source:
    """*source* with *text* as the content of its file; paths in it are relative to *folder*."""
    if source.topology is not None and source.topology.loop is not None:
        return _read_loop(Path(source.file).parent, text)
    return read_text(text, source.file, folder)


def _read_loop(folder: Path, text: str | None = None) -> Source:
    from coterie.team.formats.toml import read_folder  # imported on demand

    found = read_folder(folder, text)
    diagnostics = list(found.diagnostics)
    if found.topology is not None:
        diagnostics += [replace(each, file=found.file, text=found.text) for each in check(found.topology)]
    diagnostics.sort(key=lambda each: (each.file != found.file, each.file, *place(each)))
    return Source(found.text, found.file, found.topology, tuple(diagnostics))


def _read_pattern(text: str, file: str, folder: Path | None, given: Mapping[str, Scalar]) -> Source:
    from coterie.team.formats.yaml import read_yaml  # imported on demand

    found: list[Diagnostic] = []
    topology = read_yaml(text, file, folder, given, found.append)
    if topology is not None:
        found += _checked_tree(topology, set())
    found.sort(key=lambda each: (each.span.offset if each.span else -1, each.code))
    return Source(text, file, topology, tuple(replace(each, file=file) for each in found))


def _checked_tree(topology: Topology, looked_at: set[int]) -> Iterator[Diagnostic]:
    """The diagnostics of *topology* and its inline teams, without duplicates."""
    looked_at.add(id(topology))
    yield from check(topology)
    for node in topology.nodes:
        if node.topology is not None and id(node.topology) not in looked_at:
            yield from _checked_tree(node.topology, looked_at)


@contextmanager
def _collecting_later() -> Iterator[None]:
    """Pause the garbage collector: nearly everything a reader creates stays alive.

    Afterwards the new objects count as old; otherwise the collector would traverse all of them at once.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            if not gc.get_freeze_count():  # keep what the program, or 3.12 at its start, has frozen
                gc.freeze()
                gc.unfreeze()
            gc.enable()


class _Reader:
    """Reads one text and the files that belong to it."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._importer = Importer(library, self.read)

    @_collecting_later()
    def read(
        self, text: str, file: str, folder: Path | None, given: Mapping[str, Scalar], chain: Chain | None = None
    ) -> Source:
        """Read the text; *chain* holds the files that led to it, itself included."""
        if file.endswith(YAML):
            return _read_pattern(text, file, folder, given)
        if chain is None:
            chain = (Path(file).resolve(),) if file and folder is not None else ()
        parsed = parse(text)
        composed = compose(parsed, text, file, folder, given, self._library, chain[-1:])
        topology = read_at(composed.parsed, file, folder)
        found = composed.parsed.diagnostics
        if topology is not None and composed.is_composed:
            nodes = self._importer.nodes(composed.imports, folder, chain, found.append)
            topology = replace(
                topology,
                nodes=(*nodes, *topology.nodes),
                params=composed.params,
                interface=composed.interface,
                included=composed.included,
            )
        found += _checked(topology, composed.parsed)
        found.sort(key=lambda diagnostic: (*place(diagnostic), diagnostic.code))
        diagnostics = tuple([located(each, composed.included, file) for each in found])
        return Source(text, file, topology, diagnostics, parsed.tree)


def _checked(topology: Topology | None, parsed: Parsed) -> list[Diagnostic]:
    """The diagnostics of the checks, without those that may result from an unread part of the text."""
    if topology is None or parsed.lost_items:
        return []
    found = check(topology)
    if topology.fragment:
        found = [each for each in found if each.code in _OF_A_FRAGMENT]
    return [each for each in found if each.code in _SAFE] if parsed.lost_flow else found
