"""Text for runs: lists, timelines, usage, turns."""

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coterie.base import files
from coterie.history.journal.records import MERGE_CONFLICT
from coterie.history.views.words import (
    ANSWERED,
    dollars,
    duration,
    exited,
    listed,
    plural,
    quoted,
    request_answered,
    respond_command,
)
from coterie.interfaces.cli.text.words import as_json, clock, table

if TYPE_CHECKING:
    from coterie.agents.backends.base import Request
    from coterie.execution.runs.set_detail import SetDetail
    from coterie.execution.runs.statistics import RunStats
    from coterie.execution.runs.threads import ThreadMessage, ThreadRow
    from coterie.history.views.timeline import Line
    from coterie.history.views.usage import Totals

_PROMPT = 60
"""Characters of a prompt in a list of runs."""
_YIELDING = (
    *(("prompt", 20), ("folder", 12), ("prompt", 0), ("team", 12), ("folder", 0), ("started", 0), ("team", 8)),
    *(("state", 18), ("team", 0)),
)
"""What gives way in a list of runs that is too wide; id, time and cost stay, and the beginning of the state."""
_THREADS_YIELDING = (("message", 20), ("latest", 0), ("team", 8), ("state", 12), ("message", 0), ("team", 0))
_USAGE_YIELDING = (("nested", 0), ("attempts", 0), ("agent", 20), ("tokens in", 0), ("tokens out", 0))
_AROUND_QUESTION = 7
"""Lines of a terminal that a question leaves: its head, the line about the rest, the answer, the live tree."""
INEXACT = "not exact: files that it read have changed since"


def runs(found: "Sequence[RunStats]", width: int | None, *, everywhere: bool) -> str:
    """Return a table of runs that fits *width*, if given: see `_YIELDING`."""
    if not found:
        return "no runs yet: `coterie run FILE.at` starts one" + (
            "" if everywhere else "; `coterie runs --all` lists those of other directories"
        )
    head = ("run", "team", "started", "state", "worked", "cost", "folder", "prompt")
    rows = [
        (
            one.run,
            one.topology,
            _date(one.started, is_short=width is not None),
            _state(one),
            duration(one.seconds),
            dollars(one.cost) if one.cost else "",
            _directory(one.cwd),
            one.prompt and quoted(one.prompt, max(_PROMPT, width or 0)),
        )
        for one in found
    ]
    return table(rows, head, width, _YIELDING)


def threads(found: "Sequence[ThreadRow]", width: int | None = None) -> str:
    """Return a table of threads that fits *width*, if given: names stay."""
    if not found:
        return "no threads yet: `coterie chat FILE.at` begins one"
    rows = [
        (one.name, str(one.runs), one.topology, _date(one.at), one.state, quoted(one.prompt, max(_PROMPT, width or 0)))
        for one in found
    ]
    return table(rows, ("thread", "runs", "team", "latest", "state", "message"), width, _THREADS_YIELDING)


def messages(found: "Sequence[ThreadMessage]") -> str:
    """Return the messages of a thread with their answers."""
    return "\n\n".join(
        f"── {_date(one.at)} {one.run} ({one.state}) ──\n{one.prompt}" + (f"\n\n{one.answer}" if one.answer else "")
        for one in found
    )


def _state(one: "RunStats") -> str:
    """Return the state of a run, with its reason where that is short and says what to do."""
    if one.reason == ANSWERED:
        return one.reason
    shows = one.reason == MERGE_CONFLICT or (one.state == "running" and one.reason)
    return f"{one.state}: {one.reason}" if shows else one.state


def timeline(lines: "Iterable[Line]") -> str:
    """Return a line for each record: number, time, text."""
    return "\n".join(f"{line.seq:>5}  {clock(line.seconds)}  {line.text}" for line in lines)


def usage_table(by: "Mapping[str, Totals]", total: "Totals", what: str = "agent", width: int | None = None) -> str:
    """Return a table of usage by *what* and in total, which fits *width*, if given."""
    rows = [_used(name, totals) for name, totals in by.items()]
    head = (what, "turns", "attempts", "nested", "tokens in", "tokens out", "cost", "worked")
    yielding = [(what if name == "agent" else name, least) for name, least in _USAGE_YIELDING]
    lines = table([*rows, _used("total", total)], head, width, yielding)
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
    for one in found["attempts"]:
        lines.append(_attempt(one, began))
        lines += [f"  {clock(step.at - began)} {request_answered(step.n, step.calls)}" for step in one["steps"]]
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


def set_(found: "SetDetail", began: float) -> str:
    """Return the items and the outputs of a set; *began* is the start time of its run."""
    until = clock(found.finished - began) if found.finished is not None else "now"
    counts = ", ".join(f"{n} {state}" for state, n in found.counts.items())
    lines = [f"{found.turn}: {found.state}, {clock(found.started - began)} – {until}"]
    lines += [f"marked by {listed(found.inputs)}"] if found.inputs else []
    lines += [f"{plural(found.size, 'item')}" + (f": {counts}" if counts else "")]
    rows = [
        (f"{one.n}", one.turn, one.name, f"{one.state}{f' ({one.reason})' if one.reason else ''}")
        for one in found.items
    ]
    lines += ["", table(rows, ("item", "turn", "name", "state"))] if rows else []
    if found.outputs:
        lines += ["", "── outputs ──", *(f"{name} = {as_json(value)}" for name, value in found.outputs.items())]
    if found.text:
        lines += ["", "── answers ──", found.text.rstrip("\n")]
    return "\n".join(lines)


def failed_output(one: Mapping[str, Any]) -> str:
    """Return the output of a failed attempt and the end of its standard error; empty if there is neither."""
    log = one["log"].rstrip("\n")
    return "\n".join(filter(None, (one["text"].rstrip("\n"), log and f"── standard error ──\n{log}")))


def question(request: "Request", size: tuple[int, int] | None = None) -> str:
    """Return a question to a human at the terminal; with *size*, columns and lines, as much of it as fits."""
    lines = request.prompt.split("\n")
    shown, rows = lines, 0
    for n, line in enumerate(lines if size is not None else ()):
        columns, most = size or (0, 0)
        rows += max(1, -(-len(line) // max(columns, 1)))
        if n and rows > max(most - _AROUND_QUESTION, 1):
            rest = plural(len(lines) - n, "more line")
            shown = [*lines[:n], f"… {rest}: ? and Enter shows all"]
            break
    return "\n".join([f"\n── {request.turn} asks you ──", *shown])


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
    return (name, *map(str, counts), dollars(totals.cost), duration(totals.seconds))


def _directory(path: str) -> str:
    """Return *path* as a person writes it: `.` for the current directory, `~/…` below the home directory."""
    with suppress(OSError, RuntimeError, ValueError):
        if Path(path) == Path.cwd():
            return "."
        return f"~/{Path(path).relative_to(files.user_home())}"
    return path


def _date(at: float, *, is_short: bool = False) -> str:
    """Return a date and a time; a short one has no seconds, and no year if that is the present one."""
    moment = time.localtime(at)
    if not is_short:
        return time.strftime("%Y-%m-%d %H:%M:%S", moment)
    is_now = moment.tm_year == time.localtime().tm_year
    return time.strftime("%m-%d %H:%M" if is_now else "%Y-%m-%d", moment)
