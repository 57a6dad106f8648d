"""Combine teams: one after the other, side by side, or the one that the input names.

A team returns a dict, its outputs. The next team gets that dict without the inputs of pipeline stages in it: otherwise
each of several pipelines in a row would quote all earlier ones once per stage, and the input would grow without limit.
If the dict lacks the key in which the next team expects its task, that key is set to the text of the previous team, so
no team gets an empty question. The run's own input travels along as `original_input`. A cross-check gets the answer so
far and the question that it answers, and checks that answer.
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, assert_never

from msgspec import Struct

from coterie.engines.generator import AgentFailed, Conversation, PatternFailed, Question, Together
from coterie.engines.patterns.registry import Calls, Team, pattern
from coterie.engines.patterns.result import PatternResult, SlotFailure, failure, one_kind, said
from coterie.engines.patterns.shown import as_json, request
from coterie.journal.records import TurnFinished
from coterie.patterns.builtin.pipeline import PipelineResult
from coterie.topology.patterns.configs import CompoundSettings, CrossCheckSettings
from coterie.topology.patterns.inputs import ORIGINAL, task_of
from coterie.topology.patterns.kinds import KINDS
from coterie.topology.patterns.outputs import keys_of
from coterie.topology.patterns.slots import subs

TEXT = "text"
"""The name of the previous team's text in a mapping."""

_KIND_OF = {kind.config: kind.name for kind in KINDS.values()}
_OF_PIPELINE = frozenset(PipelineResult.__struct_fields__) - frozenset(PatternResult.__struct_fields__)
_DEEPEST = 100
"""The depth to which outputs are searched for the result of a pipeline; teams nest less deeply."""


