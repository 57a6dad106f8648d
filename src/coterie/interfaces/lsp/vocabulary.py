"""The words of the notation that are valid in a block.

`coterie.team.formats.at.language` defines them; `coterie.team.options` those of `extensions { coterie { … } }`.
"""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from coterie.interfaces.lsp.context import Path
from coterie.team.formats.at.language import ATTRIBUTES, BLOCKS, LANGUAGE, ROOTS
from coterie.team.formats.at.language.spec import BlockSpec, Entries, FieldSpec
from coterie.team.formats.at.nodes import OUTPUT_TYPES
from coterie.team.formats.at.schemas import TYPES as SCHEMA_TYPES
from coterie.team.options.agents import AGENT_KEYS, BY_KEY, DEFAULT_KEYS, HUMAN_KEYS, PROCESS_KEYS, TEAM_KEYS
from coterie.team.options.backends import BACKENDS
from coterie.team.topology.checks.operation import PATTERNS

_COTERIE = {"agent": AGENT_KEYS, "orchestrator": AGENT_KEYS, "human": HUMAN_KEYS, "": (*DEFAULT_KEYS, *TEAM_KEYS)}
_ORDER = tuple(each.name for each in ATTRIBUTES if each.executed)
_BOUNDS = _ORDER[_ORDER.index("each") + 1 :]
_DIRECTIVES = {"import": 'import "${1:./team.at}" as ${2:name}', "include": 'include "${1:./fragment.at}"'}


class Keyword(Struct, frozen=True):
    """A word of the notation: a block, a field or an attribute.

    Attributes:
        shape: Its form or the form of its value.
        about: Its meaning.
        many: Whether it may be repeated.
        snippet: Its text with placeholders such as `$1`.
    """

    name: str
    shape: str
    about: str
    is_block: bool = False
    many: bool = False
    snippet: str = ""


def roots() -> list[Keyword]:
    """The blocks at the top of a file."""
    topology = "topology ${1:name} : [${2:pipeline}] {\n  $0\n}"
    return [replace(_top(block), snippet=topology) if block.name == "topology" else _top(block) for block in ROOTS]


def items(blocks: Path) -> list[Keyword]:
    """The fields and blocks of the last of *blocks*; without blocks, those of a topology."""
    if not blocks:
        return [_top(block) for block in LANGUAGE]
    if (keys := _coterie_keys(blocks)) is not None:
        return [Keyword(key, "", BY_KEY[key].about, snippet=f"{key}: $0") for key in keys]
    if blocks[-1][:1] == ("extensions",):
        return [
            Keyword("coterie", "a block", "Options of coterie, such as the backend.", True, snippet="coterie { $0 }")
        ]
    found = _resolve(blocks)
    if found is None:
        return []
    return [*map(_field, found.fields), *map(_entry, _entries(found))]


def word(blocks: Path, name: str) -> Keyword | None:
    """The keyword *name* in *blocks*, if it is defined."""
    return next((each for each in items(blocks) if each.name == name), None)


def attribute(name: str) -> Keyword | None:
    """The attribute *name* of an arrow, if it is defined."""
    return next((_attribute(each.name) for each in ATTRIBUTES if each.name == name), None)


def attributes(before: Sequence[str], after: Sequence[str]) -> list[Keyword]:
    """The attributes that are allowed between *before* and *after*, in their order."""
    low = max((_ORDER.index(name) for name in before if name in _ORDER), default=-1)
    high = min((_ORDER.index(name) for name in after if name in _ORDER), default=len(_ORDER))
    ordered = [name for name in _ORDER[low + 1 : high] if name not in _BOUNDS or "each" in before]
    others = [each.name for each in ATTRIBUTES if each.name not in (*_ORDER, *before, *after)]
    return [_attribute(name) for name in (*ordered, *others)]


def attribute_choices(name: str) -> Sequence[str]:
    """The words allowed after the attribute *name*, if they are fixed."""
    shape = next((each.shape for each in ATTRIBUTES if each.name == name), "")
    words = [word.strip() for word in shape.removeprefix(name).split("|")]
    return words if len(words) > 1 and all(map(str.isalpha, words)) else ()


