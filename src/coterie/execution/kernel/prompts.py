"""The prompt of a turn, rendered from the plan and the results so far.

The parts are, in this order: the earlier exchanges of the run's thread, the agent's own prompt (whole), its role
text, the task, the results of the turns that marked it and its own earlier result, the files that it `reads`, how to
answer if outputs are wanted, and an operator's guidance. After a failure or an interruption the prompt says so,
unless only a provider caused the failure. Texts of agents and files are fenced, so that they cannot pass for a part
of the prompt.
"""

import json
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any

from coterie.agents.backends.base import NO_TAIL, AttemptRef, Tail, history_text, thread_text
from coterie.agents.workspace.base import Workspace
from coterie.agents.workspace.notes import Notes, NoteSettings, ShownNotes
from coterie.execution.kernel import items, threads
from coterie.execution.kernel.attempt_files import AttemptFiles
from coterie.execution.kernel.commands import Gather, Part, Turn
from coterie.execution.kernel.fold import Fold
from coterie.history.engines.commands import Ask
from coterie.history.engines.fences import fenced, inline
from coterie.history.engines.printed import printed
from coterie.history.journal.records import (
    DECISIONS,
    LASTING,
    PARKED_DECISIONS,
    AttentionAsked,
    GivenValues,
    TurnFinished,
)
from coterie.team.planning.plan import AgentPlan, Wanted
from coterie.team.topology.model import RUN_INPUT

RESULTS_BUDGET = 60_000
"""How many characters of the results of a set a prompt holds."""
_FILE = "file:"
_json = json.JSONEncoder(ensure_ascii=False).encode
_GO_ON = (
    "# Go on where you stopped\n\n"
    "This turn was interrupted, and its session, with what you read and did, goes on here. Check what is done, then do "
    "the rest. If you find nothing of it above, begin, but check for side effects before repeating them."
)
"""The last part of a prompt in a continued session."""


async def gather(
    asked: Gather, run: str, settings: NoteSettings | None, files: AttemptFiles, notes: Notes, workspace: Workspace
) -> dict[str, str | None]:
    """Read the prompt parts of *run* that *asked* names; *settings* say where its memory and tasks are."""
    used: dict[str, str | None] = {}
    ref = AttemptRef(run=run, turn=asked.turn, attempt=asked.attempt)
    shown = await notes.shown(run, settings) if "memory" in asked.names else ShownNotes()
    for name in asked.names:
        match name:
            case "memory":
                used[name] = shown.memory
            case "tasks":
                used[name] = shown.tasks
            case "tool":
                used[name] = files.tool(ref)
            case "said":
                used[name] = await files.how_far(AttemptRef(run=run, turn=asked.turn, attempt=asked.attempt - 1))
            case "prompt":
                used[name] = await files.question(ref)
            case _:
                used[name] = await workspace.read(name.removeprefix(_FILE))
    return used


def outside(fold: Fold, turn: Turn) -> tuple[str, ...]:
    """The names, as in `turn.started`, of the parts of the prompt of *turn* that are not in the journal."""
    names = fold.coordination.outside(fold, turn)
    return (*names, "said") if turn.retry_count.interrupted and not turn.goes_on else names


def files_named(names: Iterable[str]) -> tuple[str, ...]:
    """Turn file *names* into names of prompt parts."""
    return tuple(_FILE + name for name in names)


def render(fold: Fold, turn: Turn) -> tuple[str, Tail]:
    """The whole prompt of *turn*'s current attempt, and its end; see `parts_of`."""
    tail = tail_of(fold, turn)
    return "\n\n".join(map(attrgetter("text"), parts_of(fold, turn, tail))), tail


