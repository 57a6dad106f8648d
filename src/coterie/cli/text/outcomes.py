"""Texts on how a run ended, and what to do next."""

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coterie.cli.options import STATE_DIR
from coterie.cli.text.words import as_json
from coterie.runs.index import OF_LOOPS
from coterie.views.words import duration, plural, quoted

if TYPE_CHECKING:
    from coterie.journal.records import Usage
    from coterie.runs.launch import Outcome, ReplayReport

_OUTPUTS = re.compile(r"\n\s*```(?:json)?\s*\{[^`]*\}\s*```$")
"""The block of outputs at the end of an answer: for the flow, not for people."""


_QUESTION = 400
"""Characters of a question that are shown where a run stops for it."""


def outcome(ended: "Outcome") -> str:
    """How a run ended: its result, the outcome and what it used."""
    head = ended.status + (f" ({ended.reason})" if ended.reason else "")
    lines = [
        *([said] if (said := result(ended.result)) else []),
        f"{head}: {usage(ended.usage, ended.seconds)}, run {ended.run}",
    ]
    if ended.overshoot:
        lines.append(ended.overshoot)
    return "\n".join(lines)


def next_steps(ended: "Outcome", state_dir: Path) -> str:
    """What to do next with a run that can be resumed, or has failed; empty if it completed."""
    where = "" if str(state_dir) in (str(STATE_DIR), OF_LOOPS) else f" --state-dir {shlex.quote(str(state_dir))}"
    lines = []
    for question in ended.waiting:
        turn = "/".join([*question.run.split("/")[1:], question.turn])
        lines.append(f"{turn} asks: {quoted(question.prompt, _QUESTION)}")
        if len(" ".join(question.prompt.split())) > _QUESTION:
            lines.append(f"  coterie inspect {question.run} prompt {shlex.quote(question.turn)}{where}  # all of it")
        lines.append(f"  coterie control respond {ended.run} {shlex.quote(turn)} TEXT{where}")
    match ended.status:
        case "stopped":
            first = f" (first raise {_SETTINGS[ended.reason]})" if ended.reason in _SETTINGS else ""
            if ended.reason.startswith("shortage: "):
                first = " (once there is room again)"
            lines.append(f"carry on with{first}:\n  coterie resume {ended.run}{where}{_raised(ended.reason)}")
        case "failed":
            lines.append(f"see what happened with:\n  coterie inspect {ended.run}{where}")
    return "\n".join(lines)


_SETTINGS = {"max_runtime": "event_loop.max_runtime", "cost_budget": "event_loop.max_cost_usd"}
"""The setting that stopped a loop, and would stop it again."""


def _raised(reason: str) -> str:
    """The option that must be given anew for a run that its limit stopped."""
    return {
        "max_turns": " --max-turns N",
        "max_cost": " --max-cost USD",
        "max_iterations": " --add-iterations N",
    }.get(reason, "")


def result(value: Any) -> str:
    """What a run gave back: its text, and its outputs as JSON."""
    if isinstance(value, dict) and isinstance(value.get("text"), str):
        shown = [_OUTPUTS.sub("", value["text"].strip()) or value["text"].strip()]
        outputs = value.get("outputs")
        if outputs and not shown[0]:
            shown.append(as_json(outputs))
        return "\n\n".join(part for part in shown if part)
    if isinstance(value, dict) and value.keys() == {"kind"}:  # of a failure, whose reason says more
        return ""
    if value is None or isinstance(value, str):
        return (value or "").strip()
    return as_json(value)


def usage(used: "Usage", seconds: float) -> str:
    """`7 turns, 12 s, $0.12, 1200 tokens in, 300 out`: the time is the run's; what is not known is left out."""
    parts = [plural(used.turns, "turn"), duration(seconds)]
    if used.cost:
        parts.append(f"${used.cost:.4f}")
    if used.input_tokens or used.output_tokens:
        parts.append(f"{used.input_tokens} tokens in, {used.output_tokens} out")
    return ", ".join(parts)


def replayed(report: "ReplayReport") -> str:
    """What a replay found."""
    lines = [f"{report.run}: today's engine agrees with {plural(report.records, 'record')}"]
    if report.left:
        lines += ["left to do:", *(f"  {what}" for what in report.left)]
    return "\n".join(lines)


def outcome_data(ended: "Outcome") -> dict[str, Any]:
    """The same as plain data, for `--json`."""
    from msgspec import structs

    return {
        "run": ended.run,
        "outcome": ended.status,
        "exit": ended.exit,
        "reason": ended.reason,
        "result": ended.result,
        "usage": structs.asdict(ended.usage),
        "seconds": ended.seconds,
        "waiting": [structs.asdict(question) for question in ended.waiting],
        "overshoot": ended.overshoot,
        "notices": ended.notices,
    }
