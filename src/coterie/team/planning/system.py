"""The plan of a supervised system: its supervision tree, transport and plugins, every default filled in.

`coterie.team.topology.system.fields` describes the fields. A child that is a flow, a loop, a pattern, a model or a
command is a `TurnActorPlan`; what it runs is the agent of the same name in the plan.
"""

from collections.abc import Callable, Iterator
from typing import Any, Literal, Self

from msgspec.structs import replace

from coterie.team.planning.coordination import Coordination
from coterie.team.topology.system.fields import (
    AgentFields,
    DynamicFields,
    EvalFields,
    GatewayFields,
    HostedFields,
    PluginFields,
    PluginsFields,
    SupervisorFields,
    TopologyServerFields,
    TransportFields,
)

TransportPlan = TransportFields
PluginPlan = PluginFields
PluginsPlan = PluginsFields

TurnKind = Literal["flow", "loop", "pattern", "model", "command"]


class ActorPlan(AgentFields, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="agent"):
    """An agent in Python; see `AgentFields`."""


class DynamicPlan(DynamicFields, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="dynamic"):
    """A supervisor of spawned children; see `DynamicFields`."""


class GatewayPlan(GatewayFields, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="gateway"):
    """An HTTP gateway; see `GatewayFields`."""


class TopologyServerPlan(
    TopologyServerFields, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="topology_server"
):
    """An HTTP endpoint that shows the running system; see `TopologyServerFields`."""


class EvalPlan(EvalFields, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="eval"):
    """An agent that observes and corrects others; see `EvalFields`."""


class TurnActorPlan(HostedFields, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="turn"):
    """A child that answers with a turn: the agent of the same name in the plan.

    Attributes:
        runs: The kind of its turn.
    """

    runs: TurnKind


class SupervisorPlan(
    SupervisorFields, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="supervisor"
):
    """A supervisor and its children, in start order; see `SupervisorFields`."""

    children: "tuple[ChildPlan, ...]" = ()

    def nodes(self) -> "Iterator[ChildPlan]":
        """This supervisor and all nodes below it, in start order."""
        yield self
        for child in self.children:
            yield from child.nodes() if isinstance(child, SupervisorPlan) else (child,)


ChildPlan = SupervisorPlan | ActorPlan | DynamicPlan | GatewayPlan | TopologyServerPlan | EvalPlan | TurnActorPlan


class SystemPlan(Coordination, frozen=True, kw_only=True, omit_defaults=True, tag="system"):
    """A supervised system: agents that message each other.

    Attributes:
        root: The tree; its *restart* and *shutdown* have no effect.
        entry: The agent that answers for the whole system; empty: none.
        process: The name of the running worker; empty: the process of the supervisors.
    """

    root: SupervisorPlan
    transport: TransportPlan = TransportPlan()
    plugins: PluginsPlan = PluginsPlan()
    entry: str = ""
    process: str = ""

    def environments(self) -> Iterator[dict[str, str]]:
        """The texts in the settings of plugins and agents."""
        found: list[dict[str, str]] = []

        def keep(path: str, key: str, text: str) -> str:
            found.append({key: text})
            return text

        self.with_settings(keep)
        yield from found

    def with_settings(self, change: Callable[[str, str, str], str]) -> Self:
        """Apply *change* to each text in the settings of plugins and agents.

        Args:
            change: Called with the dotted path of the text, its key, and the text.
        """

        def settings(path: str, value: Any, key: str = "") -> Any:
            match value:
                case str():
                    return change(path, key, value)
                case dict():
                    return {name: settings(f"{path}.{name}", each, name) for name, each in value.items()}
                case list():
                    return [settings(f"{path}.{at}", each, key) for at, each in enumerate(value)]
                case _:
                    return value

        def plugin(path: str, one: PluginPlan) -> PluginPlan:
            return replace(one, config=settings(path, one.config))

        def node(child: Any) -> Any:
            if isinstance(child, SupervisorPlan):
                return replace(child, children=tuple(map(node, child.children)))
            return (
                replace(child, config=settings(f"/{child.name}", child.config))
                if isinstance(child, ActorPlan)
                else child
            )

        plugins, state = self.plugins, self.plugins.state
        listed = {
            kind: tuple(plugin(f"plugins.{kind}.{at}", one) for at, one in enumerate(getattr(plugins, kind)))
            for kind in ("models", "tools", "exporters")
        }
        changed = replace(plugins, **listed, state=plugin("plugins.state", state) if state is not None else None)
        return replace(self, root=node(self.root), plugins=changed)
