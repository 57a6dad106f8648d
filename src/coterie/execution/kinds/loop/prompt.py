"""The prompts of iterations and reviews of a loop.

A prompt depends only on the plan, the state of the loop, and memory and tasks, so the same journal gives the same
prompt. Texts of agents are fenced. Its size is bounded by the plan's texts and budgets, however long the loop runs.
"""

import re
import shlex
from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from coterie.agents.workspace.notes import ShownNotes
from coterie.execution.kernel.commands import Part
from coterie.history.engines.fences import fenced, inline
from coterie.history.engines.loop import PromptState
from coterie.history.engines.loop.default_event import default_event
from coterie.history.engines.loop.promise import bare, shown
from coterie.history.engines.loop.prompt_state import TurnOutput
from coterie.team.planning.loop import TOOL_PATH, LoopPlan, RolePlan

OUTPUTS_MOST = 8_000
"""How many characters all recent outputs may have together; the ends are kept."""
GUIDANCE_MOST = 8_000
"""How many characters all guidance may have together."""
REASON_MOST = 2_000
"""How many characters a reason for a rejection or failure may have."""
PAYLOAD_MOST = 2_000
"""How many characters the payload of the routing event may have."""
_Section = tuple[str, str]
"""The origin and the text of a part of the prompt."""
_TOOL = re.compile(f"([\"']?){re.escape(TOOL_PATH)}")
"""The placeholder for the command; texts may contain it in quotes."""
NO_OBJECTIVE = "Do the task and emit the completion event when it is done."


def render(plan: LoopPlan, state: PromptState, notes: ShownNotes, gates: tuple[tuple[str, ...], ...] = ()) -> str:
    """Render the prompt of the turn of *state*; the loop completes only if the commands *gates* succeed."""
    return "\n\n".join(part.text for part in parts(plan, state, notes, gates))


def parts(plan: LoopPlan, state: PromptState, notes: ShownNotes, gates: tuple[tuple[str, ...], ...] = ()) -> list[Part]:
    """The prompt in parts, one for each section."""
    quoted = replace(notes, tool=_quoted(notes.tool))
    sections = _review(plan, state, quoted) if state.view.review else _iteration(plan, state, quoted, gates)

    def finished(section: str) -> str:
        text = section.strip()
        if TOOL_PATH in text:
            text = _TOOL.sub(lambda found: found[1] + (notes.tool if found[1] else quoted.tool), text)
        return _without_bare(plan.promise, text)

    return [Part(text, origin) for origin, section in sections if (text := finished(section))]


def context(plan: LoopPlan, state: PromptState, given: dict[str, Any]) -> dict[str, Any]:
    """The prompt as data for programs: the common keys, and the state of the loop as `loop`."""
    view = state.view
    return {
        "task": state.objective,
        "input": given,
        "inputs": [],
        "reads": [],
        "wanted": [],
        "loop": {
            "iteration": state.iteration,
            "max_iterations": state.most,
            "review": view.review,
            "event": view.recent,
            "payload": state.payload,
            "roles": list(view.suggested),
            "allowed": list(view.allowed),
            "anything": view.anything,
            "completion": plan.completion,
            "promise": plan.promise,
            "required": list(plan.required),
            "missing": list(view.missing),
            "nearest": default_event(plan, view),
        },
    }


def _iteration(
    plan: LoopPlan, state: PromptState, notes: ShownNotes, gates: tuple[tuple[str, ...], ...]
) -> Iterator[_Section]:
    yield "harness", plan.harness
    yield "attempt", _backpressure(state)
    yield "attempt", _titled("The output of the turn that failed:", state.printed)
    yield "task", f"Objective:\n{state.objective or NO_OBJECTIVE}"
    yield "guidance", _titled("Operator guidance:", _guidance(state.guidance))
    yield "memory", _titled("Memory:", _block(notes.memory))
    yield "tasks", _titled("Tasks:", _block(notes.tasks))
    yield "topology", _topology(plan, state)
    yield "role", _roles(plan, state)
    if state.view.branches and not state.team:
        yield "outputs", _parallelism(state, notes)
    yield "facts", _facts(plan, state, gates)
    yield "result", _titled("Recent outputs, oldest first:", _outputs(state.outputs))
    if not state.team:  # its outputs select the event
        yield "outputs", _how_to_emit(plan, state, notes)


