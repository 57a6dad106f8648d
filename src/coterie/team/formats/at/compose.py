"""Merge a file and its included fragments into one tree, with parameters replaced by their values.

The declarations of a fragment are inserted at its `include`. Flows, and blocks with named entries, are merged across
files; the reader reports a second block of any other kind. `import`, `params` and `interface` apply to the whole
topology and are returned as values.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from coterie.base.diagnostics import Diagnostic, Span, error, warning
from coterie.team.formats.at.directives import ImportStatement, read_import, read_include
from coterie.team.formats.at.lexer import STRING, Token
from coterie.team.formats.at.params import given_to, joined, read_interface, read_params
from coterie.team.formats.at.parser import Parsed, parse
from coterie.team.formats.at.placeholders import filled, filled_in, quoted, unknown_places
from coterie.team.formats.at.tree import BlockNode, Directive, Entry, FieldNode, File, FlowBlock, Root
from coterie.team.formats.at.values import string
from coterie.team.formats.files import Library, Unreadable, find
from coterie.team.formats.prompts import is_path
from coterie.team.topology.composition import MAX_DEPTH, Included, Interface, Param
from coterie.team.topology.conditions import Scalar

# fmt: off
_JOINED = frozenset({
    "artifacts", "env", "environments", "gates", "hooks", "interfaces", "mcp-servers", "memory", "providers", "roles",
    "schedule", "schemas", "tools", "triggers",
})
"""Blocks with named entries, which are merged across files."""
# fmt: on
_COMPOSING = frozenset({"interface", "params"})


class Composed(Struct, frozen=True):
    """A tree without includes and parameters, and the values that apply to the whole topology.

    Attributes:
        parsed: The tree, and the diagnostics so far.
        imports: Each with the folder of its file, relative to the topology's folder.
        included: In the order of their offsets.
        is_composed: Whether the file had includes, imports, parameters or an interface.
    """

    parsed: Parsed
    params: tuple[Param, ...] = ()
    interface: Interface | None = None
    imports: tuple[tuple[ImportStatement, PurePosixPath], ...] = ()
    included: tuple[Included, ...] = ()
    is_composed: bool = True


def compose(
    parsed: Parsed,
    text: str,
    file: str,
    folder: Path | None,
    given: Mapping[str, Scalar],
    library: Library,
    chain: tuple[Path, ...] = (),
) -> Composed:
    """Merge *parsed* with everything it includes.

    Args:
        parsed: The tree of *text*; it is not changed.
        folder: The base of relative paths; None if the text cannot refer to files.
        given: The values of parameters.
        chain: The text's own path, if it has one; fragments must not include it.
    """
    root = next((item for item in parsed.tree.items if isinstance(item, Root)), None)
    if root is None or not (given or "${param." in text or any(map(_composes, root.items))):
        return Composed(parsed, is_composed=False)
    composer = _Composer(parsed, text, folder, library)
    return composer.compose(root, _Place(file, PurePosixPath(), chain), given)


def _composes(entry: Entry) -> bool:
    return isinstance(entry, Directive) or (isinstance(entry, BlockNode) and entry.keyword in _COMPOSING)


class _Place(NamedTuple):
    """A file being read.

    Attributes:
        file: Its path, as shown to users.
        folder: Its folder, relative to the topology's.
        chain: The files that led to it, and itself last.
        number: The number of files read before.
    """

    file: str
    folder: PurePosixPath
    chain: tuple[Path, ...]
    number: int = 0


class _Composer:
    """Collects the content of the files of one topology."""

    def __init__(self, parsed: Parsed, text: str, folder: Path | None, library: Library) -> None:
        self._parsed = parsed
        self._diagnostics = list(parsed.diagnostics)
        self._report = self._diagnostics.append
        self._folder = folder
        self._library = library
        self._lost_flow, self._lost_items = parsed.lost_flow, parsed.lost_items
        self._params: list[tuple[int, Param]] = []
        self._interface: Interface | None = None
        self._imports: list[tuple[Directive, PurePosixPath]] = []
        self._included: list[Included] = []
        self._seen: set[Path] = set()
        self._next_start = len(text) + 1
        self._has_places = "${param." in text

    def compose(self, root: Root, place: _Place, given: Mapping[str, Scalar]) -> Composed:
        """Merge all files."""
        entries = self._joined(self._entries(root, place))
        name = root.name.text if root.name is not None else ""
        params = given_to(joined(self._params, self._report), given, name, self._report)
        entries = self._filled(entries, params, root)
        imports = [(read_import(directive, self._report), folder) for directive, folder in self._imports]
        others = [item for item in self._parsed.tree.items if item is not root]
        tree = File([replace(root, items=entries), *others], self._parsed.tree.end)
        return Composed(
            parsed=Parsed(tree, self._diagnostics, self._lost_flow, self._lost_items),
            params=tuple(params),
            interface=self._interface,
            imports=tuple((statement, folder) for statement, folder in imports if statement is not None),
            included=tuple(self._included),
        )

    def _filled(self, entries: list[Entry], params: Sequence[Param], root: Root) -> list[Entry]:
        if not self._has_places:
            return entries
        if root.keyword.text != "fragment":  # the including topology may declare more
            unknown_places([*entries, *(directive for directive, _ in self._imports)], params, self._report)
        directives = filled([directive for directive, _ in self._imports], params)
        self._imports = [(new, folder) for new, (_, folder) in zip(directives, self._imports, strict=True)]
        return filled(entries, params)

    # -- entries ------------------------------------------------------------------------------------------------------

    def _entries(self, root: Root, place: _Place) -> Iterator[tuple[int, Entry]]:
        """The entries of one file and its includes, each with the number of its file."""
        for entry in root.items:
            keyword = entry.keyword if isinstance(entry, BlockNode | Directive) else ""
            if isinstance(entry, Directive) and keyword == "include":
                yield from self._include(entry, place)
            elif isinstance(entry, Directive) and keyword == "import":
                self._imports.append((entry, place.folder))
            elif isinstance(entry, BlockNode) and keyword == "params":
                self._params += [(len(place.chain), param) for param in read_params(entry, self._report)]
            elif isinstance(entry, BlockNode) and keyword == "interface":
                self._add_interface(entry)
            elif not (place.number and keyword == "meta"):  # in a fragment, it describes the fragment
                yield place.number, _rebased(entry, place.folder)

    def _add_interface(self, block: BlockNode) -> None:
        if self._interface is None:
            self._interface = read_interface(block, self._report)
        else:
            message = "a second 'interface' block"
            self._report(error("duplicate-block", message, block.head[0].span, "a topology has only one"))

    def _include(self, directive: Directive, place: _Place) -> Iterator[tuple[int, Entry]]:
        source = read_include(directive, self._report)
        if source is None:
            return
        name, span = string(source), source.span
        path = self._find(name, span, place)
        if path is None:
            return
        steps = " -> ".join(each.name for each in (*place.chain, path))
        if path in place.chain:
            self._report(error("include-cycle", f"a file cannot include itself: {steps}", span))
        elif len(place.chain) > MAX_DEPTH:
            message = f"includes are nested more than {MAX_DEPTH} deep: {steps}"
            self._report(error("nested-too-deep", message, span))
        elif path not in self._seen:  # a file included twice is inserted once
            self._seen.add(path)
            yield from self._part(path, name, span, place)

    def _find(self, name: str, span: Span, place: _Place) -> Path | None:
        if self._folder is None:
            message = f"{name!r} cannot be included: this text has no folder"
            self._report(error("no-folder", message, span, "read it from a file"))
            return None
        try:
            return find(self._folder / place.folder, name, self._folder)
        except Unreadable as unreadable:
            message = f"the included file {name!r} {unreadable.reason}"
            self._report(error(unreadable.code, message, span, unreadable.hint))
            return None

    def _part(self, path: Path, name: str, span: Span, place: _Place) -> Iterator[tuple[int, Entry]]:
        try:
            text = self._library.text(path)
        except Unreadable as unreadable:
            message = f"{name!r} cannot be included: {unreadable.reason}"
            self._report(error(unreadable.code, message, span, unreadable.hint))
            return
        start = self._next_start
        self._next_start += len(text) + 1
        parsed = parse(text, start)
        roots = [item for item in parsed.tree.items if isinstance(item, Root)]
        file = os.path.normpath(Path(place.file).parent / name)
        root = roots[0] if roots else None
        fragment = root.name.text if root is not None and root.name is not None else ""
        self._included.append(Included(file=file, start=start, name=fragment, text=text))
        self._diagnostics += [_placed(each, start) for each in parsed.diagnostics]
        self._lost_flow |= parsed.lost_flow
        self._lost_items |= parsed.lost_items or root is None
        self._has_places |= "${param." in text
        if root is None:
            return
        if root.keyword.text == "topology":
            message = f"{name!r} contains a topology, but only a fragment can be included"
            self._report(error("no-fragment", message, span, f'write import "{name}" as {fragment} to make it a node'))
            self._lost_items = True
            return
        if root.patterns is not None:
            hint = "list them in the topology that includes it"
            self._report(warning("fragment-patterns", "a fragment cannot list patterns", root.patterns.open.span, hint))
        for other in roots[1:]:
            message = f"a second {other.keyword.text} in this file"
            self._report(error("second-topology", message, other.keyword.span, "move it to another file"))
        folder = PurePosixPath(os.path.normpath(place.folder / PurePosixPath(name).parent))
        yield from self._entries(root, _Place(file, folder, (*place.chain, path), len(self._included)))

    def _joined(self, entries: Iterator[tuple[int, Entry]]) -> list[Entry]:
        """The entries, with blocks of one kind from several files merged into the first."""
        found: list[Entry] = []
        first: dict[str, int] = {}
        seen = set[tuple[int, str]]()
        for number, entry in entries:
            keyword = _joins(entry)
            if keyword and (number, keyword) not in seen:
                seen.add((number, keyword))
                if keyword in first:
                    found[first[keyword]] = _together(found[first[keyword]], entry)
                    continue
                first[keyword] = len(found)
            found.append(entry)
        return found


def _joins(entry: Entry) -> str:
    """The keyword of a block that is merged across files; empty for other entries."""
    match entry:
        case FlowBlock():
            return "flow"
        case BlockNode() if entry.keyword in _JOINED and len(entry.head) == 1:
            return entry.keyword
        case _:
            return ""


def _together(first: Entry, second: Entry) -> Entry:
    match first, second:
        case BlockNode(), BlockNode():
            return replace(first, items=first.items + second.items)
        case FlowBlock(), FlowBlock():
            return replace(first, statements=first.statements + second.statements)
    raise AssertionError("blocks with the same keyword must have the same kind")


def _placed(found: Diagnostic, start: int) -> Diagnostic:
    """*found*, with a span at *start*, the first offset of its file, if it has none."""
    return found if found.span is not None else error(found.code, found.message, Span(1, 1, 0, start), found.hint)


def _rebased(entry: Entry, folder: PurePosixPath) -> Entry:
    """*entry* with the paths of an agent's prompt and inner topology, which are relative to *folder*, rebased."""
    if not isinstance(entry, BlockNode) or entry.keyword != "agent" or folder == PurePosixPath():
        return entry
    return replace(entry, items=[_rebased_item(item, folder) for item in entry.items])


def _rebased_item(item: Entry, folder: PurePosixPath) -> Entry:
    match item:
        case FieldNode(value=Token(kind=kind) as value) if kind == STRING and (
            item.key.text == "topology" or (item.key.text == "prompt" and is_path(string(value)))
        ):
            return replace(item, value=filled_in(value, STRING, quoted(str(folder / string(value)))))
        case BlockNode() if item.keyword in ("extensions", "coterie"):
            return replace(item, items=[_rebased_item(inner, folder) for inner in item.items])
        case _:
            return item
