"""Build flows in Python: `flow` returns a `Topology`, which is checked, run, killed and resumed like one of a file.

team = flow("note", [writer, reviewer], [
    writer >> reviewer,
    (reviewer >> writer).when(reviewer.verdict == "revise").max(2),
])
outcome = await coterie.run(team, "Why we drink tea")
"""

import warnings
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar, overload

from coterie.diagnostics import did_you_mean
from coterie.errors import TopologyError, UsageError
from coterie.flows.agents import Filling, FlowStep, shorten
from coterie.flows.arrows import ArrowEnd, Arrows
from coterie.topology.checks import check
from coterie.topology.composition import Interface
from coterie.topology.model import Agent, AnyNode, ArrowGroup, Flow, Gate, Human, Topology
from coterie.topology.typed.flow import TypedFlow
from coterie.topology.typed.functions import PROMPT

T = TypeVar("T")
_SINGLE: dict[str, frozenset[Any]] = {
    "text": frozenset({str}),
    "integer": frozenset({int, float}),
    "number": frozenset({float}),
    "boolean": frozenset({bool}),
}
"""The types of Python that fit an output of one of the notation's types."""


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
    description: str = "",
    folder: str | Path = "",
) -> Topology: ...
def flow(
    name: str,
    agents: Sequence[ArrowEnd],
    arrows: "Sequence[Arrows | ArrowEnd]" = (),
    /,
    *,
    result: Filling[Any] | None = None,
    description: str = "",
    folder: str | Path = "",
) -> Topology:
    """Build a team whose arrows say who works next.

    Args:
        agents: Its nodes: what `agent`, `human`, `gate` and `action` return.
        arrows: `a >> b`, `a >> [b, c] >> d`, `(b >> a).when(b.verdict == "revise").max(2)`; a node alone has no arrows.
            Without any, all agents start at once.
        result: The agent whose latest answer is the result of a run, with its type; by default the result is that of
            all nodes where the flow ended.
        folder: Where it finds files and `{here}` is; by default where its functions are imported from.

    Raises:
        TopologyError: If the team cannot run; it carries all faults, as for a file. Its warnings are Python warnings.
        UsageError: If an argument is invalid, or a parameter of a function is given by no agent.
    """
    for what, text, kinds in (("name", name, str), ("description", description, str), ("folder", folder, str | Path)):
        if not isinstance(text, kinds):
            raise UsageError(f"the {what} of a flow is a text, not {shorten(text)}")
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
    readers = {one.flow_name: reads for one in members if isinstance(one, Filling) for reads in [_reads(one, members)]}
    nodes: list[AnyNode] = []
    for member in members:
        own: list[AnyNode] = list(member.definition.nodes()) if isinstance(member, Filling) else [member.definition]
        if (reads := readers.get(member.flow_name)) and isinstance(own[0], Agent):
            own[0] = replace(own[0], reads=tuple(dict.fromkeys((*own[0].reads, *reads))))
        nodes += own
    groups = tuple(group for one in statements if isinstance(one, Arrows) for group in one.groups())
    mentions = [node.flow_name for node in mentioned] or [
        one.flow_name for one in members if not isinstance(one.definition, Gate)
    ]
    words: dict[str, Any] = {
        "name": name,
        "patterns": _tags(nodes, groups, mentions),
        "nodes": tuple(nodes),
        "flow": Flow(groups=groups, mentions=tuple(dict.fromkeys(mentions))),
        "meta": {"description": description} if description else {},
        "folder": next(
            (one.definition.folder for one in members if isinstance(one, Filling) and one.definition.folder), ""
        ),
    }
    silent = () if statements else ("unconnected-parts",)
    if result is None:
        return checked(Topology(**words), 1, silent)
    return checked(
        TypedFlow(**words, interface=Interface(exit=result.flow_name), result=result.definition.result), 1, silent
    )


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
        from coterie.runs.python_hints import for_python

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


def _reads(reader: Filling[Any], members: Sequence[Any]) -> tuple[str, ...]:
    """The agents whose outputs the function of *reader* reads.

    Raises:
        UsageError: If two agents give an output that it reads, or it is read with another type than it is given.
    """
    if reader.definition.signature is None:
        return ()
    givers = [one for one in members if one is not reader and isinstance(one, Filling | FlowStep)]
    by_name = {_word(one.flow_name): one for one in givers}
    outputs: dict[str, list[Any]] = {}
    for one in givers:
        for output in _node(one).outputs:
            outputs.setdefault(_word(output.name), []).append(one)
    found = []
    for name, type_ in reader.definition.signature.parameters.items():
        if (giver := by_name.get(name)) is not None:
            found.append(giver.flow_name)
        elif len(several := outputs.get(name, [])) > 1:
            names = ", ".join(one.flow_name for one in several)
            raise UsageError(
                f"{reader.flow_name}() reads {name!r}, which several agents give: {names}; name the parameter after "
                f"one of them, {_word(several[0].flow_name)}, and read its {name}"
            )
        elif several:
            _check_type(reader, name, type_, several[0])
            found.append(several[0].flow_name)
        elif name != PROMPT and name not in reader.definition.signature.optional:
            known = (*by_name, *outputs, PROMPT)
            if hint := did_you_mean(name, known):
                raise UsageError(f"{reader.flow_name}() reads {name!r}, which no agent gives; {hint}")
    return tuple(found)


def _check_type(reader: Filling[Any], name: str, type_: Any, giver: Any) -> None:
    output = next(one for one in _node(giver).outputs if _word(one.name) == name)
    singles = _SINGLE.get(output.type)
    if singles is not None and type_ in (str, int, float, bool) and type_ not in singles:
        raise UsageError(
            f"{reader.flow_name}() reads {name!r} as {type_.__name__}, and {giver.flow_name} gives it as {output.type}"
        )


def _node(member: Filling[Any] | FlowStep) -> AnyNode:
    return member.definition.node if isinstance(member, Filling) else member.definition


def _word(name: str) -> str:
    """*name* as a parameter of a function has it."""
    return name.replace("-", "_")
