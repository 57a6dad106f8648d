"""The prompt of a turn, rendered from the plan and the results so far.

In this order: the agent's own prompt (whole), its role text, the task, the results of the turns that marked it and its
own earlier one, what it `reads`, how to answer when outputs are wanted, and an operator's guidance. The prompt of
an attempt after a failure or an interruption says so, unless only a provider caused the failure. Texts of agents and
files are fenced, so that they cannot pass for a part of the prompt.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from coterie.backends.base import history_text
from coterie.engines.fences import fenced, inline
from coterie.engines.printed import printed
from coterie.journal.records import DECISIONS, LASTING, PARKED_DECISIONS, AttentionAsked, TurnFinished
from coterie.kernel.attempt_files import AttemptFiles
from coterie.kernel.commands import Gather, Part, Turn
from coterie.kernel.fold import Fold
from coterie.planning.plan import AgentPlan, Wanted
from coterie.workspace.base import Workspace
from coterie.workspace.notes import Notes, NoteSettings, ShownNotes

_FILE = "file:"
_json = json.JSONEncoder(ensure_ascii=False).encode
_GO_ON = (
    "# Go on where you stopped\n\n"
    "This turn was interrupted, and its session, with what you read and did, goes on here. Check what is done, then do "
    "the rest. If you find nothing of it above, begin, but check for side effects before repeating them."
)
"""The last part of a prompt in a session that goes on."""


async def gather(
    asked: Gather, run: str, settings: NoteSettings | None, files: AttemptFiles, notes: Notes, workspace: Workspace
) -> dict[str, str | None]:
    """Read the parts of a prompt of *run* that *asked* names; its memory and tasks are kept under *settings*."""
    used: dict[str, str | None] = {}
    shown = await notes.shown(run, settings) if "memory" in asked.names else ShownNotes()
    for name in asked.names:
        match name:
            case "memory":
                used[name] = shown.memory
            case "tasks":
                used[name] = shown.tasks
            case "tool":
                used[name] = files.tool(run, asked.turn, asked.attempt)
            case "said":
                used[name] = await files.how_far(run, asked.turn, asked.attempt - 1)
            case "prompt":
                used[name] = await files.question(run, asked.turn, asked.attempt)
            case _:
                used[name] = await workspace.read(name.removeprefix(_FILE))
    return used


def outside(fold: Fold, turn: Turn) -> tuple[str, ...]:
    """The names of the parts of the prompt of *turn* that the journal does not hold, as `turn.started` names them."""
    names = fold.coordination.outside(fold, turn)
    return (*names, "said") if turn.retry_count.interrupted else names


def unread(fold: Fold, turn: Turn) -> tuple[str, ...]:
    """The files that the agent of *turn* `reads`, as parts of its prompt; results of agents are in the journal."""
    agent = fold.agents.get(turn.ask.instead_of or turn.ask.agent)
    if agent is None or not agent.reads:
        return ()
    return files_named([name for name in agent.reads if name not in fold.latest])


def files_named(names: Iterable[str]) -> tuple[str, ...]:
    """The files *names* as parts of a prompt."""
    return tuple(_FILE + name for name in names)


def render(fold: Fold, turn: Turn) -> str:
    """The whole prompt of *turn*'s current attempt; see `parts_of`."""
    return "\n\n".join(part.text for part in parts_of(fold, turn))


def parts_of(fold: Fold, turn: Turn) -> list[Part]:
    """The prompt of *turn*'s current attempt in parts; those from outside of the journal are in `turn.used`.

    A prompt from the engine is used unchanged; only guidance and the notes on earlier attempts are added, and in a
    pattern the files that an agent `reads` and how to give its declared outputs. The pattern decides which results of
    other agents it contains.
    """
    ask = turn.ask
    if whole := turn.used.get("prompt"):
        return [Part(whole, "engine")]
    if ask.prompt is not None:
        written = (Part(history_text(ask.history), "history"), Part(ask.prompt, "engine"))
        parts = [*(part for part in written if part.text), *fold.coordination.additions(fold, turn)]
    else:
        parts = fold.coordination.prompt(fold, turn)
    if fold.guidance is not None and (texts := fold.guidance.shown(ask.turn, ask.instead_of or ask.agent)):
        guidance = "\n".join(f"- {text}" for text in texts)
        parts.append(Part(f"# Guidance from the operator\n\n{guidance}", "guidance"))
    if turn.resumes:
        parts.append(Part(_GO_ON, "attempt"))
    elif turn.retry_count.interrupted:
        parts.append(Part(_cut_off(turn), "attempt"))
    elif turn.failure is not None:
        why = f"# Your last attempt did not count\n\n{inline(turn.failure.reason).lstrip()}"
        parts.append(Part("\n\n".join(filter(None, (why, printed(turn.failure)))), "attempt"))
    return parts


def question(fold: Fold, turn: Turn) -> list[Part]:
    """The parts of a prompt rendered from the plan and the results so far."""
    ask = turn.ask
    agent = fold.agents.get(ask.instead_of or ask.agent) or AgentPlan(name=ask.agent)
    parts = [*own_parts(agent), *task_parts(fold.started.input if fold.started else {})]
    shown = inputs(fold, turn)
    parts += [_result(fold, result) for result in shown]
    for name in agent.reads:
        if fold.latest.get(name) not in shown:
            parts += _read(fold, name, turn)
    return [*parts, *how_to_answer(agent.outputs, human=fold.kind(ask.agent) == "human")]


def own_parts(agent: AgentPlan) -> list[Part]:
    """The prompt of *agent* and its role text."""
    return [part for part in (Part(agent.prompt, "prompt"), Part(agent.role, "role")) if part.text]