def parts_of(fold: Fold, turn: Turn, tail: Tail) -> list[Part]:
    """The prompt of *turn*'s current attempt in parts; parts from outside the journal are in `turn.used`.

    A prompt from the engine is used unchanged; only guidance and notes on earlier attempts are added, and in a pattern
    also the files that the agent `reads` and how to give its declared outputs. The pattern decides which results of
    other agents the prompt contains.
    """
    ask = turn.ask
    if whole := turn.used.get("prompt"):
        return [Part(whole, "engine")]
    if ask.prompt is not None:
        written = (Part(history_text(ask.history), "history"), Part(ask.prompt, "engine"))
        parts = [*(part for part in written if part.text), *fold.coordination.additions(fold, turn)]
    else:
        parts = fold.coordination.prompt(fold, turn)
    if fold.thread is not None and not turn.resumes:
        earlier = thread_text(threads.shown(fold, ask.role))
        parts = [Part(earlier, "thread"), *parts] if earlier else parts
    if tail is not NO_TAIL:
        found = ((tail.shown, "guidance"), (tail.refusal, "attempt"), (tail.interruption, "attempt"))
        parts += [Part(text, origin) for text, origin in found if text]
    return parts


def tail_of(fold: Fold, turn: Turn) -> Tail:
    """The end of the prompt of *turn*'s current attempt: guidance, and how earlier attempts ended."""
    guidance = fold.guidance.shown(turn.ask.turn, turn.ask.role) if fold.guidance is not None else ()
    failed = turn.failure
    if turn.resumes and turn.attempt > 1:
        return Tail(guidance=tuple(guidance), interruption=_GO_ON)
    if turn.retry_count.interrupted and not turn.goes_on:
        return Tail(guidance=tuple(guidance), interruption=_cut_off(turn))
    if failed is None and not guidance and not turn.was_cut:
        return NO_TAIL
    refusal = ""
    if failed is not None:
        why = f"# Your last attempt did not count\n\n{inline(failed.reason).lstrip()}"
        refusal = "\n\n".join(filter(None, (why, printed(failed))))
    return Tail(
        guidance=tuple(guidance),
        refusal=refusal,
        refused=failed.attempt if failed is not None else 0,
        interruption=_GO_ON if turn.was_cut else "",
    )


def question(fold: Fold, turn: Turn) -> list[Part]:
    """The parts of a prompt rendered from the plan and the results so far."""
    ask = turn.ask
    agent = fold.agents.get(ask.role) or AgentPlan(name=ask.agent)
    parts = [*own_parts(agent), *task_parts(_input(fold, ask))]
    if ask.item is not None:
        which, of = (ask.item.within, ask.item.total) if ask.item.total else (str(ask.item.k), ask.item.of)
        head = f"# Item{'s' * (' ' in which)} {which} of {of}"
        parts.append(Part(f"{head}\n\n{fenced(items.text_of(ask.item))}", "item"))
    shown = inputs(fold, turn)
    for result in shown:
        parts.append(_result(fold, result))
    for name in agent.reads:
        if fold.latest.get(name) not in shown:
            parts += _read(fold, name, turn)
    if agent.outputs and (kind := fold.kind(ask.agent)) != "topology":
        parts += how_to_answer(agent.outputs, human=kind == "human")
    return parts


def own_parts(agent: AgentPlan) -> list[Part]:
    """The agent's own prompt and its role text."""
    return [part for part in (Part(agent.prompt, "prompt"), Part(agent.role, "role")) if part.text]


def file_parts(names: Sequence[str], turn: Turn) -> list[Part]:
    """The files *names* that exist, as parts of the prompt of *turn*."""
    texts = [(name, turn.used.get(_FILE + name)) for name in names]
    return [Part(f"# {name}\n\n{fenced(text)}", "file", name) for name, text in texts if text is not None]


def as_data(fold: Fold, turn: Turn) -> dict[str, Any]:
    """The prompt as data, for programs: `task`, `input`, `inputs`, `reads` (results only) and `wanted`.

    For functions it has `given` as well: the values that this turn, as its `own`, and the runs above are given.
    """
    given = fold.started.input if fold.started else {}
    agent = fold.agents.get(turn.ask.role)
    above = (fold.started.values if fold.started else None) or GivenValues(prompt=given.get("prompt", ""))
    asked = above.prompt if turn.ask.prompt is None else turn.ask.prompt
    own = turn.ask.whole or {}
    if agent is not None and agent.child is not None:
        whole = own.get("prompt")
        own_text = [part.text for part in own_parts(agent)]
        asked = whole if whole and isinstance(whole, str) else "\n\n".join(filter(None, (*own_text, asked)))
    values = {**above.input, "task": above.prompt, **given, **own}
    return {
        "given": {"prompt": asked, "own": own, "input": values, "answers": above.answers},
        "task": given.get("prompt", "") if turn.ask.prompt is None else turn.ask.prompt,
        "input": _input(fold, turn.ask),
        "inputs": [_as_data(fold, result) for result in inputs(fold, turn)],
        "reads": [_as_data(fold, fold.latest[name]) for name in agent.reads if name in fold.latest]
        if agent and agent.reads
        else [],
        "wanted": [_wanted(one) for one in agent.outputs] if agent and agent.outputs else [],
        **(items.as_data(turn.ask.item) if turn.ask.item is not None else {}),
    }


