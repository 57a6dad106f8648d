"""Plan a topology and the topologies at its nodes."""

import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from coterie.base.diagnostics import Diagnostic, Span, error, of_part
from coterie.errors import TopologyError, UsageError
from coterie.team.options.agents import DEFAULT_KEYS, TEAM_KEYS
from coterie.team.options.backends import BACKENDS, backend_hint
from coterie.team.planning import gates
from coterie.team.planning.agents import Setting, asked_of, needed_of, plan_node, tree_plan, with_child
from coterie.team.planning.backend_choice import flag_of_run
from coterie.team.planning.extension import Report, read_extension
from coterie.team.planning.files import find
from coterie.team.planning.maps import share_files
from coterie.team.planning.notes import sentences
from coterie.team.planning.plan import AgentPlan, ChunkedFlowPlan, FlowPlan, MappedFlowPlan, MapPlan, Plan
from coterie.team.planning.safety import not_enforced
from coterie.team.topology.checks import check
from coterie.team.topology.checks.composition import unusable
from coterie.team.topology.checks.facts import Facts, listing, title
from coterie.team.topology.composition import MAX_DEPTH, file_of, missing
from coterie.team.topology.conditions import Condition
from coterie.team.topology.graph import FlowGraph
from coterie.team.topology.loops import bounded
from coterie.team.topology.model import RUN_INPUT, Agent, AgentGroup, AnyNode, Each, Flow, Gate, Import, Topology

if TYPE_CHECKING:
    from coterie.team.planning.loops.resolve import Team

MAX_TOPOLOGIES = 1000
"""Maximum number of topologies in a plan, each counted as often as it is used."""

_PROGRAM = re.compile(r"(.+\.py|[A-Za-z_][\w.]*):[A-Za-z_]\w*")
"""How a program is named: `FILE.py:NAME`, `MODULE:NAME`."""

Read = Callable[[Path], Topology]


def plan(
    topology: Topology, *, backend: str | None = None, folder: Path | None = None, read: Read | None = None
) -> tuple[Plan | None, list[Diagnostic]]:
    """Resolve every default and precedence of *topology*.

    Returns the plan and its diagnostics; no plan if one is an error or the checks fail. Runs nothing, and reads only
    files in *folder*.

    Args:
        backend: The default backend of agents; takes precedence over the topology's.
        folder: The folder of the files it names; default: the folder of the topology's file.
        read: Reads the topology of a node; raises `TopologyError` if it is invalid.
    """
    if topology.loop is not None:
        return _plan_loop(topology, teams_of(Path(topology.file)), backend or "")
    if folder is None and (topology.file or topology.folder):
        folder = Path(topology.file).parent if topology.file else Path(topology.folder)
    chain = (Path(topology.file).resolve() if topology.file else Path(topology.name),)
    job = _Job(backend=backend, read=read or _read)
    found: list[Diagnostic] = []
    if backend is not None and flag_of_run(backend).get("kind") not in BACKENDS:
        found.append(error("unknown-backend", f"unknown backend {backend!r}", hint=backend_hint(backend)))
    found += _not_by_itself(topology)
    made = None
    if not topology.fragment:
        made = job.plan(topology, folder.resolve() if folder is not None else None, chain, found.append)
    found.sort(key=lambda diagnostic: diagnostic.span.offset if diagnostic.span is not None else -1)
    return None if any(diagnostic.is_error for diagnostic in found) else made, found


def plan_or_raise(
    topology: Topology, *, backend: str | None = None, folder: Path | None = None, read: Read | None = None
) -> Plan:
    """The plan of *topology*; see `plan`.

    Raises:
        TopologyError: If it cannot be run.
    """
    made, found = plan(topology, backend=backend, folder=folder, read=read)
    if made is None:
        raise TopologyError(found)
    return made