def file_parts(names: Sequence[str], turn: Turn) -> list[Part]:
    """The files *names* that exist, as parts of the prompt of *turn*."""
    texts = [(name, turn.used.get(_FILE + name)) for name in names]
    return [Part(f"# {name}\n\n{fenced(text)}", "file", name) for name, text in texts if text is not None]


def as_data(fold: Fold, turn: Turn) -> dict[str, Any]:
    """The prompt as data, for programs: `task`, `input`, `inputs`, `reads` (results only) and `wanted`."""
    given = fold.started.input if fold.started else {}
    agent = fold.agents.get(turn.ask.instead_of or turn.ask.agent)
    return {
        "task": given.get("prompt", "") if turn.ask.prompt is None else turn.ask.prompt,
        "input": given,
        "inputs": [_as_data(fold, result) for result in inputs(fold, turn)],
        "reads": [_as_data(fold, fold.latest[name]) for name in agent.reads if name in fold.latest] if agent else [],
        "wanted": [_wanted(one) for one in agent.outputs] if agent else [],
    }


def _wanted(output: Wanted) -> dict[str, Any]:
    found: dict[str, Any] = {"name": output.name, "type": output.type, "values": list(output.values)}
    return {**found, "schema": output.schema} if output.schema else found


def inputs(fold: Fold, turn: Turn) -> list[TurnFinished]:
    """The results that the question shows: of the turns that marked it, then its own earlier one.

    A gate is on an arrow: the result that it checked is shown too, before its own.
    """
    ask = turn.ask
    found: dict[str, TurnFinished] = {}
    for name in _behind_gates(fold, ask.inputs) if "gate" in fold.agent_kinds else ask.inputs:
        result = fold.turns[name].result
        if result is not None:
            found[name] = result
    own = fold.latest.get(ask.instead_of or ask.agent)
    if own is not None:
        found.setdefault(own.turn, own)
    return list(found.values())


def _behind_gates(fold: Fold, names: Sequence[str]) -> dict[str, None]:
    """The turns *names*, each gate among them behind what it checked; each turn once, however many lead to it."""
    found: dict[str, None] = {}
    left = [(name, False) for name in reversed(names)]
    while left:
        name, told = left.pop()
        ask = fold.turns[name].ask
        if told or fold.kind(ask.agent) != "gate":
            found.setdefault(name)
        elif name not in found:
            left.append((name, True))
            left += [(checked, False) for checked in reversed(ask.inputs) if checked not in found]
    return found


def how_to_answer(wanted: tuple[Wanted, ...], human: bool = False) -> list[Part]:
    """Instructions on the outputs of a reply, if any are *wanted*; a *human* need not write JSON."""
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
    """The words that decide whether a turn is repeated that was cut off by a crash, or was *parked* for an answer."""
    known = DECISIONS if parked is None else PARKED_DECISIONS
    return tuple(word for word in known if word not in LASTING or (parked is not None and parked.rule))


def said_with(answer: str) -> tuple[str, str]:
    """The word of an *answer* to a permission, and what is to be said to the agent with it: `deny` may have such."""
    word, _, text = answer.strip().partition(" ")
    return ("deny", text.strip()) if word.rstrip(":,") == "deny" else (answer.strip(), "")


def how_to_decide(turn: str, parked: AttentionAsked | None) -> str:
    """The question to a human whether to repeat *turn*, which was cut off by a crash, or was *parked* for an answer."""
    if parked is not None:
        asks = f"{parked.tool} ({parked.detail})" if parked.detail else parked.tool
        lasting = "`always` (in this run), `project` (in all its runs), " if parked.rule else ""
        ways = f"`allow`, {lasting}`deny`, `retry` to have it ask again, or `cancel`"
        return f"{turn} was parked when it asked for permission: {asks}; answer with {ways}"
    return f"{turn} was cut off and may have had side effects: answer `retry` to run it again, or `cancel` to cancel it"


def task_parts(given: dict[str, Any]) -> list[Part]:
    """What is to be done with the input *given*, as parts of a prompt."""
    parts = []
    if task := given.get("prompt"):
        parts.append(Part(f"# Task\n\n{task}", "task"))
    if len(given) > ("prompt" in given):
        named = {name: value for name, value in given.items() if name != "prompt"}
        lines = [f"- {k}: {v if isinstance(v, str) else _json(v)}" for k, v in named.items()]
        parts.append(Part("# Input\n\n" + "\n".join(lines), "input"))
    return parts


def _result(fold: Fold, result: TurnFinished) -> Part:
    """The answer *result*, whose text is left out where it only repeats the outputs, as that of a function does."""
    agent = _author(fold, result)
    shown = result.outputs
    if result.text and shown:
        plan = fold.agents.get(agent)
        wanted = {output.name for output in plan.outputs} if plan else set()
        shown = {name: value for name, value in shown.items() if name in wanted}
    outputs = _json(shown) if shown else ""
    text = f"# Result of {agent} ({result.turn})"
    if result.text and result.text != outputs:
        text += f"\n\n{fenced(result.text)}"
    if outputs:
        text += f"\n\nOutputs: {outputs}"
    return Part(text, "result", result.turn)


def _as_data(fold: Fold, result: TurnFinished) -> dict[str, Any]:
    return {"agent": _author(fold, result), "turn": result.turn, "text": result.text, "outputs": result.outputs}


def _author(fold: Fold, result: TurnFinished) -> str:
    ask = fold.turns[result.turn].ask
    return ask.instead_of or ask.agent


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
