"""The resolved plan of a loop: everything that the engine, the prompts and the run need.

Plain data, like every plan. Texts are complete (fragments of profiles joined, known placeholders filled in), times are
seconds, 0 means "no limit".
"""

from collections.abc import Callable
from typing import Any, Self

import msgspec
from msgspec import Struct

from coterie.team.planning.coordination import Coordination
from coterie.team.planning.place import PATHS, RunPlace
from coterie.team.topology.conditions import Condition

GLOBAL = "@loop"
"""The agent to call if no role is suggested, or if there are no roles."""
REVIEW = "@review"
"""The reviewing agent."""
TOOL_PATH = "{{TOOL_PATH}}"
"""The placeholder for the path of an attempt's command, which only the attempt knows."""


class RolePlan(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One role, played by the agent of the same name.

    Attributes:
        emits: Events it may emit; `/…/` is a regular expression.
        prompt: Its complete prompt.
        events: Events of a team when it ends: the first whose condition holds for its outputs is emitted; an event
            without a condition always matches. None: an agent plays the role and emits events itself.
    """

    id: str
    emits: tuple[str, ...] = ()
    prompt: str = ""
    events: tuple[tuple[str, Condition | None], ...] | None = None


class ReviewPlan(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The review between iterations.

    Attributes:
        every: A review before iteration i when i - 1 is a multiple of this; at least 1.
        timeout: Seconds a review may take.
    """

    every: int
    prompt: str = ""
    timeout: float = 300.0


class ParallelPlan(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Waves.

    Attributes:
        most: Branches a wave may have.
        timeout: Seconds a branch may take.
    """

    most: int = 3
    timeout: float = 180.0


class LoopGiven(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Command line options of a run. They apply to the whole run, including reloads.

    Attributes:
        overrides: Settings, each as `key=value`.
        backend: The backend from `-b`; empty: from the settings.
        args: Arguments after `--`: further arguments of the backend.
        profiles: Profiles in addition to those of the settings, each `repo:<name>` or `user:<name>`.
        default_profiles: Whether those of the settings apply.
        grammars: The grammar of each settings file at the start, by path.
        changes: What a fork changes of its agents: agent, key and value of each.
    """

    overrides: tuple[str, ...] = ()
    backend: str = ""
    args: tuple[str, ...] = ()
    profiles: tuple[str, ...] = ()
    default_profiles: bool = True
    grammars: dict[str, str] = {}
    changes: tuple[tuple[str, str, Any], ...] = ()


class LoopPlan(Coordination, frozen=True, kw_only=True, omit_defaults=True, tag="loop"):
    """A loop, ready to run.

    Attributes:
        handoff: The roles of each event, in file order, without unknown targets.
        completion: The event that completes it; empty: none.
        promise: The text that completes it if an agent says it as a sentence and emits nothing; empty: none.
        required: Events that must have been accepted before it may complete.
        objective: The objective, unless the run's input sets it.
        harness: Standing instructions.
        max_runtime: Total seconds it may run.
        max_cost: Budget in US dollars.
        stall: Number of equal outputs in a row that stop it.
        max_failures: Number of failed turns in a row that fail it.
        memory_chars: Characters of memory in a prompt, and *tasks_chars* of tasks; 0 is all.
        branch: In a branch of a wave, its default routing event; empty in a top-level loop.
        notify: A program to start when the run ends, and its arguments.
        files: Its files in the loop's folder; removing one during a run has no effect.
    """

    roles: tuple[RolePlan, ...] = ()
    handoff: tuple[tuple[str, tuple[str, ...]], ...] = ()
    completion: str = "task.complete"
    promise: str = "LOOP_COMPLETE"
    required: tuple[str, ...] = ()
    objective: str = ""
    harness: str = ""
    max_iterations: int = 3
    max_runtime: float = 0.0
    max_cost: float = 0.0
    stall: int = 0
    max_failures: int = 3
    review: ReviewPlan | None = None
    parallel: ParallelPlan | None = None
    memory_chars: int = 8000
    tasks_chars: int = 4000
    branch: str = ""
    notify: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    place: RunPlace = RunPlace()
    given: LoopGiven = LoopGiven()

    def without_folders(self) -> Self:
        """A copy without project folder, start folder and grammars."""
        return msgspec.structs.replace(
            self,
            place=msgspec.structs.replace(self.place, project="", work_dir="", root=""),
            given=msgspec.structs.replace(self.given, grammars={}),
        )

    def moved(self, move: Callable[[str], str]) -> Self:
        """The same with other paths in its place, and of its settings files."""
        place = {name: move(getattr(self.place, name)) for name in PATHS}
        grammars = {move(path): grammar for path, grammar in self.given.grammars.items()}
        return msgspec.structs.replace(
            self,
            place=msgspec.structs.replace(self.place, **place),
            given=msgspec.structs.replace(self.given, grammars=grammars),
        )
