"""All names in an `.at` file: their declarations and uses.

Names are found in the syntax tree, so they are known even while the file has errors.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum

from msgspec import Struct
from msgspec.structs import replace

from coterie.team.formats.at.lexer import NAME, RAW, SINGLE_QUOTED, STRING, Token
from coterie.team.formats.at.nodes import OUTPUT_TYPES
from coterie.team.formats.at.schemas import TYPES
from coterie.team.formats.at.tree import (
    AttributeNode,
    Attributes,
    BlockNode,
    Directive,
    Entry,
    FieldNode,
    File,
    FlowBlock,
    ListValue,
    NameList,
    Raw,
    Root,
    Statement,
    Stray,
    Value,
    WordsNode,
)
from coterie.team.topology.composition import PLACEHOLDER


class NameKind(Enum):
    """The kind of thing that a name refers to; the value is its English word."""

    NODE = "node"
    OUTPUT = "output"
    VALUE = "value"
    ROLE = "role"
    SCHEMA = "schema"
    STORE = "store"
    RETRIEVAL = "retrieval"
    SKILL = "skill"
    TOOL = "tool"
    SERVER = "MCP server"
    ARTIFACT = "artifact"
    PARAM = "parameter"


class Symbol(Struct, frozen=True):
    """The thing that a name refers to. The owner of an output is its agent, that of a value `agent.output`."""

    kind: NameKind
    name: str
    owner: str = ""


class Occurrence(Struct, frozen=True):
    """An occurrence of a name, without its quotes.

    Attributes:
        declares: Whether it is a declaration.
        fixed: Whether the name cannot be changed: the word `orchestrator`.
        perhaps: Whether it is a name only if the name is declared: `reads` accepts agents and files.
    """

    symbol: Symbol
    offset: int
    length: int
    declares: bool = False
    fixed: bool = False
    perhaps: bool = False

    @property
    def end(self) -> int:
        """The offset after its last character."""
        return self.offset + self.length


class Names:
    """The names of one file, by offset and by symbol."""

    def __init__(self, occurrences: Iterable[Occurrence]) -> None:
        self.all = sorted(occurrences, key=lambda one: one.offset)
        self._offsets = [one.offset for one in self.all]
        self._of: dict[Symbol, list[Occurrence]] = defaultdict(list)
        for one in self.all:
            self._of[one.symbol].append(one)

    def at(self, offset: int) -> Occurrence | None:
        """The name at *offset* or ending there."""
        index = bisect_right(self._offsets, offset) - 1
        if index >= 0 and self.all[index].end >= offset:
            return self.all[index]
        return None

    def of(self, symbol: Symbol) -> Sequence[Occurrence]:
        """All occurrences of *symbol*, in text order."""
        return self._of.get(symbol, ())

    def declarations(self, symbol: Symbol) -> list[Occurrence]:
        """The declarations of *symbol*; a valid file has at most one."""
        return [one for one in self.of(symbol) if one.declares]

    def symbols(self, kind: NameKind, owner: str = "") -> list[Symbol]:
        """The symbols of *kind* with *owner*, in order of first occurrence."""
        return [symbol for symbol in self._of if symbol.kind is kind and symbol.owner == owner]


def named_by(block: str, field: str) -> NameKind | None:
    """The kind of name that *field* in *block* contains; None if it is not a name."""
    return _USES.get(field) or _USES_IN.get((block, field))


def names_in(tree: File) -> Names:
    """All names in *tree*."""
    found: list[Occurrence] = []
    for item in tree.items:
        found += _entries(item.items) if isinstance(item, Root) else _entry(item)
    declared = {one.symbol for one in found if one.declares}
    if any(symbol.kind is NameKind.PARAM for symbol in declared):
        found += _placeholders(tree)
    return Names(one for one in found if not one.perhaps or one.symbol in declared)


_NODES = frozenset({"agent", "action", "gate", "human", "group"})
_DECLARES: Mapping[str, NameKind] = {
    **dict.fromkeys(_NODES, NameKind.NODE),
    "schema": NameKind.SCHEMA,
    "store": NameKind.STORE,
    "retrieval": NameKind.RETRIEVAL,
    "skill": NameKind.SKILL,
    "tool": NameKind.TOOL,
    "artifact": NameKind.ARTIFACT,
}
"""The kind of name that a block declares, by its keyword."""

_USES: Mapping[str, NameKind] = {
    **dict.fromkeys(
        ("after", "before", "members", "handles", "compensates", "error-handler", "entry", "exit", "omit"),
        NameKind.NODE,
    ),
    "role": NameKind.ROLE,
    "tools": NameKind.TOOL,
    "disallowed-tools": NameKind.TOOL,
    "allowed-tools": NameKind.TOOL,
    "skills": NameKind.SKILL,
    "mcp-servers": NameKind.SERVER,
    "memory": NameKind.STORE,
    "retrieval": NameKind.RETRIEVAL,
    "produces": NameKind.ARTIFACT,
    "consumes": NameKind.ARTIFACT,
    "depends-on": NameKind.ARTIFACT,
}
"""The kind of name that a field contains."""

_USES_IN: Mapping[tuple[str, str], NameKind] = {
    ("job", "agent"): NameKind.NODE,
    ("job", "action"): NameKind.NODE,
    ("skill", "agent"): NameKind.NODE,
    ("skill", "scripts"): NameKind.TOOL,
    ("retrieval", "sources"): NameKind.STORE,
}
"""The kind of name in fields that occur in a single block."""

_SCHEMAS = frozenset({"schema", "input-schema", "output-schema"})
_POLICIES = frozenset({"on-fail", "on-timeout"})
_CONSTANTS = frozenset({"true", "false"})
_QUOTED = (STRING, SINGLE_QUOTED)


def _entries(items: Sequence[Entry], block: str = "", owner: str = "") -> Iterator[Occurrence]:
    for item in items:
        yield from _entry(item, block, owner)


def _entry(item: Entry, block: str = "", owner: str = "") -> Iterator[Occurrence]:
    """The names in *item*, an item of *block*, inside the declaration of *owner*."""
    match item:
        case FieldNode():
            yield from _field(item, block)
        case BlockNode():
            yield from _block(item, block, owner)
        case FlowBlock():
            for statement in item.statements:
                if isinstance(statement, Statement):
                    yield from _statement(statement)
        case Directive():
            for word, name in zip(item.words, item.words[1:], strict=False):
                if word.text == "as" and name.kind == NAME:
                    yield _occurrence(NameKind.NODE, name, declares=True)
        case Stray(skipped=[_, mark, colon, *words]) if mark.kind == "?" and colon.kind == ":" and block in _SCHEMAS:
            yield from _schema([word for word in words if word.kind != ","])
        case Raw() | Stray():
            pass


def _block(item: BlockNode, block: str, owner: str) -> Iterator[Occurrence]:
    keyword = item.keyword
    kind = _DECLARES.get(keyword)
    match block, keyword:
        case _, "orchestrator" if not block:
            symbol = Symbol(NameKind.NODE, keyword)
            yield Occurrence(symbol, item.head[0].offset, len(keyword), declares=True, fixed=True)
            owner = keyword
        case _, "roles" | "params" if not block:
            for field in item.items:
                if isinstance(field, FieldNode):
                    yield _occurrence(NameKind.ROLE if keyword == "roles" else NameKind.PARAM, field.key, declares=True)
            return
        case _, "outputs":
            for field in item.items:
                if isinstance(field, FieldNode):
                    yield from _output(field, owner)
            return
        case "mcp-servers", _ if item.head:
            yield _occurrence(NameKind.SERVER, item.head[0], declares=True)
        case _ if kind is not None and len(item.head) > 1:
            yield _occurrence(kind, item.head[1], declares=True)
            owner = _text(item.head[1]) if kind is NameKind.NODE else owner
    yield from _entries(item.items, keyword, owner)


def _field(item: FieldNode, block: str) -> Iterator[Occurrence]:
    name = _text(item.key)
    kind = named_by(block, name)
    if name in _POLICIES and isinstance(item.value, WordsNode):
        if item.value.words[0].text == "fallback" and len(item.value.words) == 2:
            yield _occurrence(NameKind.NODE, item.value.words[1])
    elif block in _SCHEMAS:
        yield from _schema(item.value.words if isinstance(item.value, WordsNode) else _words(item.value))
    elif name == "skip" and isinstance(item.value, WordsNode):
        yield from _condition(item.value.words)
    elif name == "reads":
        for word in _words(item.value):
            yield replace(_occurrence(NameKind.NODE, word), perhaps=True)
    elif kind is not None:
        for word in _words(item.value):
            yield _occurrence(kind, word)


def _output(field: FieldNode, owner: str) -> Iterator[Occurrence]:
    """The declarations of an output and its values."""
    yield _occurrence(NameKind.OUTPUT, field.key, owner, declares=True)
    members = field.value.words[::2] if isinstance(field.value, WordsNode) else _words(field.value)
    is_list = isinstance(field.value, WordsNode) and [word.text for word in field.value.words[:2]] == ["list", "of"]
    if is_list or (len(members) == 1 and members[0].text in OUTPUT_TYPES):
        return
    for word in members:
        yield from _value(word, f"{owner}.{_text(field.key)}", declares=True)


def _statement(statement: Statement) -> Iterator[Occurrence]:
    for part in statement.parts:
        match part:
            case Token() if part.kind == NAME:
                yield _occurrence(NameKind.NODE, part)
            case NameList():
                for name in part.names:
                    if name.kind == NAME:
                        yield _occurrence(NameKind.NODE, name)
            case Attributes():
                for attribute in part.items:
                    yield from _attribute(attribute)


def _attribute(attribute: AttributeNode) -> Iterator[Occurrence]:
    words = attribute.words
    keyword = words[0].text.lower() if words else ""
    if keyword in ("when", "until"):
        yield from _condition(words[1 + begins_with_over(words[1:]) :])
    elif keyword == "each" and len(words) > 1 and words[1].text != "input":
        yield from _condition(words[1:4])
    elif keyword == "per" and len(words) > 1 and words[1].kind == NAME and words[1].text not in ("run", "phase"):
        yield _occurrence(NameKind.NODE, words[1])


def begins_with_over(words: Sequence[Token]) -> bool:
    """Whether a condition begins with `any` or `all`, rather than with an agent of that name."""
    return bool(words) and words[0].text in ("any", "all") and [word.kind for word in words[1:2]] != ["."]


def _condition(words: Sequence[Token]) -> Iterator[Occurrence]:
    """The names in a condition such as `reviewer.verdict == "revise"`, which may be incomplete."""
    if words and words[0].kind == NAME:
        yield _occurrence(NameKind.NODE, words[0])
        if [word.kind for word in words[1:3]] == [".", NAME]:
            yield _occurrence(NameKind.OUTPUT, words[2], words[0].text)
            if len(words) > 4:
                yield from _value(words[4], f"{words[0].text}.{words[2].text}")


def _value(word: Token, owner: str, declares: bool = False) -> Iterator[Occurrence]:
    if _is_name(word) and word.text not in _CONSTANTS:
        yield _occurrence(NameKind.VALUE, word, owner, declares)


def _placeholders(tree: File) -> Iterator[Occurrence]:
    """The parameters in placeholders: `${param.tone}`."""
    for token in tree.tokens():
        if token.kind in (STRING, RAW) and "${param." in token.text:
            for place in PLACEHOLDER.finditer(token.text):
                yield Occurrence(Symbol(NameKind.PARAM, place[1]), token.offset + place.start(1), len(place[1]))


def _words(value: Value | None) -> list[Token]:
    """The words in *value*, a word or a list, that may be names."""
    match value:
        case Token() if _is_name(value):
            return [value]
        case ListValue():
            return [word for item in value.items for word in _words(item.value)]
        case _:
            return []


def _schema(type: list[Token]) -> Iterator[Occurrence]:
    """The schema named by the type of a field: `finding`, `array of finding`, but not `low | high`."""
    alone = len(type) == 1 or [word.text for word in type[:-1]] in (["?"], ["array", "of"], ["?", "array", "of"])
    if alone and type[-1].kind == NAME and type[-1].text not in TYPES:
        yield _occurrence(NameKind.SCHEMA, type[-1])


def _is_name(word: Token) -> bool:
    """Whether *word* may be a name, in quotes or not; a text with a placeholder is not."""
    return word.kind in (NAME, *_QUOTED) and "${" not in word.text


def _occurrence(kind: NameKind, word: Token, owner: str = "", declares: bool = False) -> Occurrence:
    name = _text(word)
    return Occurrence(Symbol(kind, name, owner), word.offset + (word.kind in _QUOTED), len(name), declares)


def _text(word: Token) -> str:
    return word.text[1:-1] if word.kind in _QUOTED else word.text
