"""Turn the tree of an `.at` file into the `Topology` it describes.

Values are read with their spans; `coterie.team.topology.checks` checks the topology as a whole.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from coterie.base.diagnostics import Fix, Span, did_you_mean, error, warning
from coterie.team.formats.at.blocks import read_block, read_entry, read_fields
from coterie.team.formats.at.fields import FieldReader, IdleReport
from coterie.team.formats.at.flows import read_flow
from coterie.team.formats.at.language import BLOCKS
from coterie.team.formats.at.language.spec import BlockSpec as Spec
from coterie.team.formats.at.language.spec import Entries
from coterie.team.formats.at.nodes import read_agent, read_extensions, read_node
from coterie.team.formats.at.parser import Parsed
from coterie.team.formats.at.tree import BlockNode as Tree
from coterie.team.formats.at.tree import Directive, Entry, FieldNode, FlowBlock, Raw, Root, Stray, WordsNode, span_of
from coterie.team.formats.at.values import dedent, plain, plain_items, text_of, words_of
from coterie.team.topology.block import Block
from coterie.team.topology.model import AnyNode, Flow, Topology

if TYPE_CHECKING:  # few files have one
    from coterie.team.topology.patterns.model import Pattern

_ELSEWHERE = frozenset({"flow", "import", "include", "params", "interface"})
"""Keywords of blocks that `compose` has removed, or that are not blocks when they have a name."""
_MANY = frozenset({"agent", "action", "gate", "gates", "human", "group", "skill"})


def read_at(parsed: Parsed, file: str = "", folder: Path | None = None) -> Topology | None:
    """Read the topology of a tree, if it has one, and report every invalid part in *parsed*.

    Args:
        parsed: The tree after `coterie.team.formats.at.compose`.
        file: Its path, as the user named it.
        folder: The base of relative paths of prompts; None: every prompt is a text.
    """
    return _Reader(parsed, folder).read(file)


class _Reader:
    """Collects the content of the blocks of one topology."""

    def __init__(self, parsed: Parsed, folder: Path | None) -> None:
        self._parsed = parsed
        self._report = parsed.diagnostics.append
        self._folder = folder
        self._seen: set[str] = set()
        self._nodes: list[AnyNode] = []
        self._kept: list[Block] = []
        self._flow: Flow | None = None
        self._roles: dict[str, str] = {}
        self._meta: dict[str, Any] = {}
        self._extension: dict[str, Any] = {}
        self._pattern: Pattern | None = None
        self._blocks: dict[str, Block] = {}
        self._spans: dict[str, Span] = {}

    def read(self, path: str) -> Topology | None:
        """The first topology of the file, with any blocks after it, since a brace may be misplaced."""
        items = self._parsed.tree.items
        roots = [item for item in items if isinstance(item, Root)]
        if not roots:
            return None
        root = roots[0]
        for other in roots[1:]:
            message = f"a second {other.keyword.text} in this file"
            self._report(error("second-topology", message, other.keyword.span, "move it to another file"))
        if root.keyword.text == "library":
            message = "this file contains a library, but only a topology or a fragment can be read"
            self._report(error("no-topology", message, root.keyword.span))
            return None
        for item in (*root.items, *(item for item in items if not isinstance(item, Root))):
            self._item(item)
        return self._topology(root, path)

    def _topology(self, root: Root, path: str) -> Topology:
        patterns: tuple[str, ...] = ()
        if root.patterns is not None:
            patterns = tuple(text_of(item.value) for item in root.patterns.items if item.value is not None)
            self._spans["patterns"] = root.patterns.open.span
            for item in root.patterns.items:
                if item.value is not None:
                    self._spans[f"patterns.{text_of(item.value)}"] = span_of(item.value)
        if root.name is not None:
            self._spans["name"] = root.name.span
        return Topology(
            name=root.name.text if root.name else "",
            patterns=patterns,
            nodes=tuple(self._nodes),
            flow=self._flow,
            pattern=self._pattern,
            roles=self._roles,
            meta=self._meta,
            extension=self._extension,
            kept=tuple(self._kept),
            fragment=root.keyword.text == "fragment",
            file=path,
            span=root.keyword.span,
            spans=self._spans,
            blocks=self._blocks,
        )

    def _item(self, item: Entry) -> None:
        match item:
            case FlowBlock():
                self._add_flow(item)
            case Tree():
                self._block(item)
            case Directive():
                self._directive(item)
            case FieldNode():
                self._field(item)
            case Raw():
                self._unknown(item.key.text, item.key.span)
                self._kept.append(Block(kind=item.key.text, kept={"text": dedent(item.text.text)}, span=item.key.span))
            case Stray():
                pass

    def _add_flow(self, block: FlowBlock) -> None:
        """Read a flow; a second one is an error, but its names count as used."""
        self._first("flow", block.keyword.span)
        found = len(self._parsed.diagnostics)
        flow = read_flow(block, self._report)
        self._parsed.lost_flow |= any(each.is_error for each in self._parsed.diagnostics[found:])
        if self._flow is not None:
            mentions = dict.fromkeys((*self._flow.mentions, *flow.mentions))
            flow = replace(
                self._flow,
                groups=self._flow.groups + flow.groups,
                mentions=tuple(mentions),
                errors=self._flow.errors + flow.errors,
                spans={**flow.spans, **self._flow.spans},
            )
        self._flow = flow

    def _directive(self, item: Directive) -> None:
        """Keep a directive; `compose` has removed valid imports and includes."""
        word = item.words[0]
        self._unknown(word.text, word.span)
        self._kept.append(Block(kind=word.text, kept={"text": words_of(WordsNode(item.words[1:]))}, span=word.span))

    def _field(self, item: FieldNode) -> None:
        from coterie.team.formats.at.places import right_place  # most files are correct

        name = text_of(item.key)
        if item.block is not None:
            self._parsed.lost_items = True
            message = f"found '{{' behind the value of {name!r}"
            self._report(error("unexpected-text", message, item.block.open.span, f"write {name} NAME {{ … }}"))
            return
        message = f"the topology has no field {name!r}"
        hint = right_place(name, plain(item.value)) or "write fields inside a block: agent, meta, …"
        self._report(warning("unknown-field", message, item.key.span, hint))
        self._kept.append(Block(kind=name, kept={name: plain(item.value)}, span=item.key.span))

    def _block(self, block: Tree) -> None:
        keyword = block.keyword
        if keyword in BLOCKS and keyword not in _MANY and not self._first(keyword, block.head[0].span):
            return
        match keyword:
            case "agent" | "action" | "gate" | "human" | "group":
                self._node(block)
            case "gates":
                self._gates(block)
            case "orchestrator":
                self._nodes.append(read_node(block.head[0], block, self._report))
            case "meta":
                fields = self._fields(block)
                self._meta = read_fields(fields, BLOCKS["meta"]) | fields.rest()
                self._spans |= {f"meta.{name}": span for name, span in fields.spans.items()}
            case "pattern":
                self._read_pattern(block)
            case "roles":
                roles = self._fields(block).rest()
                self._roles = {name: text if isinstance(text, str) else str(text) for name, text in roles.items()}
            case "extensions":
                self._extensions(block)
            case _:
                self._other(block)

    def _read_pattern(self, block: Tree) -> None:
        from coterie.team.formats.at.patterns import read_pattern  # few files have one

        self._spans["pattern"] = block.head[0].span
        self._pattern, rest = read_pattern(block, self._report)
        if rest:
            self._kept.append(Block(kind="pattern", kept=rest, span=block.head[0].span))

    def _first(self, keyword: str, span: Span) -> bool:
        """Whether a block that may occur once occurs for the first time; others are reported."""
        if keyword not in self._seen:
            self._seen.add(keyword)
            return True
        message = f"a second {keyword!r} block"
        self._report(error("duplicate-block", message, span, "merge the two blocks"))
        return False

    def _node(self, block: Tree) -> None:
        keyword = block.keyword
        if len(block.head) != 2:
            behind = block.head[2] if len(block.head) > 2 else block.head[0]
            message = (
                f"this {keyword} has no name" if len(block.head) == 1 else f"unexpected {behind.text!r} after the name"
            )
            self._report(error("bad-name", message, behind.span, f"write: {keyword} NAME {{ … }}"))
            if len(block.head) == 1:
                self._parsed.lost_items = True
                return
        name = block.head[1]
        if keyword == "agent":
            self._nodes.append(read_agent(name, block, self._report, self._folder))
        else:
            self._nodes.append(read_node(name, block, self._report))

    def _gates(self, block: Tree) -> None:
        for item in block.items:
            if isinstance(item, Tree) and item.keyword == "gate":
                self._node(item)
            elif isinstance(item, Tree | FieldNode | Raw):
                head = item.head[0] if isinstance(item, Tree) else item.key
                self._report(error("bad-value", f"{head.text!r} is not a gate", head.span, "write: gate NAME { … }"))

    def _fields(self, block: Tree) -> FieldReader:
        self._spans[block.keyword] = block.head[0].span
        return FieldReader(block.items, repr(block.keyword), self._report)

    def _extensions(self, block: Tree) -> None:
        fields = FieldReader([block], "the topology", self._report)
        self._extension, others = read_extensions(fields)
        self._spans |= fields.spans
        for name, value in others.get("extensions", {}).items():
            content = value if isinstance(value, dict) else {name: value}
            self._kept.append(Block(kind="extensions", name=name, kept=content, span=block.head[0].span))

    def _other(self, block: Tree) -> None:
        keyword, span = block.keyword, block.head[0].span
        name = " ".join(text_of(word) for word in block.head[1:])
        spec = BLOCKS.get(keyword)
        if spec is None or keyword in _ELSEWHERE:
            self._unknown(keyword, span)
            self._kept.append(Block(kind=keyword, name=name, kept=plain_items(block.items), span=span))
        elif spec.named:
            self._named(block, spec)
        else:
            if name:
                message = f"unexpected {name!r} after {keyword!r}"
                self._report(warning("unread-text", message, block.head[1].span, f"write: {keyword} {{ … }}"))
            self._spans[keyword] = span
            self._blocks[keyword] = self._beside(block, spec)

    def _beside(self, block: Tree, spec: Spec) -> Block:
        if spec.name != "env":
            return read_block(block, spec, self._report if spec.executed else IdleReport(self._report))
        from coterie.team.formats.at.variables import read_variables  # few files have one

        return read_variables(block, self._report)

    def _named(self, block: Tree, spec: Spec) -> None:
        """Add a named block, of which there may be several."""
        if len(block.head) < 2:
            message = f"this {spec.name} has no name"
            self._report(error("bad-name", message, block.head[0].span, f"write: {spec.name} NAME {{ … }}"))
            return
        name = block.head[1]
        before = self._blocks.setdefault(spec.name, Block(kind=spec.name, span=block.head[0].span))
        self._spans.setdefault(spec.name, block.head[0].span)
        if any(entry.name == name.text for entry in before.entries):
            message = f"the topology has {spec.name} {name.text!r} twice"
            self._report(error("duplicate-entry", message, name.span, "choose another name"))
            return
        report = self._report if spec.executed else IdleReport(self._report)
        entry = read_entry(block, Entries(spec.name, spec), text_of(name), name.span, report)
        self._blocks[spec.name] = replace(before, entries=(*before.entries, entry))

    def _unknown(self, keyword: str, span: Span) -> None:
        # Do not suggest `pattern` for unrelated words: its fields would be wrong, too.
        close = did_you_mean(keyword, [name for name in BLOCKS if name != "pattern" or keyword.startswith("patt")])
        fix = Fix("correct the name", span, close.split("'")[1]) if close else None
        hint = close or "it is kept but has no effect"
        self._report(warning("unknown-block", f"unknown block {keyword!r}", span, hint, fix))