def as_plan(team: Plan | Topology) -> Plan:
    """*team* if it is a plan, else the plan of that topology.

    Raises:
        TopologyError: If it cannot be run.
        UsageError: If it is neither.
    """
    if not isinstance(team, Plan | Topology):
        raise UsageError(
            f"a team must be a Topology or a Plan, not {type(team).__name__}; coterie.load(path) reads one"
        )
    return team if isinstance(team, Plan) else plan_or_raise(team)


def teams_of(file: Path) -> "Team":
    """Plans the teams that the topology in *file* names."""
    return partial(_Job(backend=None, read=_read, topologies=1).team, chain=(file.resolve(),))


def _plan_loop(topology: Topology, team: "Team", backend: str = "") -> tuple[Plan | None, list[Diagnostic]]:
    from coterie.team.planning.loop import LoopGiven  # imported on demand: only loops have settings
    from coterie.team.planning.loops.resolve import plan_loop

    return plan_loop(topology, given=LoopGiven(backend=backend), team=team)


def _read(path: Path) -> Topology:
    from coterie.team import formats  # local import: reading a journal with plans must not load the readers

    source = formats.read(path)
    if source.topology is None or source.has_errors:
        raise TopologyError([each for each in source.diagnostics if each.is_error], source.text)
    return source.topology


