"""The classes that run each type of topology."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, ClassVar, TypeVar

from coterie.errors import PatternRefused
from coterie.patterns.reference.base import BaseTopology
from coterie.patterns.reference.collaboration import check_class
from coterie.patterns.rows.models import AgentType, Topology, unexpired
from coterie.team.topology.patterns.names import TopologyType

_OURS = "coterie.patterns.reference.topologies"
"""The module of the built-in classes, which imports this one and adds them to `built_in`."""

T = TypeVar("T", bound=type[BaseTopology])


class TopologyRegistry:
    """The classes of topologies, by type; built-in ones load on first use."""

    built_in: ClassVar[dict[TopologyType, type[BaseTopology]]] = {}
    _topologies: ClassVar[dict[TopologyType, type[BaseTopology]]] = {}

    @classmethod
    def register(cls, topology_class: T) -> T:
        """Register *topology_class* for its type, replacing the class registered before.

        Raises:
            PatternRefused: If it is not a subclass of `BaseTopology` with a `topology_type` and a `config_class`.
        """
        check_class(topology_class)
        cls._topologies[TopologyType(topology_class.topology_type)] = topology_class
        return topology_class

    @classmethod
    def get(cls, topology_type: TopologyType | str) -> type[BaseTopology] | None:
        """The class that runs topologies of *topology_type*."""
        import_module(_OURS)
        known = (*cls._topologies.items(), *cls.built_in.items())
        return next((one for registered, one in known if registered == topology_type), None)

    @classmethod
    def create(cls, topology: Topology, agents: Mapping[str, AgentType], db_session: Any = None) -> BaseTopology:
        """The object that runs *topology* with *agents*.

        Raises:
            PatternRefused: If its type is unknown, its configuration does not fit, or a slot is not filled by an agent.
        """
        if not isinstance(topology, Topology):
            raise PatternRefused(f"the first argument must be a Topology, not {type(topology).__name__}")
        topology_type = unexpired(topology).topology_type
        topology_class = cls.get(topology_type)
        if topology_class is None:
            raise PatternRefused(f"Unknown topology type: {topology_type}")
        return topology_class(topology, agents, db_session)


def topology(cls: T) -> T:
    """Register the decorated class for its `topology_type`."""
    return TopologyRegistry.register(cls)