def _input(fold: Fold, ask: Ask) -> dict[str, Any]:
    """The run's input, without the list that the turn of *ask* has an item of."""
    given, item = fold.started.input if fold.started else {}, ask.item
    if item is None or item.agent != RUN_INPUT:
        return given
    return {name: value for name, value in given.items() if name != item.field}


def _wanted(output: Wanted) -> dict[str, Any]:
    found: dict[str, Any] = {"name": output.name, "type": output.type, "values": list(output.values)}
    return {**found, "schema": output.schema} if output.schema else found


def inputs(fold: Fold, turn: Turn) -> list[TurnFinished]:
    """The results that the prompt shows: those of the turns that marked *turn*, then the agent's own earlier result.

    A gate is on an arrow, so the result that it checked is shown before the gate's own.
    """
    ask = turn.ask
    found: dict[str, TurnFinished] = {}
    for name in behind_gates(fold, ask.inputs) if "gate" in fold.agent_kinds else ask.inputs:
        if (result := fold.work(name).result) is not None:
            found[name] = result
    own = fold.latest.get(ask.role)
    if own is not None and ask.item is not None and (before := fold.sets.get(own.turn)) is not None:
        own = before.for_equal(ask.item)
    if own is not None:
        found.setdefault(own.turn, own)
    return list(found.values())


def behind_gates(fold: Fold, names: Sequence[str]) -> dict[str, None]:
    """The turns *names*, each gate preceded by the turn that it checked; each turn appears once."""
    found: dict[str, None] = {}
    left = [(name, False) for name in reversed(names)]
    while left:
        name, told = left.pop()
        ask = fold.work(name).ask
        if told or fold.kind(ask.agent) != "gate":
            found.setdefault(name)
        elif name not in found:
            left.append((name, True))
            left += [(checked, False) for checked in reversed(ask.inputs) if checked not in found]
    return found


def how_to_answer(wanted: tuple[Wanted, ...], human: bool = False) -> list[Part]:
    """Instructions for the outputs of a reply, if any are *wanted*; a *human* need not write JSON."""
    lines = []
    for output in wanted:
        if output.schema:
            optional = " (may be left out)" if output.optional else ""
            what = f"a value that fits this JSON Schema{optional}: {_json(output.schema)}"
        elif output.type == "enum":
            what = "one of " + ", ".join(json.dumps(value) for value in output.values)
        elif output.values:
            what = "for example " + ", ".join(json.dumps(value) for value in output.values)
        else:
            what = {"any": "a value"}.get(output.type, f"a {output.type}")
        lines.append(f"- `{output.name}`: {what}")
    form = "End your reply with one JSON object in a ```json block that holds:"
    if human:
        form = "Give each of these on a line of its own, as `name: value`:"
    return [Part(f"# How to answer\n\n{form}\n" + "\n".join(lines), "outputs")] if lines else []


def decisions(parked: AttentionAsked | None) -> tuple[str, ...]:
    """The valid decisions on a turn that was cut off by a crash or *parked* for an answer."""
    known = DECISIONS if parked is None else PARKED_DECISIONS
    return tuple(word for word in known if word not in LASTING or (parked is not None and parked.rule))


def said_with(answer: str) -> tuple[str, str]:
    """Split an *answer* to a permission request into its word and a text for the agent, which only `deny` may have."""
    word, _, text = answer.strip().partition(" ")
    return ("deny", text.strip()) if word.rstrip(":,") == "deny" else (answer.strip(), "")


