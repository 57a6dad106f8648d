"""Build flows in Python: `flow` returns a `Topology`, which is checked, run, killed and resumed like one of a file.

team = flow("note", [writer, reviewer], [
    writer >> reviewer,
    (reviewer >> writer).when(reviewer.verdict == "revise").max(2),
])
outcome = await coterie.run(team, "Why we drink tea")
"""

import warnings
from collections.abc import Container, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar, overload

from msgspec.structs import replace

from coterie.base.diagnostics import LIKELY, did_you_mean
from coterie.errors import TopologyError, UsageError
from coterie.flows.agents import Filling, FlowStep, shorten
from coterie.flows.arrows import ArrowEnd, Arrows
from coterie.team.topology.checks import check
from coterie.team.topology.composition import Interface
from coterie.team.topology.model import Agent, AnyNode, ArrowGroup, Each, Flow, Gate, Human, Output, Topology
from coterie.team.topology.typed.fits import beyond_json, misfit, named
from coterie.team.topology.typed.flow import TypedFlow
from coterie.team.topology.typed.functions import PROMPT, QUESTION, TASK, is_context, singular
from coterie.team.topology.typed.values import RESULT, fields_of, is_text, outputs_of

T = TypeVar("T")
_SINGLE: dict[str, frozenset[Any]] = {
    "text": frozenset({str}),
    "integer": frozenset({int, float}),
    "number": frozenset({float}),
    "boolean": frozenset({bool}),
}
"""The types of Python that fit an output of one of the notation's types."""
_TYPES = {"text": str, "integer": int, "number": float, "boolean": bool}


@overload
def flow(
    name: str,
    agents: Sequence[ArrowEnd],
    arrows: "Sequence[Arrows | ArrowEnd]" = (),
    /,
    *,
    result: Filling[T],
    description: str = "",
) -> TypedFlow[T]: ...
@overload
def flow(
    name: str,
    agents: Sequence[ArrowEnd],
    arrows: "Sequence[Arrows | ArrowEnd]" = (),
    /,
    *,
    result: list[Filling[T]],
    description: str = "",
) -> TypedFlow[list[T | None]]: ...
@overload
def flow(
    name: str,
    agents: Sequence[ArrowEnd],
    arrows: "Sequence[Arrows | ArrowEnd]" = (),
    /,
    *,
    description: str = "",
    folder: str | Path = "",
) -> Topology: ...
def flow(
    name: str,
    agents: Sequence[ArrowEnd],
    arrows: "Sequence[Arrows | ArrowEnd]" = (),
    /,
    *,
    result: Filling[Any] | list[Filling[Any]] | None = None,
    description: str = "",
    folder: str | Path = "",
) -> Topology:
    """Build a team whose arrows say who works next.

    Args:
        agents: Its nodes: what `agent`, `human`, `gate` and `action` return.
        arrows: `a >> b`, `a >> [b, c] >> d`, `(b >> a).when(b.verdict == "revise").max(2)`; a node alone has no arrows.
            Without any, all agents start at once.
        result: The agent whose latest answer is the result of a run, with its type; by default the result is that of
            all nodes where the flow ended. Of an agent that `each` maps write `[reader]`: the result is the list of
            its answers, in the order of the items, with None where an item has none.
        folder: Where it finds files and `{here}` is; by default where its functions are imported from.

    Raises:
        TopologyError: If the team cannot run; it carries all faults, as for a file. Its warnings are Python warnings.
        UsageError: If an argument is invalid, or a parameter of a function is given by no agent.
    """
    for what, text, kinds in (("name", name, str), ("description", description, str), ("folder", folder, str | Path)):
        if not isinstance(text, kinds):
            raise UsageError(f"the {what} of a flow is a text, not {shorten(text)}")
    is_list = isinstance(result, list) and len(result) == 1
    result = result[0] if isinstance(result, list) and is_list else result
    if result is not None and not isinstance(result, Filling):
        raise UsageError(f"the result of a flow is one of its agents, result=writer, not {shorten(result)}")
    members = _listed("agents", agents, (Filling, FlowStep), "what agent(…), human(…), gate(…) or action(…) returned")
    statements = _listed("arrows", arrows, (Arrows, ArrowEnd), "arrows, a >> b")
    for member in members:
        if not member.flow_name:
            raise UsageError(f'an agent of a flow has a name: agent("writer", …), not {shorten(member)}')
    known = {member.flow_name for member in members}
    mentioned = [node for one in statements for node in (one.nodes() if isinstance(one, Arrows) else (one,))]
    for node in [*mentioned, *([result] if result is not None else [])]:
        if node.flow_name not in known:
            hint = did_you_mean(node.flow_name, known) or "add it to the list of agents"
            mentioned_name = node.flow_name or "an agent without a name"
            raise UsageError(f"the flow mentions {mentioned_name}, which is not among the agents; {hint}")
    groups: tuple[ArrowGroup, ...] = ()
    each: tuple[Each, ...] = ()
    for one in statements:
        if isinstance(one, Arrows):
            each += tuple(one.maps(len(groups)))
            groups += tuple(one.groups())
    items = {one.node: ("item", (singular if one.by is None else str)(_word(one.field))) for one in each}
    if result is not None and is_list != (result.flow_name in items):
        exit = result.flow_name
        why = "works once" if is_list else "works on each item of a list, and gives a list"
        raise UsageError(f"{exit} {why}: write result={exit if is_list else f'[{exit}]'}")
    if result is not None and is_list and result.definition.result is None:
        raise UsageError(
            f"the answers of {result.flow_name} have no type of Python: give it outputs=TYPE, or leave out "
            f"result=[{result.flow_name}]"
        )
    if result is not None and is_list and fields_of(result.definition.result) is not None:
        raise UsageError(
            f"the result of this flow is one for each item, and has fields: leave out result=[{result.flow_name}], and "
            "read its outputs, or lead an arrow to an agent that sums them up"
        )
    untyped: list[str] = []
    readers = {one.flow_name: _reads(one, members, items, untyped) for one in members if isinstance(one, Filling)}
    for text in untyped:
        warnings.warn(text, stacklevel=2)
    nodes: list[AnyNode] = []
    for member in members:
        own: list[AnyNode] = list(member.definition.nodes()) if isinstance(member, Filling) else [member.definition]
        if (reads := readers.get(member.flow_name)) and isinstance(own[0], Agent):
            own[0] = replace(own[0], reads=tuple(dict.fromkeys((*own[0].reads, *reads))))
        nodes += own
    mentions = [node.flow_name for node in mentioned] or [
        one.flow_name for one in members if not isinstance(one.definition, Gate)
    ]
    words: dict[str, Any] = {
        "name": name,
        "patterns": _tags(nodes, groups, mentions),
        "nodes": tuple(nodes),
        "flow": Flow(groups=groups, mentions=tuple(dict.fromkeys(mentions)), each=each),
        "meta": {"description": description} if description else {},
        "folder": next(
            (one.definition.folder for one in members if isinstance(one, Filling) and one.definition.folder), ""
        ),
    }
    silent = () if statements else ("unconnected-parts",)
    if result is None:
        return checked(Topology(**words), 1, silent)
    typed: Any = result.definition.result
    if is_list:
        typed = list[typed | None]  # an item may have no result
    return checked(TypedFlow(**words, interface=Interface(exit=result.flow_name), result=typed), 1, silent)


