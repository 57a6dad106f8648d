"""Read the blocks that declare nodes: agents, the orchestrator, actions, gates, humans, groups."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from coterie.diagnostics import warning
from coterie.formats.at.fields import Fields, Report, key_of
from coterie.formats.at.lexer import NAME, Token
from coterie.formats.at.tree import Block, Words, span_of
from coterie.formats.at.values import scalar, text_of
from coterie.topology.conditions import Scalar
from coterie.topology.model import Action, Agent, AgentGroup, AnyNode, Gate, Human, Orchestrator, Output

_ON_FAIL = ("halt", "skip", "continue")
_TYPES = {
    "text": "text",
    "string": "text",
    "number": "number",
    "integer": "integer",
    "boolean": "boolean",
    "any": "any",
}
_NODE = ("description", "timeout", "retry", "on-fail", "outputs", "phase", "extensions")
_AGENT = (*_NODE, "model", "prompt", "role", "tools", "reads", "writes", "invocation", "join")
# fmt: off
_AGENT_KEPT = frozenset({
    "background", "behavior", "circuit-breaker", "compensates", "consumes", "disallowed-tools", "execution",
    "fallback-chain", "hooks", "input-schema", "isolation", "log-level", "max-tokens", "max-turns",
    "mcp-servers", "memory", "output-format", "output-schema", "permissions", "produces", "rate-limit",
    "retrieval", "sandbox", "scale", "seed", "skills", "skip", "stop", "temperature", "thinking",
    "thinking-budget", "top-k", "top-p", "variants",
})
# fmt: on
_ORCHESTRATOR = (*_NODE, "model", "generates", "handles")
_ACTION = (*_NODE, "kind", "source", "commands", "lang", "join")
_GATE = ("description", "timeout", "retry", "on-fail", "extensions", "after", "before", "run", "checks", "behavior")
_HUMAN = ("description", "timeout", "on-timeout", "outputs", "phase", "extensions")
_GROUP = ("description", "timeout", "phase", "extensions", "members")


def read_agent(name: Token, block: Block, report: Report, folder: Path | None) -> Agent:
    """`agent NAME { … }`."""
    fields = Fields(block.items, f"agent {name.text!r}", report)
    common = _common(fields)
    prompt, is_path = _prompt(fields, folder)
    return Agent(
        name=name.text,
        span=name.span,
        model=fields.word("model"),
        prompt=prompt,
        prompt_is_path=is_path,
        role=fields.word("role"),
        tools=fields.words("tools"),
        reads=fields.words("reads") or (),
        writes=fields.words("writes") or (),
        manual=fields.choice("invocation", ("auto", "manual"), "auto") == "manual",
        kept=_join(fields) | common.pop("kept") | fields.kept(_AGENT_KEPT, _AGENT),
        spans=fields.spans,
        **common,
    )


def read_orchestrator(name: Token, block: Block, report: Report) -> Orchestrator:
    """`orchestrator { … }`; *name* is the keyword."""
    fields = Fields(block.items, "the orchestrator", report)
    common = _common(fields)
    return Orchestrator(
        name="orchestrator",
        span=name.span,
        model=fields.word("model"),
        generates=fields.text("generates"),
        handles=fields.words("handles") or (),
        kept=common.pop("kept") | fields.kept(frozenset({"delegation"}), _ORCHESTRATOR),
        spans=fields.spans,
        **common,
    )


def read_action(name: Token, block: Block, report: Report) -> Action:
    """`action NAME { … }`."""
    fields = Fields(block.items, f"action {name.text!r}", report)
    common = _common(fields)
    return Action(
        name=name.text,
        span=name.span,
        kind=fields.choice("kind", ("external", "git", "decision", "inline", "report")),
        source=fields.text("source"),
        commands=fields.words("commands") or (),
        lang=fields.choice("lang", ("bash", "python", "node", "auto")),
        kept=_join(fields) | common.pop("kept") | fields.kept(frozenset(), _ACTION),
        spans=fields.spans,
        **common,
    )


def read_gate(name: Token, block: Block, report: Report) -> Gate:
    """`gate NAME { … }`."""
    fields = Fields(block.items, f"gate {name.text!r}", report)
    retry, kept = _retry(fields)
    extension, others = read_extensions(fields)
    return Gate(
        name=name.text,
        span=name.span,
        description=fields.text("description"),
        timeout=fields.seconds("timeout"),
        retry=retry,
        on_fail=fields.choice("on-fail", ("halt", "bounce-back")) or None,
        after=fields.word("after"),
        before=fields.word("before"),
        run=fields.text("run"),
        checks=fields.words("checks") or (),
        behavior=fields.choice("behavior", ("blocking", "advisory"), "blocking"),
        extension=extension,
        kept=kept | others | fields.kept(frozenset(), _GATE),
        spans=fields.spans,
    )


def read_human(name: Token, block: Block, report: Report) -> Human:
    """`human NAME { … }`."""
    fields = Fields(block.items, f"human {name.text!r}", report)
    extension, others = read_extensions(fields)
    return Human(
        name=name.text,
        span=name.span,
        description=fields.text("description"),
        timeout=fields.seconds("timeout"),
        on_timeout=fields.policy("on-timeout", ("halt", "skip")) or "halt",
        outputs=_outputs(fields),
        phase=fields.number("phase"),
        extension=extension,
        kept=others | fields.kept(frozenset(), _HUMAN),
        spans=fields.spans,
    )


def read_group(name: Token, block: Block, report: Report) -> AgentGroup:
    """`group NAME { … }`."""
    fields = Fields(block.items, f"group {name.text!r}", report)
    extension, others = read_extensions(fields)
    return AgentGroup(
        name=name.text,
        span=name.span,
        description=fields.text("description"),
        timeout=fields.seconds("timeout"),
        phase=fields.number("phase"),
        members=fields.words("members") or (),
        extension=extension,
        kept=others | fields.kept(frozenset({"speaker-selection", "max-rounds", "termination"}), _GROUP),
        spans=fields.spans,
    )


NAMED: Mapping[str, Callable[[Token, Block, Report], AnyNode]] = {
    "action": read_action,
    "gate": read_gate,
    "human": read_human,
    "group": read_group,
}
"""How blocks with a name are read; an agent's prompt needs the folder of the file as well."""


