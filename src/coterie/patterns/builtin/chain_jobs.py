"""The subtasks of a chain of command: the strategy, each subtask in progress, and the results."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct

from coterie.history.engines.patterns.result import SlotFailure

CUT = "cut"
"""The kind of failure of subtasks beyond the allowed number."""


class Strategy(Struct, frozen=True, kw_only=True):
    """The plan of the top for a task."""

    approach: str
    subtasks: tuple[str, ...]
    success_criteria: tuple[str, ...] = ()


class Subtask(Struct, kw_only=True):
    """A subtask in progress, which *superior* gave to *slot*.

    Attributes:
        trouble: The problem with the latest reply; empty without one.
        failed: The reason why there is no result so far; *kind* is the kind of that failure.
        cut: The message about subtasks beyond the limit.
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
    jobs: list["Subtask"] = []

    @property
    def has_something(self) -> bool:
        """Whether it has a result, whatever its confidence."""
        return bool(self.result or self.jobs)

    def leaf(self) -> dict[str, Any]:
        """The result of an undivided subtask."""
        error = {"error": self.failed} if self.failed else {}
        return {"task": self.task, "result": self.result, "confidence": self.confidence, **error}


class SubtaskResult(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A subtask and its outcome.

    Attributes:
        id: `2.1` is the first part of part `2`.
        parent: The part that contains it; empty at the top level.
        slot: The slot that did it, or tried last.
        result: Its result; empty if it was divided or failed.
        answered_by: Its superior, if the superior answered.
        escalated: The reason for its escalation, if any.
        failed: The reason for its failure, if any.
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
    """The undivided subtasks of *jobs*, in order."""
    for job in jobs:
        yield from leaves(job.jobs) if job.jobs else (job,)


def failures(jobs: Sequence[Subtask]) -> Iterator[SlotFailure]:
    """The failures among *jobs*."""
    for job in jobs:
        if job.jobs:
            if job.cut:
                yield SlotFailure(job.done_by, CUT, f"{job.task}: {job.cut}")
            yield from failures(job.jobs)
        elif job.failed:
            yield SlotFailure(job.slot, job.kind, f"{job.task}: {job.failed}")


def tree(jobs: Sequence[Subtask]) -> dict[str, Any]:
    """The results under the keys of the reference; duplicate keys get a number."""
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
