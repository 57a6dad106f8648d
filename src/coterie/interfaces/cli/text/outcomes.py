"""Text for the outcome of a run and the next steps."""

import shlex
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from coterie.history.views.ending import EndFacts, Ending
from coterie.history.views.words import dollars, duration, listed, plural, quoted, respond_command, without_causes

if TYPE_CHECKING:
    from coterie.execution.runs.outcome import Outcome
    from coterie.history.journal.records import Usage
from coterie.execution.runs.replay import ReplayReport

_NAMED = 5
"""Failed turns that the final line names."""
LONG = 60.0
"""Seconds between stops and resumes that are worth a word."""
_QUESTION = 400
"""Characters shown of a question that a run waits for."""


def outcome(ended: "Outcome", failed: Iterable[str] = (), causes: Iterable[str] = ()) -> str:
    """Return the outcome and the usage of a run.

    Args:
        failed: The turns that have failed.
        causes: Causes of failures that the reader has already seen; they are not repeated.
    """
    reason = without_causes(ended.reason, causes)
    head = "ended early" if ended.unread else ended.status + (f" ({reason})" if reason else "")
    line = f"{head}: {usage(ended.usage, ended.seconds, ended.waited)}, run {ended.run}{_survived(ended, list(failed))}"
    if ended.missing:
        line += f"; no value for {listed(ended.missing)}, which conditions read"
    return f"{line}\n{ended.overshoot}" if ended.overshoot else line


def _survived(ended: "Outcome", failed: list[str]) -> str:
    """Return the number and the names of failed turns that did not end the run."""
    if ended.status == "failed":
        return ""
    outer = [turn for turn in failed if not any(turn.startswith(f"{other}.") for other in failed)]
    names = [*outer[:_NAMED], *([f"{len(outer) - _NAMED} more"] if len(outer) > _NAMED else [])]
    return f", {plural(len(outer), 'failed turn')} skipped or replaced: {listed(names)}" if outer else ""


def next_steps(ended: "Outcome", option: str, width: int | None = None, facts: EndFacts | None = None) -> str:
    """Return why a run does not go on, and the commands for it; empty if it completed.

    Args:
        width: Characters of a line, in which the beginning of each question fits; None: they are not limited.
        facts: Those of its records; without them the outcome has to do.
    """
    lines = []
    for question in ended.waiting:
        turn = "/".join([*question.run.split("/")[1:], question.turn])
        most = _QUESTION if width is None else max(width - len(f"{turn} asks: “”"), 20)
        lines.append(f"{turn} asks: {quoted(question.prompt, most)}")
        if len(" ".join(question.prompt.split())) > most:
            lines.append(f"  coterie inspect {question.run} prompt {shlex.quote(question.turn)}{option}  # in full")
        lines.append(f"  {respond_command(question.run, question.turn)}{option}")
    if facts is None or facts.state == "running":
        facts = EndFacts(ended)
    if (ending := facts.ending(ended.run, way_on=ended.way_on)) is None:
        return "\n".join(lines)
    if ended.status == "failed":
        lines.append(f"inspect it with:\n  coterie inspect {ended.run}{option}")
    elif not ended.waiting:
        lines.append(ending.text)
    if ended.status != "failed" or ended.way_on:
        lines.append(f"{ending.how}:\n  {ending.command}{option}")
    if ended.until and not ended.reason.startswith("asleep"):
        lines.append(
            f"continue with (at once, if the quota was raised):\n  coterie resume {ended.run} --try-now{option}"
        )
    return "\n".join(lines)


def ending_lines(found: Ending, option: str = "") -> str:
    """Return why a run does not go on, and the next line to type."""
    return f"{found.text}\n{found.how}:\n  {found.command}{option}"


def usage(used: "Usage", seconds: float, waited: float = 0.0) -> str:
    """Return `7 turns, worked 12 s, $0.12, 1200 tokens in, 300 out`, without unknown values.

    *seconds*: how long the run was driven; *waited*: how long it was not, between its stops and resumes.
    """
    parts = [plural(used.turns, "turn"), f"worked {duration(seconds)}"]
    if waited >= LONG:
        parts.append(f"waited {duration(waited)}")
    if used.cost:
        parts.append(dollars(used.cost))
    if used.unsettled:
        parts.append(f"up to {dollars(used.unsettled)} more by lost attempts")
    if used.input_tokens or used.output_tokens:
        parts.append(f"{used.input_tokens} tokens in, {used.output_tokens} out")
    return ", ".join(parts)


def replayed(report: "ReplayReport") -> str:
    """Return the result of a replay."""
    lines = [f"{report.run}: the current engine agrees with {plural(report.records, 'record')}"]
    if report.left:
        lines += ["pending:", *(f"  {what}" for what in report.left)]
    return "\n".join(lines)


def outcome_data(ended: "Outcome", failed: Iterable[str] = ()) -> dict[str, Any]:
    """Return the outcome as plain data, for `--json`; *failed* are the turns that have failed."""
    from msgspec import structs

    return {
        "run": ended.run,
        "outcome": ended.status,
        "exit": ended.exit,
        "reason": ended.reason,
        "result": ended.result or None,
        "usage": structs.asdict(ended.usage),
        "seconds": ended.seconds,
        "waited": ended.waited,
        "until": ended.until or None,
        "waiting": [structs.asdict(question) for question in ended.waiting],
        "overshoot": ended.overshoot,
        "notices": ended.notices,
        "missing": ended.missing,
        "unread": ended.unread,
        "failed_turns": list(failed),
        "way_on": ended.way_on,
    }