Team = TypeVar("Team", bound=Topology)


def checked(
    team: Team, callers: int, silent: Container[str] = (), hints: Mapping[str, str] = MappingProxyType({})
) -> Team:
    """*team*, which was built in Python; its warnings become Python warnings.

    Args:
        callers: The functions between this one and the user's.
        silent: The codes of warnings that say what the caller knows.
        hints: Hints in words of Python, by those for files.

    Raises:
        TopologyError: If it is invalid.
    """
    found = [replace(one, hint=hints.get(one.hint, one.hint)) for one in check(team)]
    if wrong := tuple(one for one in found if one.is_error):
        from coterie.execution.runs.python_hints import for_python

        raise TopologyError(for_python(wrong, built=True))
    for one in found:
        if one.code in silent:
            continue
        hint = f"; {one.hint}" if one.hint else ""
        warnings.warn(f"{team.name}: {one.message}{hint} [{one.code}]", stacklevel=callers + 2)
    return team


def _listed(what: str, given: object, kinds: tuple[type, ...], wanted: str) -> list[Any]:
    if not isinstance(given, list | tuple):
        raise UsageError(f"the {what} of a flow are a list of {wanted}, not {shorten(given)}")
    for one in given:
        if callable(one) and not isinstance(one, kinds):
            function = getattr(one, "__name__", "f")
            raise UsageError(f"the {what} of a flow are {wanted}, not a function: write {function} = agent({function})")
        if not isinstance(one, kinds):
            raise UsageError(f"the {what} of a flow are {wanted}, not {shorten(one)}")
    return list(given)


def _tags(nodes: Iterable[AnyNode], groups: Iterable[ArrowGroup], mentions: Sequence[str]) -> tuple[str, ...]:
    """The patterns of the header, as a file would list them."""
    forward = [group for group in groups if group.when is None]
    sources = [group.source for group in forward]
    several = any(len(group.targets) > 1 for group in groups) or len(set(sources)) < len(sources)
    tags = ["pipeline"]
    if several:
        tags.append("fan-out")
    if any(isinstance(node, Human) for node in nodes):
        tags.append("human-gate")
    return tuple(tags)


