"""Read the blocks that declare nodes: agents, the orchestrator, actions, gates, humans, groups."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from coterie.team.formats.at.blocks import read_block, read_fields, without_defaults
from coterie.team.formats.at.fields import FieldReader, IdleReport, Report, key_of
from coterie.team.formats.at.language import BLOCKS
from coterie.team.formats.at.language.spec import BlockSpec as Spec
from coterie.team.formats.at.language.spec import FieldSpec
from coterie.team.formats.at.lexer import NAME, Token
from coterie.team.formats.at.tree import BlockNode as Tree
from coterie.team.formats.at.tree import WordsNode, span_of
from coterie.team.formats.at.values import scalar, text_of, timed
from coterie.team.formats.prompts import read_prompt
from coterie.team.options.agents import BY_KEY
from coterie.team.options.values import TEXTUAL
from coterie.team.topology.block import NOTHING, Block
from coterie.team.topology.conditions import Scalar
from coterie.team.topology.model import Action, Agent, AgentGroup, AnyNode, Gate, Human, Orchestrator, Output

OUTPUT_TYPES = {
    "text": "text",
    "string": "text",
    "number": "number",
    "integer": "integer",
    "boolean": "boolean",
    "any": "any",
    "list": "list",
}
"""Types of outputs; any other word is an enum with a single value."""

_AGENT = {*Agent.__struct_fields__}
"""The attributes of an agent; other fields are in `Agent.extra`."""


def read_agent(name: Token, block: Tree, report: Report, folder: Path | None) -> Agent:
    """`agent NAME { … }`."""
    fields = FieldReader(block.items, f"agent {name.text!r}", report)
    spec = BLOCKS["agent"]
    own = _read(fields, spec)
    prompt, is_path = _prompt(fields, folder)
    own["manual"] = own.pop("invocation", "") == "manual"
    extra = {name: own.pop(_attribute(name)) for name in spec.by_name if _attribute(name) in own.keys() - _AGENT}
    if extra:
        values = without_defaults(extra, spec)
        own["extra"] = Block(kind="agent", fields=values, span=name.span, spans=fields.spans)
    return Agent(name=name.text, span=name.span, prompt=prompt, prompt_is_path=is_path, **_rest(own, fields, spec))


def read_node(name: Token, block: Tree, report: Report) -> AnyNode:
    """`action NAME { … }` and the like; of `orchestrator { … }`, *name* is the keyword."""
    kind = block.keyword
    spec = BLOCKS[kind]
    owner = f"{kind} {name.text!r}" if spec.named else f"the {kind}"
    fields = FieldReader(block.items, owner, report if spec.executed else IdleReport(report))
    return _NODES[kind](name=name.text, span=name.span, **_rest(_read(fields, spec), fields, spec))


_NODES: Mapping[str, type[Orchestrator | Action | Gate | Human | AgentGroup]] = {
    "orchestrator": Orchestrator,
    "action": Action,
    "gate": Gate,
    "human": Human,
    "group": AgentGroup,
}


def _attribute(name: str) -> str:
    return name.replace("-", "_")


def _read(fields: FieldReader, spec: Spec) -> dict[str, Any]:
    """The values of *fields*, by attribute; `kept` has those without an attribute."""
    own = {_attribute(name): value for name, value in read_fields(fields, spec).items()}
    known = spec.by_name
    if "retry" in known:
        own |= _retry(fields, known["retry"])
    if "outputs" in known:
        own["outputs"] = _outputs(fields)
    extension, kept = read_extensions(fields)
    if own.get("on_fail") == "retry":  # the original notation's word for `retry`
        del own["on_fail"]
        kept["on-fail"] = "retry"
    return {**own, "extension": extension, "kept": kept}


def _rest(own: dict[str, Any], fields: FieldReader, spec: Spec) -> dict[str, Any]:
    """*own*, with the remaining fields kept; unknown ones are reported."""
    return {**own, "kept": own["kept"] | fields.kept((), tuple(spec.by_name)), "spans": fields.spans}


def _retry(fields: FieldReader, spec: FieldSpec) -> dict[str, Any]:
    """`retry: 2` or `retry { max: 2 … }`: the number of retries, and the delays between attempts."""
    if not fields.is_block("retry"):
        return {"retry": fields.count("retry")}
    block = fields.inner("retry", "{ max: 2 }")
    assert isinstance(block, Tree)
    owner = f"'retry' of {fields.owner}"
    count = FieldReader(block.items, owner, fields.report).count("max")
    assert spec.kind.block is not None
    retrying = read_block(block, spec.kind.block, fields.report, owner)
    values = retrying.fields or retrying.kept
    return {"retry": 1 if count is None else count, "retrying": retrying if values else NOTHING}


def _prompt(fields: FieldReader, folder: Path | None) -> tuple[str, bool]:
    """The prompt, and whether it is the path of a file; the path of a missing file is a text, with a report."""
    raw = fields.raw("prompt")
    if raw is not None:
        return raw, False
    text = fields.text("prompt")
    is_path, found = read_prompt(text, folder, fields.owner, fields.spans.get("prompt"))
    if found is not None:
        fields.report(found)
    return text, is_path


def _outputs(fields: FieldReader) -> tuple[Output, ...]:
    """`outputs { verdict: approve | revise }`."""
    inner = fields.block("outputs", "outputs { verdict: approve | revise }")
    if inner is None:
        return ()
    items = list(inner.items())
    return tuple(_output(inner, name, key_of(item)) for name, item in items)


def _output(fields: FieldReader, name: str, key: Token) -> Output:
    value = fields.value(name, "a type")
    match value:
        case Token() if value.kind == NAME and value.text in OUTPUT_TYPES:
            return Output(name=name, type=OUTPUT_TYPES[value.text], span=key.span)
        case Token():
            return Output(name=name, type="enum", values=(scalar(value),), span=key.span)
        case WordsNode() if (of := _list_of(value)) is not None:
            if of not in OUTPUT_TYPES:
                fields.wrong(name, value, of, "write list of text, number, integer, boolean or any")
                of = "any"
            return Output(name=name, type=f"list of {OUTPUT_TYPES[of]}" if of != "any" else "list", span=key.span)
        case WordsNode() if members := _alternatives(value):
            if len({(type(member), member) for member in members}) < len(members):
                fields.wrong(name, value, "", "it lists a value twice")
            return Output(name=name, type="enum", values=members, span=key.span)
        case None:
            return Output(name=name, type="any", span=key.span)
    fields.wrong(name, value, "", "write text, number, integer, boolean, or its values: approve | revise")
    return Output(name=name, type="any", span=key.span)


def _list_of(value: WordsNode) -> str | None:
    """The type of the items in `list of text`; None if the words have another form."""
    words = [word.text for word in value.words]
    return words[2] if len(words) == 3 and words[:2] == ["list", "of"] else None


def _alternatives(value: WordsNode) -> tuple[Scalar, ...]:
    """The members of `a | b | c`; empty if the words have another form."""
    members, signs = value.words[::2], value.words[1::2]
    well_formed = len(members) == len(signs) + 1 and all(sign.kind == "|" for sign in signs)
    if not well_formed or any(member.kind in ("|", "?", "/") for member in members):
        return ()
    return tuple(scalar(member) for member in members)


def read_extensions(fields: FieldReader) -> tuple[dict[str, Any], dict[str, Any]]:
    """`extensions { coterie { … } other { … } }`: the values of coterie, and those of other systems.

    The span of each key of coterie is recorded as `extension.KEY`. Its durations are seconds, except in texts.
    """
    inner = fields.block("extensions", "extensions { coterie { … } }")
    if inner is None:
        return {}, {}
    own = inner.block("coterie", "coterie { backend: command }")
    extension: dict[str, Any] = {}
    if own is not None:
        for name, item in list(own.items()):
            value = getattr(item, "value", None)
            fields.spans[f"extension.{name}"] = key_of(item).span if value is None else span_of(value)
            is_text = name in BY_KEY and BY_KEY[name].kind in TEXTUAL
            extension[name] = own.plain(name, text_of if is_text else timed)
    others = inner.rest()
    return extension, {"extensions": others} if others else {}
