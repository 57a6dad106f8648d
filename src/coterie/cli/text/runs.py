"""Text for runs: lists, timelines, usage, turns."""

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coterie.cli.text.words import as_json, clock, table
from coterie.journal.records import MERGE_CONFLICT
from coterie.views.words import dollars, duration, exited, listed, plural, quoted, respond_command

if TYPE_CHECKING:
    from coterie.backends.base import Request
    from coterie.runs.statistics import RunStats
    from coterie.views.timeline import Line
    from coterie.views.usage import Totals

_PROMPT, _SHORTEST_PROMPT = 60, 20
"""Characters of a prompt in a list of runs: where lines may have any length, and where they are too long anyway."""
INEXACT = "not exact: files that it read have changed since"


def runs(found: "Sequence[RunStats]", width: int | None, *, everywhere: bool) -> str:
    """Return a table of runs; their prompts are cut to fit *width*, if given."""
    if not found:
        return "no runs yet: `coterie run FILE.at` starts one" + (
            "" if everywhere else "; `coterie runs --all` lists those of other directories"
        )
    head = ("run", "team", "started", "state", "time", "cost", "folder", "prompt")
    rows = [
        (
            one.run,
            one.topology,
            _date(one.started),
            f"{one.state}: {one.reason}"
            if one.reason == MERGE_CONFLICT or (one.state == "running" and one.reason)
            else one.state,
            duration(one.seconds),
            dollars(one.cost) if one.cost else "",
            _directory(one.cwd),
        )
        for one in found
    ]
    taken = max(map(len, table(rows, head[:-1]).splitlines()))
    longest = max(_SHORTEST_PROMPT, width - taken - len("  “”")) if width else _PROMPT
    prompts = (one.prompt and quoted(one.prompt, longest) for one in found)
    return table([(*row, prompt) for row, prompt in zip(rows, prompts, strict=True)], head)


def timeline(lines: "Iterable[Line]") -> str:
    """Return a line for each record: number, time, text."""
    return "\n".join(f"{line.seq:>5}  {clock(line.seconds)}  {line.text}" for line in lines)


def usage_table(by: "Mapping[str, Totals]", total: "Totals", what: str = "agent") -> str:
    """Return a table of usage by *what* and in total."""
    rows = [_used(name, totals) for name, totals in by.items()]
    head = (what, "turns", "attempts", "nested", "tokens in", "tokens out", "cost", "seconds")
    lines = table([*rows, _used("total", total)], head)
    if total.unpriced:
        lines += f"\nThe price of {plural(total.unpriced, 'answer')} is unknown and counts as $0."
    if total.unsettled:
        lines += f"\nAttempts that were lost may have cost up to {dollars(total.unsettled)} more."
    return lines


def turn(found: Mapping[str, Any], began: float) -> str:
    """Return the prompt, answer and attempts of a turn; *began* is the start time of its run."""
    lines = [f"{found['turn']}: {found['state']}" + (f" ({found['reason']})" if found["reason"] else "")]
    if found["inputs"]:
        lines.append(f"marked by {listed(found['inputs'])}")
    lines += [_attempt(one, began) for one in found["attempts"]]
    lines += found["notes"]
    if found["child"]:
        lines.append(f"child run: coterie inspect '{found['child']}'")
    exact = "" if found["prompt_is_exact"] else f" ({INEXACT})"
    lines += ["", f"── prompt{exact} ──", found["prompt"]]
    if found["outputs"]:
        lines += ["", "── outputs ──", *(f"{name} = {as_json(value)}" for name, value in found["outputs"].items())]
    if found["text"]:
        lines += ["", "── answer ──", found["text"].rstrip("\n")]
    for one in found["attempts"]:
        if said := failed_output(one):
            lines += ["", f"── output of attempt {one['n']} ──", said]
    return "\n".join(lines)


def failed_output(one: Mapping[str, Any]) -> str:
    """Return the output of a failed attempt and the end of its standard error; empty if there is neither."""
    log = one["log"].rstrip("\n")
    return "\n".join(filter(None, (one["text"].rstrip("\n"), log and f"── standard error ──\n{log}")))


def question(request: "Request") -> str:
    """Return a question to a human at the terminal."""
    return f"\n── {request.turn} asks you ──\n{request.prompt}"


def how_to_answer(request: "Request", where: str) -> str:
    """Return the command that answers *request* from elsewhere; *where* is its option for the state directory."""
    options = "".join(
        f" --output {wanted.name}={'|'.join(map(str, wanted.values)) or wanted.type.upper()}"
        for wanted in request.agent.outputs
    )
    return f"answer with:\n  {respond_command(request.run, request.turn)}{options}{where}"


def _attempt(one: Mapping[str, Any], began: float) -> str:
    until = clock(one["finished"] - began) if one["finished"] is not None else "now"
    ended = exited(one["exit_code"], one["signal"])
    why = ": ".join(filter(None, (", ".join(filter(None, (one["kind"], ended))), one["reason"])))
    return f"attempt {one['n']}: {one['state']}, {clock(one['started'] - began)} – {until}" + (
        f" ({why})" if why else ""
    )


def _used(name: str, totals: "Totals") -> tuple[str, ...]:
    counts = (totals.turns, totals.attempts, totals.nested, totals.input_tokens, totals.output_tokens)
    return (name, *map(str, counts), dollars(totals.cost), f"{totals.seconds:.1f}")


def _directory(path: str) -> str:
    """Return *path* as a person writes it: `.` for the current directory, `~/…` below the home directory."""
    with suppress(OSError, RuntimeError, ValueError):
        if Path(path) == Path.cwd():
            return "."
        return f"~/{Path(path).relative_to(Path.home())}"
    return path


def _date(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))