class SubResult(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The outcome of one team: *status* is `completed`, or `failed` with the reason *error*."""

    name: str
    status: str
    output: dict[str, Any] | None
    error: str = ""


class SequentialResult(PatternResult, frozen=True, kw_only=True):
    """The result of teams that worked one after the other.

    Attributes:
        final_output: The dict of the last team; if that is a sequence itself, the dict of its last team. So nested
            sequences do not repeat it.
    """

    composition: str = "sequential"
    sub_results: tuple[SubResult, ...]
    final_output: dict[str, Any]


class ParallelResult(PatternResult, frozen=True, kw_only=True):
    """The result of teams that worked side by side, in their order."""

    composition: str = "parallel"
    sub_results: tuple[SubResult, ...]


class ConditionalResult(PatternResult, frozen=True, kw_only=True):
    """The result of the team that the input chose: *output* is its own."""

    composition: str = "conditional"
    selected_route: str
    status: str
    output: dict[str, Any]


def calls(team: Team, **numbers: Any) -> Calls:
    """Count the turns: each team runs once; of a conditional only one does, the first unless *route* names another."""
    config: CompoundSettings = team.config
    most = dict.fromkeys(subs(config, team.slots), 1)
    match config.composition_type:
        case "conditional":
            return Calls({numbers.get("route") or next(iter(most)): 1}, most)
        case "parallel":
            return Calls(most, most)
        case "sequential":
            return Calls(most, most, {name: {"answered": True} for name in list(most)[1:] if _checks(team, name)})
        case _:
            assert_never(config.composition_type)


@pattern(KINDS["compound"], calls=calls)
def compound(team: Team, given: dict[str, Any]) -> Conversation:
    """Run the teams as the composition defines."""
    config: CompoundSettings = team.config
    match config.composition_type:
        case "sequential":
            return (yield from _in_sequence(team, given))
        case "parallel":
            return (yield from _side_by_side(team, given))
        case "conditional":
            return (yield from _chosen(team, given))
        case _:
            assert_never(config.composition_type)


def _in_sequence(team: Team, given: dict[str, Any]) -> Conversation:
    _check_mapping(team)
    done: list[SubResult] = []
    before, text, shown = given, task_of((), given), given
    original = given.get(ORIGINAL, given)
    for name in subs(team.config, team.slots):
        mapped = _mapped(team, name, before, text)
        if done:
            if not any(key in shown or key in mapped for key in team.keys(name)):
                shown[team.keys(name)[0]] = text
            if _checks(team, name):
                shown |= {"answer": text, "question": request(original)}
            shown[ORIGINAL] = original
        shown = shown | mapped
        try:
            reply: TurnFinished = yield _question(team, name, shown)
        except AgentFailed as failed:
            raise PatternFailed(_failed(name, failed)) from failed
        done.append(_done(name, reply))
        before, text, shown = done[-1].output or {}, said(reply), _passed_on(reply)
    return SequentialResult(text=text, sub_results=tuple(done), final_output=_final(team, done[-1]))


def _side_by_side(team: Team, given: dict[str, Any]) -> Conversation:
    """Run all at once. A failure cancels no other team, so speed does not decide what runs."""
    config: CompoundSettings = team.config
    names = subs(config, team.slots)
    replies = yield Together(*(_question(team, name, given) for name in names), most=config.max_concurrency)
    done: list[SubResult] = []
    failures: list[SlotFailure] = []
    texts: list[str] = []
    for name, got in zip(names, replies, strict=True):
        match got:
            case TurnFinished():
                done.append(_done(name, got))
                texts.append(said(got) if len(names) == 1 else f"[{name}]: {said(got)}")
            case AgentFailed():
                done.append(SubResult(name=name, status="failed", output=None, error=got.reason))
                failures.append(failure(name, got))
    if failures and (config.failure_policy == "all" or not texts):
        reasons = "; ".join(f"Sub-topology '{one.slot}' failed: {one.reason}" for one in failures)
        raise PatternFailed(reasons, one_kind(failures))
    return ParallelResult(text="\n\n".join(texts), sub_results=tuple(done), failures=tuple(failures))


def _chosen(team: Team, given: dict[str, Any]) -> Conversation:
    name = given.get("route_to") or subs(team.config, team.slots)[0]
    try:
        reply: TurnFinished = yield _question(team, name, given)
    except AgentFailed as failed:
        raise PatternFailed(_failed(name, failed)) from failed
    done = _done(name, reply)
    return ConditionalResult(text=said(reply), selected_route=name, status=done.status, output=done.output or {})


def _question(team: Team, name: str, shown: dict[str, Any]) -> Question:
    """Give the team *name* all of *shown*; a single agent gets the task in it, or else everything as JSON.

    An agent that continues another's work is shown the original request, too.
    """
    task = task_of(team.keys(name), shown)
    prompt, asked = task or as_json(shown), request(shown[ORIGINAL]) if ORIGINAL in shown else ""
    return Question(
        name, f"The request:\n\n{asked}\n\nThe result so far:\n\n{prompt}" if asked else prompt, given=shown
    )


def _checks(team: Team, name: str) -> bool:
    """Whether the team *name* is a cross-check whose task is not mapped, so that it checks the answer so far."""
    config: CompoundSettings = team.config
    mapped = config.mapping.get(name, {})
    return (
        name in team.subs
        and isinstance(team.subs[name].config, CrossCheckSettings)
        and not any(key in mapped for key in team.keys(name))
    )


def _check_mapping(team: Team) -> None:
    """Reject mappings that no run could apply, before any turn starts.

    Raises:
        PatternFailed: If a mapping names a key that the previous team does not return.
    """
    config: CompoundSettings = team.config
    for before, name in pairwise(subs(config, team.slots)):
        kind = _KIND_OF.get(type(team.subs[before].config)) if before in team.subs else None
        for key, source in config.mapping.get(name, {}).items():
            if kind is not None and source not in (known := keys_of(kind)):
                raise PatternFailed(f"mapping.{name}.{key} wants {source!r}, and {before} gives {', '.join(known)}")


def _mapped(team: Team, name: str, before: Mapping[str, Any], text: str) -> dict[str, Any]:
    """The mapped keys for *name*, taken from the dict *before* it.

    Raises:
        PatternFailed: If a mapping names an unknown key.
    """
    config: CompoundSettings = team.config
    found: dict[str, Any] = {}
    for key, source in config.mapping.get(name, {}).items():
        if source != TEXT and source not in before:
            has = ", ".join(before) or "nothing"
            raise PatternFailed(f"mapping.{name}.{key} wants {source!r}, and what came before has {has}")
        found[key] = text if source == TEXT else before[source]
    return found


def _passed_on(reply: TurnFinished) -> dict[str, Any]:
    """The outputs of *reply* for the next team, without inputs and without text, usage and empty failures."""
    outputs: dict[str, Any] = _without_inputs(reply.outputs)
    for name in ("text", "usage"):
        outputs.pop(name, None)
    for name in ("failures", "warnings"):
        if not outputs.get(name):
            outputs.pop(name, None)
    return outputs


def _without_inputs(value: Any, depth: int = _DEEPEST) -> Any:
    """*value* without the inputs of pipeline stages.

    Only dicts with all keys of a pipeline's result are changed: an agent may use any single key for itself.
    """
    match value:
        case dict() if depth:
            kept = {name: _without_inputs(item, depth - 1) for name, item in value.items()}
            if kept.keys() >= _OF_PIPELINE:
                for part in (*_each(kept["stage_results"]), *_each(kept["checkpoints"])):
                    part.pop("input", None)
                for final in _each([kept["final_output"]]):
                    final.pop("original_input", None)
            return kept
        case list() if depth:
            return [_without_inputs(item, depth - 1) for item in value]
        case _:
            return value


def _each(parts: Any) -> list[dict[str, Any]]:
    """The dicts in *parts*."""
    found = parts.values() if isinstance(parts, dict) else parts if isinstance(parts, list) else ()
    return [part for part in found if isinstance(part, dict)]


def _final(team: Team, last: SubResult) -> dict[str, Any]:
    """The final output of a sequence whose last team returned *last*."""
    output, sub = last.output or {}, team.subs.get(last.name)
    if sub is not None and isinstance(sub.config, CompoundSettings) and sub.config.composition_type == "sequential":
        return dict(output.get("final_output", output))
    return output


def _done(name: str, reply: TurnFinished) -> SubResult:
    output = reply.outputs if "text" in reply.outputs else {"content": reply.text, **reply.outputs}
    return SubResult(name=name, status="completed", output=output)


def _failed(name: str, failed: AgentFailed) -> str:
    return f"Sub-topology '{name}' failed: {failed.reason}"
