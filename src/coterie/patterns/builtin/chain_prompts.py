"""The prompts of a chain of command: for a plan, for subtasks, for escalations, and for the final result."""

from collections.abc import Mapping, Sequence
from typing import Any

from coterie.engines.patterns.result import SlotFailure
from coterie.engines.patterns.shown import as_json
from coterie.patterns.builtin.chain_jobs import Strategy, Subtask


def plan(task: str) -> str:
    """The prompt for a strategy."""
    return (
        f"You command a team. This is its task:\n\n{task}\n\n"
        "Say how you go about it, which subtasks the team is to do, independent of each other, and how you will know "
        "that it is done. Answer with JSON:\n"
        '{"approach": "…", "subtasks": ["…", "…"], "success_criteria": ["…"]}'
    )


def split(task: str, whole: str) -> str:
    """The prompt that divides *task*, a part of the *whole*."""
    return (
        f"You were given this task to coordinate:\n\n{task}\n\n{_part_of(task, whole)}"
        "Divide it into pieces of work for your people, independent of each other. Answer with JSON:\n"
        '{"subtasks": ["…", "…"]}\n'
        "If it cannot be done, begin your answer with `BLOCKED:` and say why."
    )


def work(task: str, whole: str) -> str:
    """The prompt that has *task* done, a part of the *whole*."""
    return (
        f"This task is yours:\n\n{task}\n\n{_part_of(task, whole)}"
        "Do it, and give the result with all that matters about it. If you can tell how sure you are, end with a line "
        "`confidence: X`, X from 0 to 1. If you cannot do it, begin your answer with `BLOCKED:` and say why."
    )


def escalation(job: Subtask, slots: Sequence[str]) -> str:
    """The prompt to the superior of an escalated subtask."""
    what = job.result or "\n".join(f"- {below.task}" for below in job.jobs)
    came = f"\n\nThis is what came:\n\n{what}" if what else ""
    return (
        f"You gave this task to {job.slot}:\n\n{job.task}\n\nIt came back: {job.escalated}.{came}\n\n"
        "Either do it yourself and answer with the result, or have somebody try again and answer with nothing but "
        f'JSON: {{"reassign_to": "one of {", ".join(slots)}"}}.'
    )


def synthesis(task: str, strategy: Strategy, results: Mapping[str, Any], failures: Sequence[SlotFailure]) -> str:
    """The prompt that combines *results* and names what is missing."""
    parts = [f"This was the task:\n\n{task}"]
    if strategy.approach:
        parts.append(f"You went about it like this:\n\n{strategy.approach}")
    if strategy.success_criteria:
        parts.append("It is done when:\n\n" + "\n".join(f"- {one}" for one in strategy.success_criteria))
    parts.append(f"Your team's results, as JSON:\n\n{as_json(results)}")
    if failures:
        lost = "\n".join(f"- {one.slot}: {one.reason}" for one in failures)
        parts.append(f"These parts were not done; say so where it matters:\n\n{lost}")
    parts.append("Put them together into the final result.")
    return "\n\n".join(parts)


def _part_of(task: str, whole: str) -> str:
    return "" if task == whole else f"It is a part of this task:\n\n{whole}\n\n"
