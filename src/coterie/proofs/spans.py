"""Find the places of the parts of a plan in its file, as a plan has no places."""

from collections.abc import Sequence

from coterie.base.diagnostics import Span
from coterie.team.planning.plan import FlowPlan
from coterie.team.topology.model import ArrowGroup, Topology


class Places:
    """The places of a flow's nodes and arrows.

    Args:
        topology: The source of the plan; None: no place is known.
    """

    def __init__(self, flow: FlowPlan, topology: Topology | None) -> None:
        self._topology = topology
        groups = topology.flow.groups if topology is not None and topology.flow is not None else ()
        written: dict[str, list[ArrowGroup]] = {}
        for group in groups:
            written.setdefault(group.source, []).append(group)
        self._groups = [_origin(group, written.get(group.source, ())) for group in flow.groups]

    def node(self, name: str) -> Span | None:
        """The place of the declaration of *name*."""
        node = self._topology.node(name) if self._topology is not None else None
        return node.span if node is not None else None

    def output(self, name: str, field: str) -> Span | None:
        """The place where *name* declares the output *field*."""
        node = self._topology.node(name) if self._topology is not None else None
        outputs = node.outputs if node is not None else ()
        return next((output.span for output in outputs if output.name == field), None) or self.node(name)

    def group(self, i: int, part: str = "") -> Span | None:
        """The place of group *i*, or of its attribute *part*."""
        origin = self._groups[i]
        return (origin.spans.get(part) or origin.span) if origin is not None else None


def _origin(group: ArrowGroup, written: Sequence[ArrowGroup]) -> ArrowGroup | None:
    """The group of those *written* that became *group*: there its bound may be implied, its arrows may pass a gate."""
    same = [each for each in written if each.when == group.when]
    return next((each for each in same if each.targets == group.targets), same[0] if same else None)
