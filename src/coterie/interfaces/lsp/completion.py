"""Completion at the cursor."""

import re
from collections.abc import Iterable, Iterator, Sequence

from lsprotocol.types import CompletionItemKind as Sort
from msgspec import Struct

from coterie.interfaces.lsp import vocabulary
from coterie.interfaces.lsp.context import BehindNode, FieldValue, FlowNode, InAttribute, ItemStart, Typed, spot
from coterie.interfaces.lsp.document import Document
from coterie.interfaces.lsp.names import NameKind, Symbol, begins_with_over, named_by
from coterie.team.formats.at.lexer import Token
from coterie.team.formats.at.tree import BlockNode, FieldNode, Root, span_of
from coterie.team.formats.at.values import text_of
from coterie.team.topology.checks.facts import kind_of, values_of
from coterie.team.topology.conditions import Operator
from coterie.team.topology.model import Output


class Proposal(Struct, frozen=True):
    """A completion that replaces *length* characters at *offset*.

    Attributes:
        label: The inserted text.
        detail: A short description; *about* is a longer one.
        snippet: The text with placeholders such as `$1`, for editors that support snippets; if empty, the label.
    """

    label: str
    sort: Sort
    offset: int
    length: int
    detail: str = ""
    about: str = ""
    snippet: str = ""

    @property
    def plain(self) -> str:
        """The inserted text for editors without snippets."""
        if self.sort is not Sort.Operator or not self.snippet:
            return self.label
        return _PLACE.sub(lambda place: place[1] or "", self.snippet)


_PLACE = re.compile(r"\$(?:\d+|\{\d+:([^}]*)\})")


def complete(document: Document, offset: int) -> list[Proposal]:
    """Completions at *offset*, the most likely first; the editor filters them by the typed text."""
    found = spot(document.tree, document.text.content, offset) if not document.is_yaml else None
    if found is None:
        return []
    propose = _Proposer(document, found.typed)
    match found:
        case ItemStart():
            return list(propose.items(found))
        case FieldValue():
            return list(propose.values(found))
        case FlowNode():
            return list(propose.nodes(found.taken))
        case BehindNode():
            return list(propose.behind(found))
        case InAttribute():
            return list(propose.attribute(found))