def _review(plan: LoopPlan, state: PromptState, notes: ShownNotes) -> Iterator[_Section]:
    folder = f", in {plan.place.named(plan.place.project)}" if plan.place.project else ""
    yield "harness", plan.harness
    yield (
        "engine",
        f"This is a review of the loop, before iteration {state.iteration} of {state.most}. "
        f"Do none of its work and emit no event. You may make small edits to the files that steer it{folder} "
        "(autoloops.toml, topology.toml, harness.md, metareview.md, roles/*.md) and tidy its working files; "
        "your changes apply from the next iteration on.",
    )
    yield "prompt", plan.review.prompt if plan.review is not None else ""
    yield "task", f"Objective:\n{state.objective or NO_OBJECTIVE}"
    yield "memory", _titled("Memory:", _block(notes.memory))
    yield "tasks", _titled("Tasks:", _block(notes.tasks))
    yield "attempt", _backpressure(state)
    yield "attempt", _titled("The output of the turn that failed:", state.printed)
    yield "result", _titled("Recent outputs, oldest first:", _outputs(state.outputs))


def _titled(title: str, text: str) -> str:
    return f"{title}\n{text}" if text else ""


def _block(text: str) -> str:
    return fenced(text) if text else ""


def _backpressure(state: PromptState) -> str:
    """The problems before this turn: a rejected event or promise, a failed turn, or an interrupted attempt."""
    lines = []
    if state.rejected:
        lines.append(f"- The last emitted event was rejected. {inline(state.rejected[:REASON_MOST])}")
    if state.promise_refused:
        lines.append(
            f"- The last answer contained the text that completes, but did not complete: {state.promise_refused}"
        )
    if state.failure:
        lines.append(f"- {inline(state.failure[:REASON_MOST])}")
    if state.accepted:
        events = ", ".join(f"`{event}`" for event in state.accepted)
        then = "ends" if state.view.completion in state.accepted else "continues"
        lines.append(
            "- An earlier attempt of this turn was interrupted. These events were already accepted and must not be "
            f"repeated: {events}. Do the rest of the work and answer; the loop then {then}."
        )
    return _titled("Before you begin:", "\n".join(lines))


def _guidance(words: tuple[str, ...]) -> str:
    return _last("\n".join(f"- {text}" for text in words), GUIDANCE_MOST)


def _topology(plan: LoopPlan, state: PromptState) -> str:
    if not plan.roles:
        return ""
    view = state.view
    deck = "\n".join(_card(role) for role in plan.roles)
    return (
        "Topology (advisory):\n"
        f"Recent routing event: {view.recent}\n"
        f"Suggested next roles: {_listed(view.suggested)}\n"
        f"Allowed next events: {_listed(view.allowed)}\n\n"
        f"Role deck:\n{deck}"
    )


def _card(role: RolePlan) -> str:
    first = next((line.strip() for line in role.prompt.splitlines() if line.strip()), "")
    return f"- role `{role.id}`\n  emits: {_listed(role.emits)}\n  prompt: {first}".rstrip()


def _roles(plan: LoopPlan, state: PromptState) -> str:
    """The complete prompts of the suggested roles, or of all roles if the event suggests none."""
    found = [role for role in plan.roles if role.id in state.view.suggested and role.prompt.strip()]
    return "\n\n".join(f"Your role, `{role.id}`:\n{role.prompt.strip()}" for role in found)


