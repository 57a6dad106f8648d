"""Text for a run on its plan, its costs, its first failure, and what turns changed."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from coterie.execution.runs.changed_files import ChangedFiles
from coterie.execution.runs.rows import RunEntry, ShownRun
from coterie.history.views.compare import RunComparison
from coterie.history.views.costs import Costs
from coterie.history.views.failure import FirstFailure
from coterie.history.views.rows import RunRow
from coterie.history.views.run import TurnView
from coterie.history.views.usage import Totals
from coterie.history.views.words import dollars, exited, listed, plural, progress, quoted
from coterie.interfaces.cli.text.words import as_json, table
from coterie.proofs.worst_case import WorstCase


def plan(tables: dict[str, dict[str, Any]]) -> str:
    """Return the teams of a run with the state of their nodes and the arrows that fired."""
    return "\n".join(line for run in tables["runs"].values() for line in _run(run, tables))


def _run(run: dict[str, Any], tables: dict[str, dict[str, Any]]) -> Iterator[str]:
    id, indent = run["id"], "  " * run["id"].count("/")
    progress = _progress(msgspec.convert(run, RunRow))
    yield f"{indent}{run['topology'] or id}{f' ({id})' if indent else ''}: {run['words']}, {progress}"
    nodes = [row for key, row in tables["nodes"].items() if key.rpartition("/")[0] == id]
    actors = [row for key, row in tables["actors"].items() if key.rpartition("/")[0] == id]
    rows = [(row["name"], row["state"], _counts(row)) for row in ([] if actors else nodes)]
    rows += [(row["name"], row["state"], _actor(row)) for row in actors]
    for line in table(rows, ("node", "state", "turns")).splitlines() if rows else ():
        yield f"{indent}  {line}"
    for arrow in tables["teams"].get(run["place"], {}).get("arrows", ()) if not actors else ():
        state = tables["arrows"].get(f"{id}/{arrow['index']}", {})
        fired = f"fired {state['fired']}x, last after {state['turn']}" if state.get("fired") else "not fired"
        marks = [fired, *(["spent"] if state.get("spent") else []), *(["forced"] if state.get("forced") else [])]
        label = f"  when {arrow['label']}" if arrow["label"] else ""
        yield f"{indent}  {arrow['source']} -> {arrow['target']}{label}: {', '.join(marks)}"
    if event := run["last_event"]:
        came = f" of {event['source']}" if event["source"] else ""
        yield f"{indent}  last event: {event['event']}{came}, to {event['target'] or '(no role)'}"


def _progress(run: RunRow) -> str:
    budget = f" of {dollars(run.max_cost)}" if run.max_cost is not None else ""
    parts = [f"iteration {run.iteration} of at most {run.most_iterations}" if run.most_iterations else ""]
    parts.append(progress(run.done, run.turns, run.failed, run.left, run.max_turns))
    return ", ".join(filter(None, (*parts, f"{dollars(run.cost)}{budget}" if run.cost or budget else "")))


def _counts(row: dict[str, Any]) -> str:
    parts = [str(row["starts"]), f"of {plural(row['items'], 'item')}" if row["items"] else ""]
    parts.append(f"({row['failed']} failed)" if row["failed"] else "")
    parts += [dollars(row["cost"]) if row["cost"] else "", f"last {row['turn']}" if row["turn"] else ""]
    return " ".join(filter(None, parts))


def _actor(row: dict[str, Any]) -> str:
    lost = sum(row["letters"].values())
    parts = [
        row["kind"],
        f"below {row['above']}" if row["above"] else "",
        f"restarted {row['restarts']}x" if row["restarts"] else "",
    ]
    parts += [plural(row["crashes"], "crash", "crashes") if row["crashes"] else "", row["reason"]]
    return "  ".join(filter(None, (*parts, plural(lost, "dead letter") if lost else "")))


def overview(found: Sequence[tuple[RunEntry, ShownRun | None]]) -> str:
    """Return runs by what they need, each agent at work below its run."""
    lines = []
    for entry, more in found:
        row = more.row if more is not None else None
        parts = [
            f"{entry.group:<9}  {entry.run}  {entry.team}: {entry.words}",
            _progress(row) if row is not None else "",
        ]
        if more is not None:
            parts.append(f"at most {more.most}" if more.most is not None else "")
            parts.append(f"{plural(more.attention, 'thing')} to answer" if more.attention else "")
            parts.append(quoted(more.prompt) if more.prompt else "")
        lines.append(", ".join(filter(None, parts)))
        for one in more.agents if more is not None else ():
            below = f"{one.run}/{one.turn}".partition("/")[2]
            lines.append(f"{'':<9}    {below}  {one.agent}{f'  uses {one.tool}' if one.tool else ''}")
    return "\n".join(lines) or "no runs yet: `coterie run FILE.at` starts one"


def costs(found: Costs, worst: str) -> str:
    """Return what a run cost by agent, model and turn, beside its budget and its worst case."""
    budget = f" of {dollars(found.budget)}" if found.budget is not None else ""
    tables = {"agent": found.by_agent, "model": found.by_model, "turn": found.by_turn}
    head = ("attempts", "tokens in", "tokens out", "cost", "seconds")
    parts = [table([_spent(name, one) for name, one in by.items()], (what, *head)) for what, by in tables.items() if by]
    return "\n\n".join([f"{dollars(found.total.cost)}{budget}; worst case: {worst}", *parts])


def worst(found: WorstCase | None) -> str:
    """Return the worst case of a run in words."""
    if found is None or found.turns is None:
        return "not known"
    cost = f", {dollars(found.cost)} if each costs what the most expensive one of its agent did" if found.cost else ""
    return f"{'' if found.is_exact else 'at most '}{plural(found.turns, 'turn')}{cost}"


def _spent(name: str, one: Totals) -> tuple[str, ...]:
    counts = map(str, (one.attempts, one.input_tokens, one.output_tokens))
    return (name, *counts, dollars(one.cost), f"{one.seconds:.1f}")


def failure(found: FirstFailure | None) -> str:
    """Return the first failure of a run."""
    if found is None:
        return "nothing failed"
    if not found.turn:
        return f"the run failed: {found.reason}"
    how = ", ".join(filter(None, (found.kind, exited(found.exit_code, found.signal))))
    lines = [f"{found.turn} of {found.run} failed first ({how}): {found.reason}"]
    lines += [f"── output of attempt {found.attempt} ──", found.output.rstrip("\n")] if found.output.strip() else []
    lines += ["── standard error ──", found.log.rstrip("\n")] if found.log.strip() else []
    return "\n".join([*lines, f"more: coterie inspect '{found.run}' turn '{found.turn}'"])


def files(found: ChangedFiles) -> str:
    """Return the diff of a turn, and the command that applies it."""
    if found.problem:
        return f"no diff: {found.problem}"
    if not found.files:
        return f"{found.turn} changed no files"
    diff = found.diff + ("\n… (cut)" if found.is_cut else "")
    return "\n".join([diff, "", *found.notes, "to take these changes:", f"  {found.take}"])


def comparison(found: RunComparison) -> str:
    """Return two runs side by side, beginning with the first turn that differs."""
    a, b = found.a, found.b
    rows = [(name, str(getattr(a, name)), str(getattr(b, name))) for name in ("state", "reason", "turns")]
    rows += [("cost", dollars(a.cost), dollars(b.cost))]
    lines = [table([row for row in rows if row[1] or row[2]], ("", a.id, b.id)), ""]
    lines += [f"different: {listed(found.differs)}"] if found.differs else []
    if not found.first:
        return "\n".join([*lines, f"all {plural(found.same, 'turn')} are the same"])
    begin = (
        f"the first {plural(found.same, 'turn')} {'is' if found.same == 1 else 'are'} the same; " if found.same else ""
    )
    lines.append(f"{begin}the first difference is in {found.first}")
    pairs = found.pairs[found.same :]
    turns = [(one.turn, ", ".join(one.differs) or "(same)", _side(one.a), _side(one.b)) for one in pairs]
    lines.append(table(turns, ("turn", "differs in", "a", "b")))
    if found.prompts[0] != found.prompts[1]:
        lines += ["", f"── prompt of {found.first} ──", *_changed(*found.prompts)]
    return "\n".join(lines)


def _side(one: TurnView | None) -> str:
    if one is None:
        return "(not begun)"
    said = as_json(one.outputs) if one.outputs else quoted(one.text, 40)
    parts = (one.state, said if one.state == "finished" else one.reason)
    return " ".join(filter(None, (*parts, dollars(one.usage.cost) if one.usage.cost else "")))


def _changed(a: str, b: str) -> Iterator[str]:
    from difflib import unified_diff

    yield from list(unified_diff(a.splitlines(), b.splitlines(), "a", "b", lineterm="", n=1))[2:]
