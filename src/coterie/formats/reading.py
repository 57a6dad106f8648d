"""Read a file that describes a team, in whichever notation it is written, with the files that belong to it."""

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from coterie.diagnostics import Diagnostic, error
from coterie.formats.at import AtResult, compose, parse, read_at
from coterie.formats.at.tree import File
from coterie.formats.files import MAX_BYTES, SUFFIXES, YAML, Library, Unreadable
from coterie.formats.folders import loop_folder
from coterie.formats.imports import Chain, Importer
from coterie.topology.checks import check
from coterie.topology.composition import located
from coterie.topology.conditions import Scalar
from coterie.topology.model import Topology

__all__ = ["MAX_BYTES", "SUFFIXES", "Source", "read", "read_text"]

_SAFE = frozenset({"duplicate-name", "duplicate-output", "no-model", "unknown-agent", "unknown-value"})
"""What is wrong whatever the unread part of a flow says."""

_OF_A_FRAGMENT = frozenset({"bad-max", "duplicate-name", "duplicate-output", "fallback-to-itself", "no-model"})
"""What is wrong whatever the topology says that includes a fragment."""


@dataclass(frozen=True, slots=True)
class Source:
    """A text, what it describes, and what was found in it.

    Attributes:
        text: The whole text, as it was read; empty when it could not be.
        file: The path, as the user named it.
        topology: None when there is none in the text.
        diagnostics: In the order of the text; what concerns the whole file comes first, what was found in an included
            file last, with that one's name.
        tree: The syntax tree of this text alone, for an editor; None when there is no text.
    """

    text: str
    file: str
    topology: Topology | None
    diagnostics: tuple[Diagnostic, ...]
    tree: File | None = field(default=None, compare=False, repr=False)

    @property
    def has_errors(self) -> bool:
        """Whether it cannot run."""
        return any(diagnostic.is_error for diagnostic in self.diagnostics)

    def located(self, found: Diagnostic) -> Diagnostic:
        """What was *found* in the topology later on, with the file it stands in: this one, or one it includes."""
        return located(found, self.topology.included if self.topology is not None else (), self.file)


def read(path: Path, params: Mapping[str, Scalar] | None = None) -> Source:
    """Read and check what is at *path*: a file, or the folder of a loop. Whatever is wrong with it is a diagnostic.

    Args:
        params: Values for the parameters that it declares; of a pattern file for its settings.
    """
    if (folder := loop_folder(path)) is not None:
        return _read_loop(folder)
    library = Library()
    file = str(path)
    try:
        text = library.text(path)
    except Unreadable as unreadable:
        found = error(unreadable.code, f"{file!r} cannot be read: {unreadable.reason}", hint=unreadable.hint)
        return Source("", file, None, (replace(found, file=file),))
    return _Reader(library).read(text, file, path.parent, params or {})


def read_text(
    text: str, file: str = "", folder: Path | None = None, params: Mapping[str, Scalar] | None = None
) -> Source:
    """Read and check a text; the files that it includes and imports are read from disk.

    Args:
        file: The path it stands for, shown in diagnostics; its end says in which notation the text is written, and
            without one that is `.at`.
        folder: Where the paths that it names begin; without it every prompt is the text it is, and no other file is
            read.
        params: Values for the parameters that it declares; of a pattern file for its settings.
    """
    return _Reader(Library()).read(text, file, folder, params or {})


def changed(source: Source, text: str, folder: Path | None) -> Source:
    """*source* as if *text* stood in its file; the paths that it names begin in *folder*."""
    if source.topology is not None and source.topology.loop is not None:
        return _read_loop(Path(source.file).parent, text)
    return read_text(text, source.file, folder)


def _read_loop(folder: Path, text: str | None = None) -> Source:
    from coterie.formats.toml import read_folder  # only where one is read

    found = read_folder(folder, text)
    diagnostics = list(found.diagnostics)
    if found.topology is not None:
        diagnostics += [replace(each, file=found.file, text=found.text) for each in check(found.topology)]
    diagnostics.sort(key=lambda each: (each.file != found.file, each.file, each.span.offset if each.span else -1))
    return Source(found.text, found.file, found.topology, tuple(diagnostics))


def _read_pattern(text: str, file: str, folder: Path | None, given: Mapping[str, Scalar]) -> Source:
    from coterie.formats.yaml import read_yaml  # only where one is read

    reading = read_yaml(text, file, folder, given)
    found = list(reading.diagnostics)
    if reading.topology is not None:
        found += _checked_tree(reading.topology, set())
    found.sort(key=lambda each: (each.span.offset if each.span else -1, each.code))
    return Source(text, file, reading.topology, tuple(replace(each, file=file) for each in found))


def _checked_tree(topology: Topology, looked_at: set[int]) -> Iterator[Diagnostic]:
    """What the checks find in *topology*, and in the teams that are written in place in it, each once."""
    looked_at.add(id(topology))
    yield from check(topology)
    for node in topology.nodes:
        if node.topology is not None and id(node.topology) not in looked_at:
            yield from _checked_tree(node.topology, looked_at)


@contextmanager
def _collecting_later() -> Iterator[None]:
    """Let the garbage collector wait: what a reader makes stays, so looking for garbage meanwhile would find none.

    What was made counts as old afterwards: the collector would else go over all of it at once.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            if not gc.get_freeze_count():  # what a program, or 3.12 at its start, froze stays frozen
                gc.freeze()
                gc.unfreeze()
            gc.enable()


class _Reader:
    """Reads one text and all that belongs to it."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._importer = Importer(library, self.read)

    @_collecting_later()
    def read(
        self, text: str, file: str, folder: Path | None, given: Mapping[str, Scalar], chain: Chain | None = None
    ) -> Source:
        """The text, with what led to it, itself included, in *chain*."""
        if file.endswith(YAML):
            return _read_pattern(text, file, folder, given)
        if chain is None:
            chain = (Path(file).resolve(),) if file and folder is not None else ()
        parsed = parse(text)
        composed = compose(parsed, text, file, folder, given, self._library, chain[-1:])
        reading = read_at(composed.parsed, file, folder)
        topology = reading.topology
        found = reading.diagnostics
        if topology is not None and composed.is_composed:
            nodes = self._importer.nodes(composed.imports, folder, chain, found.append)
            topology = replace(
                topology,
                nodes=(*nodes, *topology.nodes),
                params=composed.params,
                interface=composed.interface,
                included=composed.included,
            )
        found += _checked(topology, reading)
        found.sort(key=lambda diagnostic: (diagnostic.span.offset if diagnostic.span else -1, diagnostic.code))
        told = tuple([located(each, composed.included, file) for each in found])
        return Source(text, file, topology, told, parsed.tree)


def _checked(topology: Topology | None, reading: AtResult) -> list[Diagnostic]:
    """What the checks find, less what may only be so because a part of the text is not known."""
    if topology is None or reading.lost_items:
        return []
    found = check(topology)
    if topology.fragment:
        found = [each for each in found if each.code in _OF_A_FRAGMENT]
    return [each for each in found if each.code in _SAFE] if reading.lost_flow else found