class _Proposer:
    """Creates the proposals that replace one word."""

    def __init__(self, document: Document, typed: Typed) -> None:
        self._document = document
        self._names = document.names
        self._typed = typed

    def items(self, item: ItemStart) -> Iterator[Proposal]:
        """Fields and blocks that are still missing, and named blocks."""
        for word in vocabulary.roots() if item.blocks is None else vocabulary.items(item.blocks):
            if word.many or word.name not in item.taken:
                sort = Sort.Class if word.is_block else Sort.Field
                yield self._of(word.name, sort, word.shape, word.about, word.snippet)

    def values(self, value: FieldValue) -> Iterator[Proposal]:
        """Values of a field."""
        if value.written == ("fallback",):
            yield from self.nodes(frozenset())
            return
        if value.field == "model":
            for model in self._models():
                yield self._of(model, Sort.EnumMember, "a model of this file")
        kind = named_by(value.blocks[-1][0] if value.blocks and value.blocks[-1] else "", value.field)
        if kind is NameKind.NODE:
            yield from self.nodes(frozenset())
        elif kind is not None:
            for symbol in self._names.symbols(kind):
                yield self._of(symbol.name, Sort.EnumMember, kind.value)
        is_first, is_item = not value.written, value.written == ("list", "of")
        for choice in vocabulary.choices(value.blocks, value.field) if is_first or is_item else ():
            yield self._of(choice, Sort.EnumMember)

    def nodes(self, taken: Iterable[str]) -> Iterator[Proposal]:
        """The nodes of the team, with those of included files, then undeclared names."""
        declared = self._document.facts.declared
        mentioned = [symbol.name for symbol in self._names.symbols(NameKind.NODE) if self._elsewhere(symbol)]
        in_order = sorted(mentioned, key=lambda name: name not in declared)
        for name in dict.fromkeys((*in_order, *declared)):
            if name not in taken:
                node = declared.get(name)
                yield self._of(name, Sort.Variable, (node.description or kind_of(node)) if node else "not declared")

    def _elsewhere(self, symbol: Symbol) -> bool:
        """Whether *symbol* occurs anywhere except at the cursor."""
        return any(one.offset != self._typed.offset for one in self._names.of(symbol))

    def behind(self, spot: BehindNode) -> Iterator[Proposal]:
        """Arrows and attributes."""
        yield self._of("->", Sort.Operator, "runs next", snippet="-> $0")
        if spot.after_arrow:
            yield self._of("[when …]", Sort.Operator, "a condition", snippet="[when $0]")
            yield self._of("[max …]", Sort.Operator, "maximum number of firings", snippet="[max ${1:3}]")

    def attribute(self, spot: InAttribute) -> Iterator[Proposal]:
        """Attributes in their order, or the parts of one."""
        if not spot.words:
            for word in vocabulary.attributes(spot.before, spot.after):
                yield self._of(word.name, Sort.Field, word.shape, word.about)
            return
        keyword, words = spot.words[0].text, spot.words[1:]
        if keyword in ("when", "until"):
            yield from self._condition(keyword, words, spot.source)
            return
        match [keyword, *(word.kind for word in words)]:
            case ["each"]:
                nodes = sorted(self.nodes(frozenset()), key=lambda one: not self._lists(one.label))
                yield from (*nodes, self._of("input", Sort.Keyword, "the run's input"))
            case ["each", _, "."]:
                yield from (self._of(one.name, Sort.Property, _type(one)) for one in self._lists(words[0].text))
            case ["each", _, ".", _]:
                yield self._of("by", Sort.Keyword, "several items at once, as a list")
            case ["per"]:
                yield self._of("run", Sort.EnumMember, "one count for the whole run")
                yield self._of("phase", Sort.EnumMember, "a separate count for each phase")
                yield from self.nodes(frozenset())
            case [name]:
                yield from (self._of(choice, Sort.EnumMember) for choice in vocabulary.attribute_choices(name))

    def _condition(self, keyword: str, words: Sequence[Token], source: str) -> Iterator[Proposal]:
        """The parts of a condition, `until any …` included."""
        over = begins_with_over(words)
        words = words[over:]
        match [word.kind for word in words]:
            case []:
                if over or keyword == "when":
                    yield from sorted(self.nodes(frozenset()), key=lambda one: one.label != source)
                if not over:
                    yield self._of("any", Sort.Keyword, "an item of a mapped agent")
                if not over and keyword == "when":
                    yield self._of("all", Sort.Keyword, "all items of a mapped agent")
            case [_, "."]:
                yield from (self._of(one.name, Sort.Property, _type(one)) for one in self._outputs(words[0].text))
            case [_, ".", _]:
                yield from (self._of(operator.value, Sort.Operator) for operator in Operator)
            case [_, ".", _, _]:
                yield from self._compared(words[0].text, words[2].text)

    def _lists(self, agent: str) -> list[Output]:
        """The outputs of *agent* that `each` can map."""
        return [one for one in self._document.facts.outputs(agent) if one.type.startswith("list")]

    def _outputs(self, agent: str) -> list[Output]:
        """The outputs of *agent*: declared ones, then those in conditions."""
        declared = self._document.facts.outputs(agent)
        known = {output.name for output in declared}
        read = [symbol.name for symbol in self._names.symbols(NameKind.OUTPUT, agent) if self._elsewhere(symbol)]
        return [*declared, *(Output(name=name, type="any") for name in read if name not in known)]

    def _compared(self, agent: str, field: str) -> Iterator[Proposal]:
        """Values to compare an output with: those of its enum, otherwise those in other conditions."""
        output = next((output for output in self._outputs(agent) if output.name == field), None)
        members = values_of(output) if output is not None else None
        if members is None:
            symbols = self._names.symbols(NameKind.VALUE, f"{agent}.{field}")
            members = tuple(symbol.name for symbol in symbols if self._elsewhere(symbol))
        for member in members:
            plain = str(member).lower() if isinstance(member, bool) else str(member)
            label = plain if self._typed.quoted or not isinstance(member, str) else f'"{plain}"'
            yield self._of(label, Sort.EnumMember, f"of {agent}.{field}")

    def _models(self) -> list[str]:
        """The models that the file names, in order of first mention."""
        blocks = [item for root in self._document.tree.items if isinstance(root, Root) for item in root.items]
        items = [item for block in blocks if isinstance(block, BlockNode) for item in block.items]
        fields = [item for item in items if isinstance(item, FieldNode) and item.key.text == "model"]
        values = [field.value for field in fields if field.value is not None]
        return list(dict.fromkeys(text_of(one) for one in values if span_of(one).offset != self._typed.offset))

    def _of(self, label: str, sort: Sort, detail: str = "", about: str = "", snippet: str = "") -> Proposal:
        return Proposal(label, sort, self._typed.offset, self._typed.length, detail, about, snippet)


def _type(output: Output) -> str:
    return " | ".join(map(str, output.values)) or output.type
