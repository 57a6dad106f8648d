"""The plan of a loop: what of its folder and settings the engine, the prompts and the run need, all of it resolved.

Like every plan it is plain data that travels. Texts are whole (fragments of profiles joined, placeholders filled in
where they are known), times are seconds, 0 stands for "no limit".
"""

from typing import Self

import msgspec
from msgspec import Struct

from coterie.planning.coordination import Coordination
from coterie.planning.place import RunPlace
from coterie.topology.conditions import Condition

GLOBAL = "@loop"
"""The agent that is asked when no role is suggested, or there is none."""
REVIEW = "@review"
"""The agent that reviews."""
TOOL_PATH = "{{TOOL_PATH}}"
"""Stands in texts for the path of an attempt's own command, which only the attempt knows."""


class RolePlan(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One role; the agent of the same name is asked for it.

    Attributes:
        emits: What it may emit; `/…/` is a regular expression.
        prompt: Its whole prompt.
        events: Where a team answers, what it emits when it ends: the first event whose condition holds of its outputs;
            one without a condition always does. None: an agent answers, which emits by itself.
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
    """What the command line says of a run beside its folder. It holds for the whole run: a reload applies it again.

    Attributes:
        overrides: Settings, each as `key=value`.
        backend: Who thinks, as `-b` names it; empty: as the settings say.
        args: What stands behind `--`: further arguments of the backend.
        profiles: Profiles beside those of the settings, each `repo:<name>` or `user:<name>`.
        default_profiles: Whether those of the settings count.
        grammars: How each settings file was read at the start, by path.
    """

    overrides: tuple[str, ...] = ()
    backend: str = ""
    args: tuple[str, ...] = ()
    profiles: tuple[str, ...] = ()
    default_profiles: bool = True
    grammars: dict[str, str] = {}


class LoopPlan(Coordination, frozen=True, kw_only=True, omit_defaults=True, tag="loop"):
    """A loop, ready to run.

    Attributes:
        handoff: Which roles an event leads to, in file order; targets that are no roles are left out.
        completion: The event that completes it; empty: none does.
        promise: The text that completes it when an agent says it and emits nothing; empty: none does.
        required: Events that must have been accepted before it may complete.
        objective: What it is for, unless the run's input says.
        harness: Standing instructions.
        max_runtime: Seconds it may be owned in all.
        max_cost: US dollars.
        stall: Equal outputs in a row that stop it.
        max_failures: Turns in a row that may fail before it does.
        memory_chars: Characters of memory in a prompt, and *tasks_chars* of tasks; 0 is all.
        branch: In a branch of a wave, the event it is routed by unless its input names one; empty in a loop of its own.
        notify: A program to start when the run ends, and its arguments.
        files: What it was made of, in the loop's folder; a file that goes while the run lasts changes nothing.
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
        """The same without the folders of the project and of the start, and without the grammars that were used."""
        return msgspec.structs.replace(
            self,
            place=msgspec.structs.replace(self.place, project="", work_dir=""),
            given=msgspec.structs.replace(self.given, grammars={}),
        )
