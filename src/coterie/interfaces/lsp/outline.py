"""The outline of a document: its declarations, and the ranges that can be folded."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from msgspec import Struct

from coterie.base.diagnostics import Span
from coterie.team.formats.at.lexer import Token
from coterie.team.formats.at.tree import BlockNode, Directive, Entry, FieldNode, File, FlowBlock, Raw, Root
from coterie.team.formats.at.values import text_of
from coterie.team.topology.system.model import SystemNode
from coterie.team.topology.system.outline import outline_node


class OutlineItem(Struct, frozen=True):
    """A block or an output, for an editor's outline.

    Attributes:
        kind: Its keyword, such as `agent`; `output` for an output.
        detail: Its model or type.
        offset: The start of its range; *name_offset* is the start of its name.
    """

    name: str
    kind: str
    detail: str
    offset: int
    length: int
    name_offset: int
    name_length: int
    children: "tuple[OutlineItem, ...]" = ()


def outline(tree: File) -> list[OutlineItem]:
    """The declarations in *tree*, in text order."""
    return [part for item in tree.items for part in (_root(item) if isinstance(item, Root) else _parts([item]))]


def outline_system(node: SystemNode) -> OutlineItem:
    """A node of a supervision tree and those below it."""
    children = tuple(map(outline_system, node.children))
    name = node.span or Span(1, 1)
    start = min([name.offset, *(child.offset for child in children)])
    end = max([name.offset + name.length, *(child.offset + child.length for child in children)])
    detail = "  ".join(outline_node(node).about)
    return OutlineItem(node.name, node.kind, detail, start, end - start, name.offset, name.length, children)


def folds(tree: File) -> list[tuple[int, int]]:
    """The offsets of the opening and the closing brace of each block."""
    return list(_folds(tree.items))


def _root(root: Root) -> list[OutlineItem]:
    children = tuple(_parts(root.items))
    if root.name is None:
        return list(children)
    return [_part(root.name, root.keyword.text, "", root.keyword, root.close or root.name, children)]


def _parts(items: Sequence[Entry]) -> Iterator[OutlineItem]:
    for item in items:
        match item:
            case BlockNode() if item.head:
                yield _block(item)
            case FlowBlock():
                yield _part(item.keyword, "flow", "", item.keyword, item.close or item.open)
            case Directive(words=words):
                names = (word for before, word in pairwise(words) if before.text == "as")
                name = next(names, words[min(1, len(words) - 1)])
                yield _part(name, item.keyword, "", words[0], words[-1])


def _block(item: BlockNode) -> OutlineItem:
    name = item.head[1] if len(item.head) > 1 else item.head[0]
    children = tuple(_outputs(item)) or tuple(part for part in _parts(item.items) if len(item.head) == 1)
    return _part(name, item.keyword, _model(item), item.head[0], item.close or item.open, children)


def _outputs(item: BlockNode) -> Iterator[OutlineItem]:
    for inner in item.items:
        if isinstance(inner, BlockNode) and inner.keyword == "outputs":
            for field in inner.items:
                if isinstance(field, FieldNode):
                    detail = " ".join(text_of(field.value).split()) if field.value is not None else ""
                    *_, last = (token for token in field.tokens() if token is not field.comma)
                    yield _part(field.key, "output", detail, field.key, last)


def _model(item: BlockNode) -> str:
    for field in item.items:
        if isinstance(field, FieldNode) and field.key.text == "model" and field.value is not None:
            return text_of(field.value)
    return ""


def _part(
    name: Token, kind: str, detail: str, first: Token, last: Token, children: tuple[OutlineItem, ...] = ()
) -> OutlineItem:
    """An item from *first* to *last*, or to the end of its children if it is not closed."""
    end = max([last.offset + len(last.text), *(part.offset + part.length for part in children)])
    return OutlineItem(name.text, kind, detail, first.offset, end - first.offset, name.offset, len(name.text), children)


def _folds(items: Sequence[Root | Entry]) -> Iterator[tuple[int, int]]:
    for item in items:
        match item:
            case Root() | BlockNode() | FlowBlock() | Raw():
                if item.open is not None and item.close is not None:
                    yield item.open.offset, item.close.offset
                if not isinstance(item, FlowBlock | Raw):
                    yield from _folds(item.items)