class _Job(Struct):
    """One call of `plan`, over all topologies it reads."""

    backend: str | None
    read: Read
    topologies: int = 0

    def plan(self, topology: Topology, folder: Path | None, chain: tuple[Path, ...], report: Report) -> Plan | None:
        """The plan of *topology*; *chain* holds the files that led to it, its file last."""
        self.topologies += 1
        wrong = [diagnostic for diagnostic in check(topology) if diagnostic.is_error]
        for diagnostic in wrong:
            report(diagnostic)
        if wrong:
            return None
        if topology.loop is not None:
            made, found = _plan_loop(topology, partial(self.team, chain=chain))
            for each in found:
                report(each)
            return made
        if topology.pattern is not None:
            from coterie.team.planning.patterns import plan_pattern  # imported on demand

            setting = _setting(topology, None, folder, self.backend, report)
            return plan_pattern(topology.pattern, setting, lambda node, setting: self._node(node, setting, chain))
        if topology.system is not None:
            from coterie.team.planning.systems import plan_system  # imported on demand

            setting = _setting(topology, None, folder, self.backend, report)
            return plan_system(topology.system, setting, lambda node, setting: self._node(node, setting, chain))
        if topology.flow is None:
            message = f"{topology.name!r} has no flow, so there is nothing to run"
            report(error("no-flow", message, topology.span, "write flow { FIRST -> SECOND }"))
        coordination = _coordination(topology, topology.flow or Flow())
        setting = _setting(topology, coordination, folder, self.backend, report)
        planned = {node.name: self._node(node, setting, chain) for node in topology.nodes}
        agents = {name: agent for name, agent in planned.items() if agent is not None}
        _refuse_groups(topology, report)
        for each in (*not_enforced(topology, planned), *share_files(topology, planned)):
            report(each)
        return Plan(
            name=topology.name,
            agents=_needed(agents, coordination),
            coordination=coordination,
            folder=str(folder) if folder is not None else "",
            notes=sentences(topology),
            worktree=tree_plan(setting.default),
        )

    def _node(self, node: AnyNode, setting: Setting, chain: tuple[Path, ...]) -> AgentPlan | None:
        """The plan of *node* and of its team; None for a group."""
        if node.topology is not None:
            node = replace(node, extension={**node.extension, "topology": node.topology.name})
        planned = plan_node(node, setting)
        if planned is None:
            return None
        agent, file = planned
        child = None
        if node.topology is not None:
            child = self._written(node, node.topology, setting, chain)
        elif file:
            child = self._child(node, file, setting.folder, chain, setting.report)
        return with_child(agent, child) if child is not None else agent

    def _written(self, node: AnyNode, team: Topology, setting: Setting, chain: tuple[Path, ...]) -> Plan | None:
        """The plan of the inline *team* at *node*; None, with a report, if it is invalid."""
        report, name = setting.report, team.file or team.name
        if wrong := self._too_much(chain, node.name, node.span) or unusable(team, name, node.span):
            report(wrong)
            return None
        folder = Path(team.file).parent.resolve() if team.file else setting.folder
        here = team.file == setting.topology.file
        of_team = report if here else lambda found: report(_of_child(found, name, node.span))
        return self.plan(team, folder, (*chain, Path(node.name)), of_team)

    def _child(
        self, node: AnyNode, file: str, folder: Path | None, chain: tuple[Path, ...], report: Report
    ) -> Plan | None:
        """The plan of the topology in *file*, which runs at *node*; None, with a report, if it is invalid."""
        span = node.spans.get("extension.topology") or node.spans.get("extension.pattern") or node.span
        imported = node.imported if isinstance(node, Agent) else None
        if imported is not None and not imported.is_file:
            message = f"{file!r} is in a registry, but nothing is downloaded"
            report(error("registry-import", message, span, "copy its file beside this one and import that"))
            return None
        return self.team(title(node), file, folder, span, report, chain=chain, imported=imported)

    def team(
        self,
        owner: str,
        file: str,
        folder: Path | None,
        span: Span | None,
        report: Report,
        *,
        chain: tuple[Path, ...],
        imported: Import | None = None,
    ) -> Plan | None:
        """The plan of the topology in *file*, which *owner* names at *span*; None, with a report, if it is invalid.

        Args:
            chain: The files that led to it.
            imported: The topology, if already read.
        """
        if _PROGRAM.fullmatch(file):
            message = f"{owner} names the program {file!r}, and reading a file runs no code"
            report(error("no-such-file", message, span, "write the flow in Python: flow(NAME, [agent(NAME, PROGRAM)])"))
            return None
        path = find(folder, file, owner, span, report)
        if path is None:
            return None
        if path in chain:
            steps = " -> ".join(each.name for each in (*chain, path))
            report(error("topology-cycle", f"a topology cannot contain itself: {steps}", span))
            return None
        if wrong := self._too_much(chain, path.name, span):
            report(wrong)
            return None
        topology = imported.topology if imported is not None else None
        if topology is None:
            try:
                topology = self.read(path)
            except TopologyError as failure:
                for found in failure.diagnostics:
                    report(_of_child(found, file if found.file in ("", str(path)) else found.file, span))
                return None
        if wrong := unusable(topology, file, span):
            report(wrong)
            return None
        included = topology.included
        return self.plan(
            topology,
            path.parent,
            (*chain, path),
            lambda found: report(_of_child(found, file_of(found.span, included, file), span)),
        )

    def _too_much(self, chain: tuple[Path, ...], name: str, span: Span | None) -> Diagnostic | None:
        """The error if planning *name* below *chain* would nest too deeply or exceed the number of topologies."""
        if len(chain) > MAX_DEPTH:
            steps = " -> ".join([*(each.name for each in chain), name])
            message = f"topologies are nested more than {MAX_DEPTH} deep: {steps}"
            return error("nested-too-deep", message, span)
        if self.topologies >= MAX_TOPOLOGIES:
            return error("too-many-topologies", f"one plan holds at most {MAX_TOPOLOGIES} topologies", span)
        return None


def _not_by_itself(topology: Topology) -> list[Diagnostic]:
    """Why a valid topology cannot run: it is a fragment, or needs values."""
    if topology.fragment:
        hint = "include it in a topology, and run that"
        return [error("fragment", f"{topology.name!r} is a fragment, which cannot run by itself", topology.span, hint)]
    names = list(missing(topology.params))
    if not names:
        return []
    span = next(param.span for param in topology.params if param.value is None)
    message = f"{topology.name!r} needs a value for {listing(names)}"
    return [error("param-not-set", message, span, f"run it with --set {names[0]}=…")]


