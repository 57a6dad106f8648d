"""The outline of a document: its declarations, and the ranges that can be folded."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from coterie.diagnostics import Span
from coterie.formats.at.lexer import Token
from coterie.formats.at.tree import BlockNode, Directive, Entry, FieldNode, File, FlowBlock, Raw, Root
from coterie.formats.at.values import text_of
from coterie.topology.system.model import SystemNode
from coterie.topology.system.outline import outline_node


@dataclass(frozen=True, slots=True)
class OutlineItem:
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
    end = root.close.offset + 1 if root.close is not None else _end(children, root.name)
    return [_part(root.name, root.keyword.text, "", root.keyword.offset, end, children)]


def _parts(items: Sequence[Entry]) -> Iterator[OutlineItem]:
    for item in items:
        match item:
            case BlockNode() if item.head:
                yield _block(item)
            case FlowBlock():
                end = item.close.offset + 1 if item.close is not None else item.open.offset + 1
                yield _part(item.keyword, "flow", "", item.keyword.offset, end)
            case Directive():
                last = item.words[-1]
                names = [word for before, word in zip(item.words, item.words[1:], strict=False) if before.text == "as"]
                name = names[0] if names else item.words[min(1, len(item.words) - 1)]
                yield _part(name, item.words[0].text, "", item.words[0].offset, last.offset + len(last.text))


def _block(item: BlockNode) -> OutlineItem:
    name = item.head[1] if len(item.head) > 1 else item.head[0]
    children = tuple(_outputs(item)) or tuple(part for part in _parts(item.items) if len(item.head) == 1)
    end = item.close.offset + 1 if item.close is not None else _end(children, item.open)
    return _part(name, item.keyword, _model(item), item.head[0].offset, end, children)


def _outputs(item: BlockNode) -> Iterator[OutlineItem]:
    for inner in item.items:
        if isinstance(inner, BlockNode) and inner.keyword == "outputs":
            for field in inner.items:
                if isinstance(field, FieldNode):
                    detail = " ".join(text_of(field.value).split()) if field.value is not None else ""
                    yield _part(field.key, "output", detail, field.key.offset, _field_end(field))


def _field_end(field: FieldNode) -> int:
    tokens = list(field.tokens())
    last = tokens[-2] if tokens[-1] is field.comma and len(tokens) > 1 else tokens[-1]
    return last.offset + len(last.text)


def _model(item: BlockNode) -> str:
    for field in item.items:
        if isinstance(field, FieldNode) and field.key.text == "model" and field.value is not None:
            return text_of(field.value)
    return ""


def _part(
    name: Token, kind: str, detail: str, offset: int, end: int, children: tuple[OutlineItem, ...] = ()
) -> OutlineItem:
    return OutlineItem(name.text, kind, detail, offset, end - offset, name.offset, len(name.text), children)


def _end(children: Sequence[OutlineItem], last: Token) -> int:
    """The end of an unclosed block: that of its last part."""
    return max([last.offset + len(last.text), *(part.offset + part.length for part in children)])


def _folds(items: Sequence[Root | Entry]) -> Iterator[tuple[int, int]]:
    for item in items:
        match item:
            case Root() | BlockNode() | FlowBlock() | Raw():
                if item.open is not None and item.close is not None:
                    yield item.open.offset, item.close.offset
                if not isinstance(item, FlowBlock | Raw):
                    yield from _folds(item.items)