def _common(fields: Fields) -> dict[str, Any]:
    """What agents, actions and the orchestrator share, as arguments; `kept` holds the rest of what was read for it."""
    retry, kept = _retry(fields)
    extension, others = read_extensions(fields)
    on_fail = fields.policy("on-fail", _ON_FAIL, also="retry")
    if on_fail == "retry":
        on_fail, kept = None, kept | {"on-fail": "retry"}
    return {
        "description": fields.text("description"),
        "timeout": fields.seconds("timeout"),
        "retry": retry,
        "on_fail": on_fail,
        "outputs": _outputs(fields),
        "phase": fields.number("phase"),
        "extension": extension,
        "kept": kept | others,
    }


def _retry(fields: Fields) -> tuple[int | None, dict[str, Any]]:
    """`retry: 2` or `retry { max: 2 … }`: the count, and what else the block says."""
    if not fields.is_block("retry"):
        return fields.count("retry"), {}
    inner = fields.block("retry", "retry: 2")
    assert inner is not None
    count = inner.count("max")
    kept = inner.kept(frozenset({"backoff", "interval", "max-interval", "jitter", "non-retryable"}), ("max",))
    return 1 if count is None else count, {"retry": kept} if kept else {}


def _prompt(fields: Fields, folder: Path | None) -> tuple[str, bool]:
    """The prompt, and whether it is the path of a file; a path that leads nowhere is a text, and reported."""
    raw = fields.raw("prompt")
    if raw is not None:
        return raw, False
    text = fields.text("prompt")
    if folder is None or not text.endswith((".md", ".txt")) or any(letter.isspace() for letter in text):
        return text, False
    if _is_file(folder, text):
        return text, True
    message = f"the prompt of {fields.owner} names no file: {text!r}"
    report_hint = "paths begin at the folder of this file; as it stands, the path itself is the prompt"
    fields.report(warning("no-prompt-file", message, fields.spans.get("prompt"), report_hint))
    return text, False


def _is_file(folder: Path, path: str) -> bool:
    try:
        return (folder / path).is_file()
    except (OSError, ValueError):  # too long, or not a path at all
        return False


def _join(fields: Fields) -> dict[str, Any]:
    """`join`: checked, kept, not executed."""
    value = fields.value("join", "one word")
    if value is None:
        return {}
    text = text_of(value)
    if text not in ("all", "any", "all-done", "none-failed") and not _is_quorum(text):
        fields.wrong("join", value, "", "it is one of all, any, all-done, none-failed, N-of-M")
    return {"join": text}


def _is_quorum(text: str) -> bool:
    n, of, m = text.partition("-of-")
    return bool(of) and n.isdecimal() and m.isdecimal() and 1 <= int(n[:9]) <= int(m[:9])


def _outputs(fields: Fields) -> tuple[Output, ...]:
    """`outputs { verdict: approve | revise }`."""
    inner = fields.block("outputs", "outputs { verdict: approve | revise }")
    if inner is None:
        return ()
    items = list(inner.items())
    return tuple(_output(inner, name, key_of(item)) for name, item in items)


def _output(fields: Fields, name: str, key: Token) -> Output:
    value = fields.value(name, "a type")
    match value:
        case Token() if value.kind == NAME and value.text in _TYPES:
            return Output(name=name, type=_TYPES[value.text], span=key.span)
        case Token():
            return Output(name=name, type="enum", values=(scalar(value),), span=key.span)
        case Words() if members := _alternatives(value):
            if len({(type(member), member) for member in members}) < len(members):
                fields.wrong(name, value, "", "one of its values stands there twice")
            return Output(name=name, type="enum", values=members, span=key.span)
        case None:
            return Output(name=name, type="any", span=key.span)
    fields.wrong(name, value, "", "write text, number, integer, boolean, or its values: approve | revise")
    return Output(name=name, type="any", span=key.span)


def _alternatives(value: Words) -> tuple[Scalar, ...]:
    """The members of `a | b | c`; none when the words are something else."""
    members, signs = value.words[::2], value.words[1::2]
    well_formed = len(members) == len(signs) + 1 and all(sign.kind == "|" for sign in signs)
    if not well_formed or any(member.kind in ("|", "?", "/") for member in members):
        return ()
    return tuple(scalar(member) for member in members)


def read_extensions(fields: Fields) -> tuple[dict[str, Any], dict[str, Any]]:
    """`extensions { coterie { … } other { … } }`: coterie's own part, and what is kept of the others.

    Where each key of coterie's part stands is remembered as `extension.KEY`. Durations in it are seconds.
    """
    inner = fields.block("extensions", "extensions { coterie { … } }")
    if inner is None:
        return {}, {}
    own = inner.block("coterie", "coterie { backend: command }")
    extension: dict[str, Any] = {}
    if own is not None:
        for name, item in own.items():
            value = getattr(item, "value", None)
            fields.spans[f"extension.{name}"] = key_of(item).span if value is None else span_of(value)
        extension = own.rest(durations=True)
    others = inner.rest()
    return extension, {"extensions": others} if others else {}
