"""Text for the outcome of a run and the next steps."""

import re
import shlex
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from coterie.cli.text.words import as_json
from coterie.views.words import dollars, duration, listed, plural, quoted, respond_command, without_causes

if TYPE_CHECKING:
    from coterie.journal.records import Usage
    from coterie.runs.outcome import Outcome
from coterie.runs.replay import ReplayReport

_OUTPUTS = re.compile(r"\n\s*```(?:json)?\s*\{[^`]*\}\s*```$")
"""The block of outputs at the end of an answer, which only the flow needs."""


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
    head = ended.status + (f" ({reason})" if reason else "")
    line = f"{head}: {usage(ended.usage, ended.seconds, ended.waited)}, run {ended.run}{_survived(ended, list(failed))}"
    if ended.missing:
        line += f"; no value for {listed(ended.missing)}, which conditions read"
    return f"{line}\n{ended.overshoot}" if ended.overshoot else line


def _survived(ended: "Outcome", failed: list[str]) -> str:
    """Return the number and the names of failed turns in spite of which a run went on."""
    if ended.status == "failed":
        return ""
    outer = [turn for turn in failed if not any(turn.startswith(f"{other}.") for other in failed)]
    names = [*outer[:_NAMED], *([f"{len(outer) - _NAMED} more"] if len(outer) > _NAMED else [])]
    return f", {plural(len(outer), 'failed turn')} skipped or replaced: {listed(names)}" if outer else ""


def next_steps(ended: "Outcome", option: str, width: int | None = None) -> str:
    """Return the commands for a run that can be resumed or has failed; empty if it completed.

    *width*: characters of a line, in which the beginning of each question fits; None: they are not limited.
    """
    where, lines = option, []
    for question in ended.waiting:
        turn = "/".join([*question.run.split("/")[1:], question.turn])
        most = _QUESTION if width is None else max(width - len(f"{turn} asks: “”"), 20)
        lines.append(f"{turn} asks: {quoted(question.prompt, most)}")
        if len(" ".join(question.prompt.split())) > most:
            lines.append(f"  coterie inspect {question.run} prompt {shlex.quote(question.turn)}{where}  # in full")
        lines.append(f"  {respond_command(question.run, question.turn)}{where}")
    match ended.status:
        case "stopped":
            first = f" (first raise {_SETTINGS[ended.reason]})" if ended.reason in _SETTINGS else ""
            if ended.reason.startswith("shortage: "):
                first = " (once resources are available again)"
            if ended.until:
                lines.append(f"continue it when its quota opens:\n  coterie resume --when-open {ended.run}{where}")
                first = " (at once, if the quota was raised)"
            lines.append(f"continue with{first}:\n  coterie resume {ended.run}{where}{_raised(ended)}")
        case "failed":
            lines.append(f"inspect it with:\n  coterie inspect {ended.run}{where}")
            if ended.way_on:
                lines.append(failed_next(ended.run, ended.way_on, where))
    return "\n".join(lines)


def failed_next(run: str, way_on: str, where: str = "") -> str:
    """Return the command that continues a failed run, under its heading; *way_on*: see `Outcome`."""
    what, command, option = _WAYS_ON[way_on]
    return f"{what}:\n  coterie {command} {run}{option}{where}"


_WAYS_ON = {
    "retry": ("retry what failed it with", "resume", " --retry"),
    "fork": ("begin again before that with", "fork", ""),
    "merge": ("merge its work with", "worktree merge", ""),
}
"""What may help a failed run: its heading, the command, and an option of that."""
_SETTINGS = {"max_runtime": "event_loop.max_runtime", "cost_budget": "event_loop.max_cost_usd"}
"""Settings that would stop a loop again, by the reason that it stopped."""


def _raised(ended: "Outcome") -> str:
    """Return the option that raises the limit which stopped a run: to twice what it was."""
    limits = ended.limits
    match ended.reason:
        case "max_turns":
            return f" --max-turns {limits.max_turns * 2 or 1 if limits.max_turns is not None else 'N'}"
        case "max_cost":
            return f" --max-cost {f'{limits.max_cost * 2 or 1:g}' if limits.max_cost is not None else 'USD'}"
        case "max_iterations":
            return " --add-iterations N"
        case reason:
            return " --try-now" if reason.startswith("quota until") else ""


def result(value: Any) -> str:
    """Return the result of a run: its text, and its outputs as JSON."""
    if isinstance(value, dict) and isinstance(value.get("text"), str):
        shown = [_OUTPUTS.sub("", value["text"].strip()) or value["text"].strip()]
        outputs = value.get("outputs")
        if outputs and not shown[0]:
            shown.append(as_json(outputs))
        return "\n\n".join(part for part in shown if part)
    if isinstance(value, dict) and value.keys() == {"kind"}:  # a failure; its reason has the details
        return ""
    if value is None or isinstance(value, str):
        return (value or "").strip()
    return as_json(value)


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
        "failed_turns": list(failed),
        "way_on": ended.way_on,
    }
