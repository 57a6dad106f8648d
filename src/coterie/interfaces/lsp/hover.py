"""Hover texts for the word at the cursor, as Markdown."""

from collections.abc import Sequence

from msgspec import Struct

from coterie.interfaces.lsp import vocabulary
from coterie.interfaces.lsp.context import Path, holders
from coterie.interfaces.lsp.diagnostics import DocumentDiagnostic, findings
from coterie.interfaces.lsp.document import Document
from coterie.interfaces.lsp.names import NameKind, Occurrence
from coterie.team.formats.at.lexer import Token
from coterie.team.formats.at.tree import Attributes, BlockNode, FieldNode, FlowBlock, Raw, Root
from coterie.team.planning import thinks
from coterie.team.planning.codes import CODES
from coterie.team.topology.checks.codes import Code
from coterie.team.topology.model import ArrowGroup
from coterie.team.topology.outline import OutlinedArrow, OutlinedNode, outline

_CODES = {code.code: code for code in CODES}


class HoverText(Struct, frozen=True):
    """A text about the *length* characters at *offset*."""

    text: str
    offset: int
    length: int


def hover(document: Document, offset: int) -> HoverText | None:
    """Describe the word at *offset* and its diagnostics.

    Names are described by their declaration, words of the notation by their meaning, attributes by the bound they set,
    and diagnostics by their rule.
    """
    one = document.names.at(offset)
    word = HoverText(_of_name(document, one), one.offset, one.length) if one is not None else _of_word(document, offset)
    return _with_rules(document, word, offset)


def _with_rules(document: Document, word: HoverText | None, offset: int) -> HoverText | None:
    """*word* with the rules of the diagnostics at *offset*."""
    found = [one for one in findings(document) if one.offset <= offset <= one.offset + one.length and one.length]
    rules = [f"`{code.code}`: {' '.join(filter(None, (code.meaning, code.about)))}" for code in _codes(found)]
    if not rules:
        return word
    text = "\n\n".join([*([word.text] if word is not None else []), *rules])
    at = word if word is not None else HoverText("", found[0].offset, found[0].length)
    return HoverText(text, at.offset, at.length)


def _codes(found: Sequence[DocumentDiagnostic]) -> list[Code]:
    return [_CODES[code] for code in dict.fromkeys(one.diagnostic.code for one in found) if code in _CODES]


def _of_name(document: Document, one: Occurrence) -> str:
    symbol = one.symbol
    match symbol.kind:
        case NameKind.NODE:
            return _node(document, symbol.name)
        case NameKind.OUTPUT:
            node = _outlined(document, symbol.owner)
            types = [each for each in (node.outputs if node else ()) if each.partition(":")[0] == symbol.name]
            shape = types[0] if types else f"{symbol.name}: not declared, so any text"
            return f"{_code(shape)}\n\nAn output of `{symbol.owner}`."
        case NameKind.VALUE:
            return f"A value of `{symbol.owner}`."
        case NameKind.ROLE:
            topology = document.source.topology
            text = topology.roles.get(symbol.name, "") if topology is not None else ""
            return "\n\n".join([f"**role {symbol.name}**", *([text] if text else [])])
        case _:
            declared = "" if document.names.declarations(symbol) else ", not declared in this file"
            return f"**{symbol.kind.value} {symbol.name}**{declared}"


def _node(document: Document, name: str) -> str:
    """A summary of a node: its backend, outputs and arrows."""
    topology = document.source.topology
    node = _outlined(document, name)
    if topology is None or node is None:
        return f"**{name}**"
    title = f"**{node.kind} {node.name}**" + (f": {node.thinks}" if node.thinks else "")
    lines = [f"gives `{output}`" for output in node.outputs]
    lines += [f"→ {_arrow(arrow)}" for arrow in node.arrows]
    groups = topology.flow.groups if topology.flow is not None else ()
    lines += [f"← `{source}`" for source in dict.fromkeys(one.source for one in groups if name in one.targets)]
    if not node.in_flow:
        lines.append(node.place or "not in the flow")
    return "\n\n".join([title, *([node.description] if node.description else []), "\n".join(f"- {it}" for it in lines)])


def _outlined(document: Document, name: str) -> OutlinedNode | None:
    topology = document.source.topology
    if topology is None:
        return None
    return next((node for node in outline(topology, thinks(document.plan)).nodes if node.name == name), None)


def _arrow(arrow: OutlinedArrow) -> str:
    bound = f", at most {_times(arrow.max)} per {arrow.per}" if arrow.max is not None else ""
    implied = " (the file gives no bound)" if arrow.implied else ""
    when = f" when `{arrow.when}`" if arrow.when else ""
    return f"{', '.join(f'`{name}`' for name in arrow.targets)}{when}{bound}{implied}"


def _of_word(document: Document, offset: int) -> HoverText | None:
    """The meaning of the keyword, field or attribute at *offset*."""
    path = holders(document.tree, offset)
    holder = path[-1] if path else None
    blocks: Path = tuple(tuple(word.text for word in block.head) for block in path if isinstance(block, BlockNode))
    match holder:
        case Attributes():
            return _of_attribute(document, holder, offset)
        case Root() | BlockNode():
            for item in holder.items:
                match item:
                    case FieldNode() | Raw() if _on(item.key, offset):
                        return _of_item(blocks, item.key)
                    case BlockNode() if item.head and _on(item.head[0], offset):
                        return _of_item(blocks, item.head[0])
                    case FlowBlock() if _on(item.keyword, offset):
                        return _of_item(blocks, item.keyword)
    return None


def _of_item(blocks: Path, key: Token) -> HoverText | None:
    word = vocabulary.word(blocks, key.text)
    if word is None:
        return None
    shape = word.shape if word.is_block else f"{word.name}: {word.shape}"
    return HoverText(f"{_code(shape)}\n\n{word.about}", key.offset, len(key.text))


def _of_attribute(document: Document, attributes: Attributes, offset: int) -> HoverText | None:
    for item in attributes.items:
        first = item.words[0] if item.words else None
        if first is not None and any(_on(word, offset) for word in item.words):
            word = vocabulary.attribute(first.text)
            if word is None:
                return None
            bound = _bound(document, attributes) if first.text in ("max", "per", "on-max") else ""
            last = item.words[-1]
            text = "\n\n".join([_code(word.shape), word.about, *([bound] if bound else [])])
            return HoverText(text, first.offset, last.offset + len(last.text) - first.offset)
    return None


def _bound(document: Document, attributes: Attributes) -> str:
    """The bound set by *attributes*, in a sentence."""
    group = _group(document, attributes)
    if group is None or group.max is None:
        return ""
    then = {
        "forward": "the flow goes on forward",
        "end": "the path ends",
        "fail": "the run fails",
        "human": "a person decides",
    }
    return f"`{group}` fires at most {_times(group.max)} per {group.per}; then {then[group.on_max]}."


def _group(document: Document, attributes: Attributes) -> ArrowGroup | None:
    topology, start = document.source.topology, attributes.open.offset
    end = attributes.close.offset if attributes.close is not None else start
    for group in topology.flow.groups if topology is not None and topology.flow is not None else ():
        if any(start < span.offset < end for span in group.spans.values()):
            return group
    return None


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _on(token: Token, offset: int) -> bool:
    return token.offset <= offset <= token.offset + len(token.text)


def _code(text: str) -> str:
    return f"```at\n{text}\n```"