def _reads(
    reader: Filling[Any], members: Sequence[Any], items: Mapping[str, tuple[str, str]], untyped: list[str]
) -> tuple[str, ...]:
    """The agents whose outputs the function of *reader* reads; a mapped one gets its item by one of the names *items*.

    What it reads without a type, and would get as JSON, is added to *untyped*, in words.

    Raises:
        UsageError: If two agents give an output that it reads, or it is read with another type than it is given.
    """
    if reader.definition.signature is None:
        return ()
    signature = reader.definition.signature
    givers = [one for one in members if one is not reader]
    by_name = {_word(one.flow_name): one for one in givers}
    outputs: dict[str, list[Any]] = {}
    for one in givers:
        for output in _outputs(one):
            outputs.setdefault(_word(output.name), []).append(one)
    found = []
    for name, type_ in signature.parameters.items():
        several = outputs.get(name, [])
        if is_context(type_) or name in items.get(reader.flow_name, ()):
            continue
        if name == PROMPT:
            if giver := next(iter([*several, *filter(None, [by_name.get(name)])]), None):
                other = "another name" if giver.flow_name == PROMPT else f"the parameter {_word(giver.flow_name)}"
                raise UsageError(
                    f"{reader.flow_name}() reads 'prompt', which is its own question, and {giver.flow_name} gives "
                    f"'prompt' too: to read that, use {other}"
                )
        elif (giver := by_name.get(name)) is not None:
            if giver.flow_name not in items:  # of a mapped agent, all answers are read
                _check_fits(reader, name, type_, giver, untyped)
            elif _gives_text(giver) and not is_text(type_):
                raise UsageError(
                    f"{reader.flow_name}() reads {name!r} as {named(type_)}, and {giver.flow_name} gives one text for "
                    f"all items: read it as a text, or give {giver.flow_name} outputs={{…}}"
                )
            found.append(giver.flow_name)
        elif len(several) > 1:
            names = ", ".join(one.flow_name for one in several)
            raise UsageError(
                f"{reader.flow_name}() reads {name!r}, which several agents give: {names}; name the parameter after "
                f"one of them, {_word(several[0].flow_name)}, and read its {name}"
            )
        elif several:
            if several[0].flow_name not in items:
                _check_type(reader, name, type_, several[0], untyped)
            found.append(several[0].flow_name)
        elif name not in (TASK, QUESTION) and name not in signature.optional:
            known = (*by_name, *outputs, PROMPT)
            if hint := did_you_mean(name, known, LIKELY):
                raise UsageError(f"{reader.flow_name}() reads {name!r}, which no agent gives; {hint}")
    return tuple(found)


def _outputs(member: Any) -> Sequence[Output]:
    """The outputs of *member*; those of a team with a result are the fields of its type."""
    outputs = _node(member).outputs
    if not outputs and isinstance(member, Filling) and member.definition.result not in (None, Any):
        return outputs_of(member.definition.result, member.flow_name).outputs
    return outputs


def _gives_text(member: Any) -> bool:
    """Whether all that *member* gives is a text."""
    node, result = _node(member), getattr(member.definition, "result", None)
    return not node.outputs and result is None and getattr(node, "topology", None) is None


def _note_untyped(reader: Filling[Any], name: str, type_: Any, gives: Any, untyped: list[str]) -> None:
    """Note that *reader* reads *gives* without a type, unless it is the same as JSON."""
    if type_ in (Any, object) and gives not in (None, Any) and (lost := beyond_json(gives)) is not None:
        untyped.append(
            f"{reader.flow_name}() reads {name!r} without a type, so that {named(lost)} arrives as JSON: "
            f"write {name}: {named(gives)}, or dict or str for its JSON"
        )


def _check_fits(reader: Filling[Any], name: str, type_: Any, giver: Any, untyped: list[str]) -> None:
    """Check that the whole answer of *giver* can be read as *type_*; as a text, any can."""
    gives = giver.definition.result if isinstance(giver, Filling) else None
    _note_untyped(reader, name, type_, gives, untyped)
    if gives is None or (fields_of(gives) is None and gives in (Any, object)) or is_text(type_):
        return
    if why := misfit(gives, type_):
        raise UsageError(
            f"{reader.flow_name}() reads {name!r} as {named(type_)}, and {giver.flow_name} gives it: {why}"
        )


def _check_type(reader: Filling[Any], name: str, type_: Any, giver: Any, untyped: list[str]) -> None:
    output = next(one for one in _outputs(giver) if _word(one.name) == name)
    singles = _SINGLE.get(output.type)
    if singles is not None and type_ in (str, int, float, bool) and type_ not in singles:
        raise UsageError(
            f"{reader.flow_name}() reads {name!r} as {type_.__name__}, and {giver.flow_name} gives it as {output.type}"
        )
    gives = giver.definition.result if isinstance(giver, Filling) else None
    each = (fields_of(gives) or {RESULT: gives}).get(output.name, Any) if gives is not None else _TYPES.get(output.type)
    _note_untyped(reader, name, type_, each, untyped)
    if each is not None and (why := misfit(each, type_)):
        raise UsageError(
            f"{reader.flow_name}() reads {name!r} as {named(type_)}, and {giver.flow_name} gives it: {why}"
        )


def _node(member: Filling[Any] | FlowStep) -> AnyNode:
    node: AnyNode = member.definition.node if isinstance(member, Filling) else member.definition
    return node


def _word(name: str) -> str:
    """*name* as a parameter of a function has it."""
    return name.replace("-", "_")