def _of_child(found: Diagnostic, file: str, span: Span | None) -> Diagnostic:
    """Report *found*, from the topology of *file*, where that is named, unless the message already names the files."""
    if found.code in ("topology-cycle", "nested-too-deep", "too-many-topologies"):
        return replace(found, span=span, fix=None, file="", text="")
    return of_part(found, file, span)


def _coordination(topology: Topology, flow: Flow) -> FlowPlan:
    """The flow with bounds and gates filled in; its entries are determined before gates lead back to them."""
    flow = bounded(flow, _phases(topology))
    standing = [node for node in topology.nodes if isinstance(node, Gate)]
    gated = gates.insert(flow, standing)
    spelling = _Spelling(topology)
    maps = {one.node: spelling.of_map(one) for one in reversed(flow.each)}
    is_chunked = any(one.by is not None for one in maps.values())
    made = ChunkedFlowPlan if is_chunked else MappedFlowPlan if maps else FlowPlan
    return made(
        mentions=gated.mentions,
        groups=tuple([replace(one, when=spelling.of(one.when), span=None, spans={}) for one in gated.groups]),
        entries=tuple(FlowGraph(flow.mentions, flow.groups).entries),
        exit=topology.interface.exit if topology.interface is not None else "",
        maps=maps,
    )


class _Spelling:
    """Gives outputs their declared spelling, since conditions ignore its case; else the one that comes first."""

    def __init__(self, topology: Topology) -> None:
        outputs, nodes = Facts(topology).outputs, topology.nodes
        self._known = {(node.name, one.name.lower()): one.name for node in nodes for one in outputs(node.name)}

    def of(self, when: Condition | None) -> Condition | None:
        return when and replace(when, field=self._field(when.agent, when.field))

    def of_map(self, one: Each) -> MapPlan:
        return MapPlan(
            agent=one.agent,
            field=one.field if one.agent == RUN_INPUT else self._field(one.agent, one.field),
            by=one.by,
            at_most=one.at_most or 0,
            at_once=one.at_once,
            on_more=one.on_more,
            tolerate=one.tolerate,
            until=self.of(one.until),
        )

    def _field(self, agent: str, field: str) -> str:
        return self._known.setdefault((agent, field.lower()), field)


def _phases(topology: Topology) -> Mapping[str, float | None]:
    return {node.name: node.phase for node in topology.nodes}


def _setting(
    topology: Topology, coordination: FlowPlan | None, folder: Path | None, backend: str | None, report: Report
) -> Setting:
    spans: dict[str, Span | None] = {key: topology.spans.get(f"extension.{key}") for key in topology.extension}
    spans[""] = topology.spans.get("extensions")
    flow = topology.flow or Flow()
    groups = coordination.groups if coordination is not None else ()
    return Setting(
        topology=topology,
        folder=folder,
        default=read_extension(topology.extension, (*DEFAULT_KEYS, *TEAM_KEYS), "the topology", spans, report),
        backend=backend,
        report=report,
        asked=asked_of(groups, coordination.maps.values() if coordination is not None else ()),
        needed=needed_of(groups),
        phases=gates.phases(flow, [n for n in topology.nodes if isinstance(n, Gate)], _phases(topology)),
    )


def _refuse_groups(topology: Topology, report: Report) -> None:
    """Report groups, since conversations of several agents are not supported yet."""
    named = set(topology.flow.mentions) if topology.flow is not None else set()
    for node in topology.nodes:
        if isinstance(node, AgentGroup) and node.name in named:
            message = f"the flow leads through {title(node)}, which cannot run yet"
            report(error("cannot-run-group", message, node.span, "replace it by one of its members"))


def _needed(agents: Mapping[str, AgentPlan], coordination: FlowPlan) -> dict[str, AgentPlan]:
    """The plans of the nodes in the flow and their fallbacks."""
    needed = set(coordination.mentions)
    front = list(needed)
    while front:
        agent = agents.get(front.pop())
        if agent is not None and agent.fallback and agent.fallback not in needed:
            needed.add(agent.fallback)
            front.append(agent.fallback)
    return {name: agent for name, agent in agents.items() if name in needed}
