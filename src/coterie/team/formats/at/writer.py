"""Write a flow as an `.at` file; reading it back gives a team with an equal plan."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from coterie.errors import UsageError
from coterie.team.formats.at.language import BLOCKS
from coterie.team.formats.at.language.spec import BlockSpec
from coterie.team.formats.at.layout import format_text
from coterie.team.formats.at.nodes import OUTPUT_TYPES
from coterie.team.formats.at.placeholders import quoted
from coterie.team.formats.at.values import dedent
from coterie.team.topology.block import Block
from coterie.team.topology.model import (
    Action,
    Agent,
    AgentGroup,
    AnyNode,
    ArrowGroup,
    Each,
    Flow,
    Gate,
    Human,
    Orchestrator,
    Output,
    Topology,
)

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*(?:-[A-Za-z0-9_]+)*")
_SCHEMA = "schema"
_KEYWORDS: Mapping[type[Any], str] = {
    Agent: "agent",
    Action: "action",
    Gate: "gate",
    Human: "human",
    AgentGroup: "group",
    Orchestrator: "orchestrator",
}
_OWN = frozenset({"name", "outputs", "retry", "retrying", "extension", "kept", "span", "spans", "topology", "extra"})
"""Attributes of nodes that are written in another form, or not at all."""


def to_at(team: Topology) -> str:
    """Write *team*, a flow, as the text of an `.at` file; the plan of the file equals that of the team.

    Comments and layout of a file are not kept; included files are written out.

    Raises:
        UsageError: If it is not a flow, or contains a team without a file.
    """
    if not isinstance(team, Topology):
        raise UsageError(f"to_at() takes a Topology, not {type(team).__name__}")
    if team.flow is None:
        raise UsageError(f"{team.name!r} has no flow, and only flows can be written as .at")
    outputs = (output.name for node in team.nodes for output in getattr(node, "outputs", ()))
    for name in (team.name, *(node.name for node in team.nodes), *outputs):
        if not _NAME.fullmatch(name):
            raise UsageError(f"{name!r} is no name in a file: write A to Z first, then A to Z, digits, '_' and '-'")
    word = "fragment" if team.fragment else "topology"
    tags = f" : {_list(team.patterns or ('pipeline',))}"
    items = "\n".join(_items(team))
    return format_text(f"{word} {team.name}{tags} {{\n{items}\n}}\n")


def _items(team: Topology) -> Iterator[str]:
    if team.meta:
        yield _braces("meta", _fields(team.meta, BLOCKS["meta"]))
    if team.params:
        lines = (
            f"{one.name}: {one.type}" + ("" if one.value is None else f" = {_scalar(one.value)}") for one in team.params
        )
        yield _braces("params", lines)
    if team.interface is not None:
        ends = {"entry": team.interface.entry, "exit": team.interface.exit}
        yield _braces("interface", (f"{key}: {name}" for key, name in ends.items() if name))
    for keyword, block in team.blocks.items():
        yield from _block(keyword, block)
    if team.roles:
        yield _braces("roles", _plain(team.roles))
    for node in team.nodes:
        yield from _node(node)
    extensions: dict[str, Any] = {"coterie": team.extension} if team.extension else {}
    for block in team.kept:
        if block.kind == "extensions":
            extensions[block.name] = block.kept
        else:
            yield _braces(f"{block.kind} {block.name}".rstrip(), _plain(block.kept))
    if extensions:
        yield _braces("extensions", _plain(extensions))
    assert team.flow is not None
    yield _braces("flow", _statements(team.flow))


def _node(node: AnyNode) -> Iterator[str]:
    """The declaration of *node*."""
    if isinstance(node, Agent) and node.imported is not None:
        given = f" with {{ {', '.join(_plain(node.imported.given))} }}" if node.imported.given else ""
        digest = f" sha256: {quoted(node.imported.sha256)}" if node.imported.sha256 else ""
        yield f"import {quoted(node.imported.source)} as {node.name}{given}{digest}"
        return
    extension = dict(node.extension)
    if node.topology is not None:
        if not node.topology.file:
            raise UsageError(
                f"the team at {node.name!r} has no file: write it to one, to_at(…), and give the agent its path, "
                f'agent("{node.name}", Path("{node.topology.name}.at"))'
            )
        extension["topology"] = node.topology.file
    keyword = _KEYWORDS[type(node)]
    spec = BLOCKS[keyword]
    values = {
        name: value
        for name in node.__struct_fields__
        if name not in _OWN and (value := getattr(node, name)) not in ("", (), None)
    }
    lines = []
    for name, value in values.items():
        match name:
            case "manual":
                lines += ["invocation: manual"] if value else []
            case "prompt":
                lines.append(_prompt(value))
            case "prompt_is_path" | "imported":
                pass
            case "timeout" if not float(value).is_integer():
                extension["timeout"] = value
            case "on_timeout" if value == "halt":
                pass
            case "behavior" if value == "blocking":
                pass
            case _:
                field = name.replace("_", "-")
                lines += _fields({field: value}, spec)
    if node.retry is not None or node.retrying.fields or node.retrying.kept:
        lines += _retry(node)
    if isinstance(node, Agent):
        if node.tools == ():
            lines.append("tools: []")
        lines += _fields({**node.extra.fields, **node.extra.kept}, spec)
    if node.outputs:
        lines.append(_braces("outputs", map(_output, node.outputs)))
    kept = dict(node.kept)
    others = dict(kept.pop("extensions", {}))
    lines += _fields(kept, spec)
    if extension or others:
        own = [_braces("coterie", _plain(extension))] if extension else []
        lines.append(_braces("extensions", [*own, *_plain(others)]))
    head = keyword if keyword == "orchestrator" else f"{keyword} {node.name}"
    yield _braces(head, lines)


def _retry(node: AnyNode) -> list[str]:
    if not (node.retrying.fields or node.retrying.kept):
        return [f"retry: {node.retry}"]
    retry = BLOCKS["agent"].by_name["retry"].kind.block
    return [_braces("retry", [f"max: {node.retry}", *_fields({**node.retrying.fields, **node.retrying.kept}, retry)])]


def _prompt(text: str) -> str:
    """A prompt as a block of text if that does not change it, else quoted."""
    lines = text.split("\n")
    if len(lines) > 1 and "{" not in text and "}" not in text:
        block = "\n" + "".join(f"      {line}\n" if line else "\n" for line in lines)
        if dedent(block) == text:
            return f"prompt {{{block}    }}"
    return f"prompt: {quoted(text)}"


def _output(output: Output) -> str:
    if output.type != "enum":
        return f"{output.name}: {output.type}"
    return f"{output.name}: {' | '.join(map(_member, output.values))}"


def _member(value: Any) -> str:
    is_word = isinstance(value, str) and _NAME.fullmatch(value) and value not in (*OUTPUT_TYPES, "true", "false")
    return str(value) if is_word else _scalar(value)


# ---- the flow


def _statements(flow: Flow) -> Iterator[str]:
    """The statements of *flow*; names that they would mention in a different order come first, alone."""
    mapped = _mapped(flow)
    merged = [(list(sources), group, own) for sources, group, own in _merged(flow.groups, mapped)]
    order = dict.fromkeys(name for sources, group, _ in merged for name in (*sources, *group.targets))
    lone = {one.node: one for one in flow.each if one.group < 0}
    if tuple(order) != flow.mentions:
        yield from (f"{name}  [{lone[name]}]" if name in lone else name for name in flow.mentions)
    else:
        yield from (f"{name}  [{one}]" for name, one in lone.items())
    for sources, group, own in merged:
        targets = _side(group.targets)
        if "race" in group.kept and not targets.startswith("["):
            targets = f"[{targets}]"
        yield f"{_side(sources)} -> {targets}{own}"
    for arrow in flow.errors:
        kind = f"-x[{arrow.type}]->" if arrow.type else "-x->"
        yield f"{_side(arrow.sources)} {kind} {_side(arrow.targets)}{_attributes(arrow)}"


def _mapped(flow: Flow) -> dict[int, Each]:
    """How the targets of groups are mapped; a statement with several sources says it for the groups of them all."""
    found = {one.group: one for one in flow.each if one.group >= 0}
    for i in sorted(found):
        first, k = flow.groups[i], i + 1
        while k < len(flow.groups) and k not in found and flow.groups[k].targets == first.targets:
            if flow.groups[k].source in {one.source for one in flow.groups[i:k]}:
                break
            found[k], k = found[i], k + 1
    return found


def _merged(groups: Sequence[ArrowGroup], mapped: Mapping[int, Each]) -> Iterator[tuple[list[str], ArrowGroup, str]]:
    """Neighbouring groups that differ only in their source, merged into one statement, with their attributes."""
    own = [_attributes(one, mapped.get(i)) for i, one in enumerate(groups)]
    for (_, text), several in groupby(zip(groups, own, strict=True), key=lambda one: (one[0].targets, one[1])):
        found = [one for one, _ in several]
        sources = [one.source for one in found]
        if len(set(sources)) == len(sources):
            yield sources, found[0], text
        else:
            yield from (([one.source], one, text) for one in found)


def _side(names: Iterable[str]) -> str:
    listed = list(names)
    return listed[0] if len(listed) == 1 else f"[{', '.join(listed)}]"


def _attributes(arrow: Any, each: Each | None = None) -> str:
    given = []
    if arrow.when is not None:
        given.append(f"when {arrow.when}")
    if arrow.max is not None and not getattr(arrow, "implied_max", False):
        given.append(f"max {arrow.max}")
    if getattr(arrow, "per", "run") != "run":
        given.append(f"per {arrow.per}")
    if getattr(arrow, "on_max", "forward") != "forward":
        given.append(f"on-max {arrow.on_max}")
    if each is not None:
        given.append(str(each))
    for name, value in arrow.kept.items():
        match name:
            case "race" | "reflection":
                given.append(name)
            case "tolerance":
                given.append(f"tolerance: {value}")
            case "wait":
                given.append(f"wait {_duration(value)}")
            case _:
                given.append(f"{name} {value}")
    return f"  [{', '.join(given)}]" if given else ""


# ---- blocks and values


def _block(keyword: str, block: Block) -> Iterator[str]:
    """A block of the topology, or all blocks of that keyword if they have names."""
    spec = BLOCKS[keyword]
    if spec.named:
        yield from (_braces(f"{keyword} {entry.name}", _content(entry, spec)) for entry in block.entries)
    elif keyword == "env":
        lines = (f"{one.name}: {one.get('kind')} {quoted(one.get('value'))}" for one in block.entries)
        yield _braces(keyword, lines)
    else:
        yield _braces(keyword, _content(block, spec))


def _content(block: Block, spec: BlockSpec | None) -> Iterator[str]:
    if block.kind == _SCHEMA:
        yield from map(_schema_field, block.entries)
        return
    fields = dict(block.fields)
    fields.pop("label", None)
    yield from _fields(fields, spec)
    for entry in block.entries:
        inner = next((one for one in (spec.entries if spec else ()) if one.block.name == entry.kind), None)
        word = inner.word if inner is not None else entry.kind
        label = f" {quoted(str(entry.get('label')))}" if entry.get("label") else ""
        head = f"{word} {_key(entry.name)}".strip() + label
        yield _braces(head, _content(entry, inner.block if inner is not None else None))
    yield from _plain(block.kept)


def _fields(values: Mapping[str, Any], spec: BlockSpec | None) -> Iterator[str]:
    """The fields *values*, by the description of their block, or as plain data without one."""
    for name, value in values.items():
        field = spec.by_name.get(name) if spec is not None else None
        match value:
            case Block():
                yield _braces(name, _content(value, field.kind.block if field is not None else None))
            case tuple() if value and all(isinstance(one, Block) for one in value):
                lines = [_schema_field(one) for one in value if one.kind == "field"]
                for one in value:
                    if one.kind != "field":
                        entries = field.kind.entries if field is not None else None
                        head = f"{entries.word if entries else one.kind} {_key(one.name)}".strip()
                        lines.append(_braces(head, _content(one, entries.block if entries else None)))
                yield _braces(name, lines)
            case float() | int() if field is not None and field.kind.name in ("duration", "seconds"):
                yield f"{name}: {_duration(float(value))}"
            case str() if field is not None and field.kind.name == "policy":
                yield f"{name}: {value}"
            case _:
                yield from _plain({name: value})


def _schema_field(field: Block) -> str:
    mark = "?" if field.get("optional", False) else ""
    array = "array of " if field.get("array", False) else ""
    of = " | ".join(field.get("values", ())) or field.get("type")
    return f"{_key(field.name)}{mark}: {array}{of}"


def _plain(values: Mapping[str, Any]) -> Iterator[str]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            before = f": {_scalar(value[''])}" if "" in value else ""
            yield _braces(_key(name) + before, _plain({key: each for key, each in value.items() if key}))
        elif value is not None:
            yield f"{_key(name)}: {_scalar(value)}"


def _scalar(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return f"{value:.15f}".rstrip("0") + ("0" if value.is_integer() else "")
        case list() | tuple():
            return _list(value)
        case _:
            return quoted(str(value))


def _list(values: Iterable[Any]) -> str:
    return f"[{', '.join(value if _is_name(value) else _scalar(value) for value in values)}]"


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and _NAME.fullmatch(value) is not None and value not in ("true", "false")


def _key(name: str) -> str:
    return name if _NAME.fullmatch(name) else quoted(name)


def _duration(seconds: float) -> str:
    whole = int(seconds)
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if whole and whole % size == 0:
            return f"{whole // size}{unit}"
    return f"{whole}s"


def _braces(head: str, lines: Iterable[str]) -> str:
    content = "\n".join(lines)
    return f"{head} {{\n{content}\n}}"
