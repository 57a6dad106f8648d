"""A supervised system as described by its file, with spans."""

from collections.abc import Iterator, Mapping

from coterie.base.diagnostics import Located, Span
from coterie.team.topology.system.fields import SUPERVISORS, NodeFields, PluginsFields, TransportFields

_TRANSPORT, _PLUGINS = TransportFields(), PluginsFields()


class SystemNode(Located, frozen=True, kw_only=True):
    """A node of the supervision tree.

    Attributes:
        kind: `supervisor`, `agent`, or another kind of `coterie.team.topology.system.fields`.
        children: Of a supervisor, in start order.
        span: Span of its name, or of the node if it has none.
        spans: Span of each field that is written, `config.routes.0.agent`.
    """

    kind: str
    fields: NodeFields
    children: "tuple[SystemNode, ...]" = ()
    span: Span | None = None
    spans: Mapping[str, Span] = {}

    @property
    def name(self) -> str:
        """Its name."""
        return self.fields.name

    @property
    def is_supervisor(self) -> bool:
        """Whether it has children, now or when it runs."""
        return self.kind in SUPERVISORS

    @property
    def title(self) -> str:
        """Its name in messages: `supervisor 'root'`."""
        return f"{self.kind} {self.name!r}"

    def walk(self) -> "Iterator[SystemNode]":
        """This node and all nodes below it, in start order."""
        yield self
        for child in self.children:
            yield from child.walk()


class System(Located, frozen=True, kw_only=True):
    """A supervised system.

    Attributes:
        root: The supervisor at the top.
        entry: The agent that answers for the whole system; empty: none.
        spans: Span of each part that is written: `supervision`, `transport.type`, `plugins.models.0.type`, `entry`.
    """

    root: SystemNode
    transport: TransportFields = _TRANSPORT
    plugins: PluginsFields = _PLUGINS
    entry: str = ""
    spans: Mapping[str, Span] = {}

    @property
    def agents(self) -> tuple[SystemNode, ...]:
        """All nodes that are not supervisors."""
        return tuple(node for node in self.root.walk() if not node.is_supervisor)

    @property
    def supervisors(self) -> tuple[SystemNode, ...]:
        """All supervisors, the root first."""
        return tuple(node for node in self.root.walk() if node.is_supervisor)

    @property
    def processes(self) -> tuple[str, ...]:
        """The names of worker processes, in order of first mention."""
        return tuple(dict.fromkeys(name for node in self.agents if (name := getattr(node.fields, "process", ""))))
