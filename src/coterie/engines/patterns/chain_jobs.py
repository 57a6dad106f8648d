"""The subtasks of a chain of command: what a plan says, what becomes of each, and how that is told."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec import Struct

from coterie.engines.patterns.result import SlotFailure

CUT = "cut"
"""The kind of failure that subtasks beyond the allowed number are."""


class Strategy(Struct, frozen=True, kw_only=True):
    """What the top makes of a task."""

    approach: str
    subtasks: tuple[str, ...]
    success_criteria: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class Subtask:
    """A subtask under way: *superior* gave it to *slot*.

    Attributes:
        trouble: What is wrong with what came last, if something is.
        failed: Why nothing has come of it so far, and *kind* which failure that is.
        cut: Which of its parts did not count, if too many were made of it.
    """

    id: str
    task: str
    superior: str
    slot: str = ""
    level: str = ""
    parent: str = ""
    result: str = ""
    confidence: float | None = None
    done_by: str = ""
    answered_by: str = ""
    escalated: str = ""
    trouble: str = ""
    failed: str = ""
    kind: str = ""
    cut: str = ""
    jobs: list["Subtask"] = field(default_factory=list)

    @property
    def has_something(self) -> bool:
        """Whether something came of it, however unsure."""
        return bool(self.result or self.jobs)

    def leaf(self) -> dict[str, Any]:
        """The result of a subtask that was not divided."""
        error = {"error": self.failed} if self.failed else {}
        return {"task": self.task, "result": self.result, "confidence": self.confidence, **error}


class SubtaskResult(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One subtask, and what became of it.

    Attributes:
        id: `2.1` is the first part of part `2`.
        parent: The part that it is a part of; empty below the top.
        slot: Who did it, or tried last.
        result: What came of it; empty if it was divided further, or failed.
        answered_by: Its superior, when that one answered.
        escalated: Why it went up, if it did.
        failed: Why it was not done, if it was not.
    """

    id: str
    parent: str = ""
    level: str
    slot: str
    task: str
    result: str = ""
    confidence: float | None = None
    answered_by: str = ""
    escalated: str = ""
    failed: str = ""


def leaves(jobs: Sequence[Subtask]) -> Iterator[Subtask]:
    """The subtasks of *jobs* that were not divided, in order."""
    for job in jobs:
        yield from leaves(job.jobs) if job.jobs else (job,)


def failures(jobs: Sequence[Subtask]) -> Iterator[SlotFailure]:
    """What was not done of *jobs*."""
    for job in jobs:
        if job.jobs:
            if job.cut:
                yield SlotFailure(job.done_by, CUT, f"{job.task}: {job.cut}")
            yield from failures(job.jobs)
        elif job.failed:
            yield SlotFailure(job.slot, job.kind, f"{job.task}: {job.failed}")


def tree(jobs: Sequence[Subtask]) -> dict[str, Any]:
    """The results under the keys of the reference; one that is taken gets a number."""
    found: dict[str, Any] = {}
    taken = Counter[str]()
    for job in jobs:
        name = key = f"{job.done_by or job.slot}:{job.task[:50]}"
        while key in found:
            taken[name] += 1
            key = f"{name} ({taken[name] + 1})"
        found[key] = tree(job.jobs) if job.jobs else job.leaf()
    return found


def parts(jobs: Sequence[Subtask]) -> Iterator[SubtaskResult]:
    """*jobs* as a list, each before its parts."""
    for job in jobs:
        fields = {name: getattr(job, name) for name in SubtaskResult.__struct_fields__}
        yield SubtaskResult(**{**fields, "slot": job.done_by or job.slot})
        yield from parts(job.jobs)