def _parallelism(state: PromptState, notes: ShownNotes) -> str:
    view = state.view
    bases = [event for event in view.allowed if event != view.completion and not event.startswith("/")]
    forms = ["explore.parallel", *(f"{event}.parallel" for event in bases)]
    return (
        "Structured parallelism:\n"
        f"Work that falls into independent parts can be done by up to {view.branches} branches at once. Emit one of "
        f"{', '.join(f'`{form}`' for form in forms)} with a list of distinct objectives as its payload, one per line, "
        "and end your turn; the next prompt has the outputs of the branches.\n"
        f"    {notes.tool} emit {forms[0]} '- first objective\n    - second objective'\n"
        "After `explore.parallel` the loop continues where it is now, after any other as after that event. "
        "Only the harness emits events that end in `.parallel.joined`."
    )


def _facts(plan: LoopPlan, state: PromptState, gates: tuple[tuple[str, ...], ...]) -> str:
    view = state.view
    lines = [f"Iteration: {state.iteration}/{state.most}"]
    if state.payload:
        lines.append(f"What came with `{view.recent}`: {inline(_last(state.payload, PAYLOAD_MOST))}")
    if plan.completion:
        lines.append(f"Completion event: {plan.completion}")
    if plan.required:
        missing = f"missing: {_listed(view.missing)}" if view.missing else "all were emitted"
        lines.append(f"Required before completion: {_listed(plan.required)} ({missing})")
    if gates:
        commands = ", ".join(f"`{shlex.join(gate)}`" for gate in gates)
        lines.append(f"Before the loop completes, it runs these commands itself, and all must succeed: {commands}")
    if plan.promise and not state.team:
        how = f"answer with `{plan.promise}` on a separate line"
        lines.append(f"Only if you cannot emit: the loop also completes when you {how}")
    return "\n".join(lines)


def _outputs(outputs: tuple[TurnOutput, ...]) -> str:
    """The recent outputs, shortened to their budget; the newest gets the largest share."""
    left, parts = OUTPUTS_MOST, list[str]()
    share = max(1, left // max(1, len(outputs)))
    for k, output in enumerate(reversed(outputs)):
        most = max(share, left - share * (len(outputs) - k - 1))
        text = _last(output.text.strip(), most)
        left -= len(text)
        parts.append(f"## {output.name}\n{_block(text) or '(nothing)'}")
    return "\n\n".join(reversed(parts))


def _how_to_emit(plan: LoopPlan, state: PromptState, notes: ShownNotes) -> str:
    view = state.view
    events = [] if view.anything else [event for event in view.allowed if not event.startswith("/")]
    example = events[0] if events else (plan.completion if view.anything else "") or "EVENT"
    allowed = "any event" if view.anything else f"one of: {_listed(view.allowed)}"
    return (
        "How to emit:\n"
        f"Emit an event to choose the next step, {allowed}. Plain text emits nothing; an event that is not allowed "
        "is rejected at once, with the reason.\n"
        f"    {notes.tool} emit {example} 'what the next role needs to know'"
    )


def _quoted(path: str) -> str:
    """*path* quoted for a shell; a `#` inside a word needs no quotes."""
    plain = path.replace("#", "")
    return path if shlex.quote(plain) == plain else shlex.quote(path)


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(names) or "(none)"


def _last(text: str, most: int) -> str:
    """The last whole lines of *text* within *most* characters, with a note if lines are left out.

    Lines are not cut: if an agent repeats its instructions, half a line of them would not be recognised as an echo.
    """
    if len(text) <= most:
        return text
    _, newline, whole = text[-most - 1 :].partition("\n")
    kept = whole if newline and whole else text[-most:]
    return f"(the first {len(text) - len(kept)} characters are left out)\n{kept}"


def _without_bare(promise: str, text: str) -> str:
    """Prefix each line of *text* that equals *promise*: an agent that repeats its prompt must not complete."""
    if not promise.strip() or promise not in text:
        return text
    alone = bare(promise)
    return "\n".join(shown(promise) if bare(line) == alone else line for line in text.split("\n"))
