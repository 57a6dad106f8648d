"""A supervisor whose children are spawned while it runs."""

from typing import Any

from coterie.agents.actors.supervision.policy import RestartPolicy
from coterie.agents.actors.supervision.spec import ChildSpec, Supervised
from coterie.agents.actors.supervision.supervisor import SupervisorActor
from coterie.errors import SpawnError
from coterie.team.planning.system import DynamicPlan


class DynamicSupervisorActor(SupervisorActor):
    """Starts empty, replaces children one for one, and refuses to spawn beyond its limits.

    Args:
        limits: `max_children` limits the living children, `max_total_spawns` those over its lifetime, including its own
            restarts.
    """

    def __init__(self, spec: ChildSpec, limits: DynamicPlan, **options: Any) -> None:
        super().__init__(spec, RestartPolicy(), **options)
        self.limits = limits.config

    async def spawn(self, child: Supervised) -> None:
        """Start *child*.

        Raises:
            SpawnError: If a limit is reached, or the supervisor is not running.
            Exception: From the start of the child.
        """
        name, limits = child.spec.name, self.limits

        def check() -> None:
            if limits.max_children is not None and len(self.children) >= limits.max_children:
                raise _refused(name, f"{self.name!r} has {limits.max_children} children, its max_children")
            if limits.max_total_spawns is not None and self.added >= limits.max_total_spawns:
                raise _refused(name, f"{self.name!r} has spawned {limits.max_total_spawns}, its max_total_spawns")

        await self.start_child(child, check)


def _refused(name: str, why: str) -> SpawnError:
    return SpawnError(name, f"cannot spawn {name!r}: {why}")