def choices(blocks: Path, field: str) -> Sequence[str]:
    """The values allowed for *field*, if they are fixed."""
    if not blocks and field == "patterns":
        return PATTERNS
    if _coterie_keys(blocks) is not None:
        return sorted(BACKENDS) if field == "backend" else BY_KEY[field].kind.choices if field in BY_KEY else ()
    if blocks and blocks[-1] == ("outputs",):
        return list(dict.fromkeys(OUTPUT_TYPES.values()))
    if blocks and blocks[-1][0] == "schema":
        return SCHEMA_TYPES
    found = _resolve(blocks)
    known = found.by_name.get(field) if found is not None else None
    if known is None:
        return ()
    return (*known.kind.choices, "fallback") if known.kind.name == "policy" else known.kind.choices


def _resolve(blocks: Path) -> BlockSpec | None:
    """The description of the innermost of *blocks*; None if anything is allowed."""
    found = BLOCKS.get(blocks[0][0]) if blocks and blocks[0] else None
    for head in blocks[1:]:
        found = _inner(found, head) if found is not None else None
    return found


def _inner(block: BlockSpec, head: tuple[str, ...]) -> BlockSpec | None:
    """The inner block of *block* that begins with *head*."""
    keyword = head[0] if head else ""
    known = block.by_name.get(keyword)
    if known is not None and len(head) == 1:
        if known.kind.entries is not None:
            return BlockSpec(keyword, block.about, entries=(known.kind.entries,))
        if known.kind.block is not None:
            return known.kind.block
    for entries in _entries(block):
        if keyword == entries.word or (len(head) == 1 and (entries.bare or not entries.word)):
            return entries.block
    return None


def _entries(block: BlockSpec) -> tuple[Entries, ...]:
    if block.name == "gates":
        return (Entries("gate", BLOCKS["gate"]),)
    return block.entries


def _coterie_keys(blocks: Path) -> Sequence[str] | None:
    """The keys of coterie's extension; None if *blocks* lead elsewhere."""
    if len(blocks) < 2 or blocks[-1] != ("coterie",) or blocks[-2] != ("extensions",):
        return None
    owner = blocks[-3][0] if len(blocks) > 2 and blocks[-3] else ""
    return _COTERIE.get(owner, PROCESS_KEYS)


def _top(block: BlockSpec) -> Keyword:
    about = _about(block.about, block.executed)
    if block.name in _DIRECTIVES:
        return Keyword(block.name, block.example, about, True, True, _DIRECTIVES[block.name])
    name = f"{block.name} ${{1:name}}" if block.named else block.name
    shape = f"{block.name} NAME {{ … }}" if block.named else f"{block.name} {{ … }}"
    return Keyword(block.name, shape, about, True, block.named, f"{name} {{\n  $0\n}}")


def _field(field: FieldSpec) -> Keyword:
    is_block = field.kind.words.startswith("a block")
    about = _about(field.about, field.executed, field.default, model_only=field.model_only)
    snippet = f"{field.name} {{ $0 }}" if is_block else f"{field.name}: $0"
    return Keyword(field.name, field.kind.words, about, is_block, snippet=snippet)


def _entry(entries: Entries) -> Keyword:
    head = f"{entries.word} ${{1:name}}" if entries.word else "${1:name}"
    return Keyword(entries.word or "NAME", entries.shape, entries.block.about, True, True, f"{head} {{\n  $0\n}}")


def _attribute(name: str) -> Keyword:
    found = next(each for each in ATTRIBUTES if each.name == name)
    return Keyword(name, found.shape, _about(found.about, found.executed))


def _about(about: str, executed: bool, default: str = "", *, model_only: bool = False) -> str:
    sentences = [about]
    if default:
        sentences.append(f"Default: {default}.")
    if not executed:
        sentences.append("It is kept and shown, but has no effect yet.")
    elif model_only:
        sentences.append("It has an effect only where a model runs the agent.")
    return " ".join(sentences)