def how_to_decide(turn: str, parked: AttentionAsked | None) -> str:
    """The question to a person whether to repeat *turn*, which was cut off by a crash or *parked* for an answer."""
    if parked is not None:
        asks = f"{parked.tool} ({parked.detail})" if parked.detail else parked.tool
        lasting = "`always` (in this run), `project` (in all its runs), " if parked.rule else ""
        ways = f"`allow`, {lasting}`deny`, `retry` to have it ask again, or `cancel`"
        return f"{turn} was parked when it asked for permission: {asks}; answer with {ways}"
    return f"{turn} was cut off and may have had side effects: answer `retry` to run it again, or `cancel` to cancel it"


def task_parts(given: dict[str, Any]) -> list[Part]:
    """The task, from the input *given*, as parts of a prompt."""
    parts = []
    if task := given.get("prompt"):
        parts.append(Part(f"# Task\n\n{task}", "task"))
    if len(given) > ("prompt" in given):
        named = {name: value for name, value in given.items() if name != "prompt"}
        lines = [f"- {k}: {v if isinstance(v, str) else _json(v)}" for k, v in named.items()]
        parts.append(Part("# Input\n\n" + "\n".join(lines), "input"))
    return parts


def _result(fold: Fold, result: TurnFinished) -> Part:
    """The answer *result* as a part; its text is left out if it only repeats the outputs, as for a function."""
    if (its := fold.sets.get(result.turn)) is not None:
        its.shown = its.shown or _set_text(its)  # an item of the next set may be one of thousands
        return Part(its.shown, "result", result.turn)
    agent, shown = fold.turns[result.turn].ask.role, result.outputs
    if result.text and shown:
        plan = fold.agents.get(agent)
        wanted = {output.name for output in plan.outputs} if plan else set()
        shown = {name: value for name, value in shown.items() if name in wanted}
    outputs = _json(shown) if shown else ""
    text = f"# Result of {agent} ({result.turn})"
    if result.text and result.text.strip() != outputs:
        text += f"\n\n{fenced(result.text)}"
    if outputs:
        text += f"\n\nOutputs: {outputs}"
    return Part(text, "result", result.turn)


def _set_text(its: items.Set) -> str:
    """The results of a set, item by item; each may take an even share of `RESULTS_BUDGET` characters."""
    share, lines = RESULTS_BUDGET // max(1, its.size), [f"# Results of {its.ask.role} ({its.ask.turn})"]
    for k in range(1, its.size + 1):
        if (one := its.items.get(k)) is None:
            lines.append(f"## Item {k} of {its.size}\n\nIt has no result.")
            continue
        text, outputs = one.text, _json(one.outputs) if one.outputs else ""
        said = "\n\n".join(
            filter(None, (text if text.strip() != outputs else "", f"Outputs: {outputs}" if outputs else ""))
        )
        cut = f"\n… {len(said) - share} more characters" if len(said) > share else ""
        lines.append(f"## Item {k} of {its.size}\n\n{fenced(said[:share] + cut)}")
    return "\n\n".join(lines)


def _as_data(fold: Fold, result: TurnFinished) -> dict[str, Any]:
    role = fold.work(result.turn).ask.role
    agent, is_empty = fold.agents.get(role), not (result.text or result.outputs or result.turn in fold.sets)
    is_none = is_empty and agent is not None and agent.gives_none
    found = {"agent": role, "turn": result.turn, "text": result.text, "outputs": result.outputs}
    return {**found, "is_none": True} if is_none else found


def _read(fold: Fold, name: str, turn: Turn) -> list[Part]:
    result = fold.latest.get(name)
    return [_result(fold, result)] if result is not None else file_parts([name], turn)


def _cut_off(turn: Turn) -> str:
    said = turn.used.get("said")
    earlier = "attempt was" if turn.retry_count.interrupted == 1 else "attempts were"
    note = (
        "# An earlier attempt was interrupted\n\n"
        f"This is attempt {turn.attempt} of this turn; {turn.retry_count.interrupted} earlier {earlier} interrupted "
        "and may have had side effects: check before repeating them."
    )
    return f"{note}\n\nIts output so far:\n\n{fenced(said)}" if said else note
