"""Combine teams: one after the other, side by side, or the one that the input names.

A team returns a dict, its outputs. The next team gets that dict without the inputs of pipeline stages in it: otherwise
each of several pipelines in a row would quote all earlier ones once per stage, and the input would grow without limit.
If the dict lacks the key in which the next team expects its task, that key is set to the text of the previous team, so
no team gets an empty question. The run's own input travels along as `original_input`. A cross-check gets the answer so
far and the question that it answers, and checks that answer.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal, assert_never

from msgspec import Struct

from coterie.base.diagnostics import did_you_mean
from coterie.history.engines.patterns.registry import Calls, Team, pattern
from coterie.history.engines.patterns.result import PatternResult, SlotFailure, failure, one_kind, said
from coterie.history.engines.patterns.shown import as_json, request
from coterie.history.engines.questions import AgentFailed, Conversation, PatternFailed, Question, Together
from coterie.history.journal.records import TurnFinished
from coterie.patterns.builtin.pipeline import PipelineResult
from coterie.patterns.constructors import Filler, called_as, make_team
from coterie.team.topology.model import ArrowGroup, Topology
from coterie.team.topology.patterns import faults
from coterie.team.topology.patterns.configs import Config, Idle, Positive, arrow
from coterie.team.topology.patterns.faults import Fault
from coterie.team.topology.patterns.inputs import ORIGINAL, task_of
from coterie.team.topology.patterns.kinds import KINDS, PatternSpec, keys_of


class CompoundSettings(Config, frozen=True, kw_only=True):
    """Composition of teams on one input.

    Attributes:
        sub_topologies: The slots in order; empty: in declaration order.
        composition_type: `sequential`: each gets the output of the previous one; `parallel`: all get the same input;
            `conditional`: only the one that the input's `route_to` names runs, else the first.
        failure_policy: In parallel: `all` must complete, or `any` of them.
        mapping: By sub-topology: input key to key of the previous output; `text` is the previous output's text.
        max_concurrency: Maximum sub-topologies that run at once; None: unlimited.
    """

    sub_topologies: tuple[str, ...] = ()
    composition_type: Literal["sequential", "parallel", "conditional"] = "sequential"

    failure_policy: Literal["all", "any"] = "all"
    mapping: dict[str, dict[str, str]] = {}
    max_concurrency: Positive | None = None

    def slot_faults(self, names: Sequence[str]) -> Iterator[Fault]:
        """Check that every sub-topology of a compound exists."""
        found = subs(self, names)
        if not found:
            yield Fault("missing-slot", "Compound requires at least one sub-topology", "slots")
        for sub in dict.fromkeys(found):
            if sub not in names:
                hint = did_you_mean(sub, names)
                yield Fault("missing-slot", f"Sub-topology not found: {sub}", "config.sub_topologies", hint=hint)
        for sub in self.mapping:
            if sub not in found:
                yield faults.no_such("config.mapping", sub, found)
        yield from faults.spare("sub-topology", names, found)

    def idle_settings(self, written: Mapping[str, Any], names: Sequence[str]) -> Iterator[Idle]:
        """Settings without effect beside others."""
        composed = self.composition_type
        why = f"composition_type is {composed}"
        yield composed != "sequential" and bool(self.mapping), "mapping", why
        for name in ("failure_policy", "max_concurrency"):
            yield composed != "parallel" and name in written, name, why

    def handoffs(self, names: Sequence[str]) -> Iterator[ArrowGroup]:
        """The arrows between slots: which slot passes work to which."""
        if self.composition_type == "sequential":
            for one, following in pairwise(subs(self, names)):
                yield arrow(one, (following,))

    def input_faults(
        self, title: str, keys: Sequence[str], capabilities: Mapping[str, Sequence[str]], given: Mapping[str, Any]
    ) -> Iterator[Fault]:
        """Check that the route in the input is known."""
        route, known = given.get("route_to"), subs(self, tuple(capabilities))
        if self.composition_type == "conditional" and route not in (None, "", *known):
            yield Fault("bad-route", f"Invalid route: {route}", hint=f"known sub-topologies: {', '.join(known)}")

    def plan_faults(self, names: Sequence[str], outputs: Mapping[str, Sequence[str]]) -> Iterator[Fault]:
        """Check that the previous team outputs each mapped key, if its outputs are known."""
        for before, name in pairwise(subs(self, names)):
            known = outputs.get(before)
            for key, source in self.mapping.get(name, {}).items():
                if known is not None and source not in known:
                    message = f"{key!r} of {name!r} is mapped from {source!r}, which {before!r} does not output"
                    hint = did_you_mean(source, known) or f"its outputs: {', '.join(known)}"
                    yield Fault("bad-mapping", message, f"config.mapping.{name}.{key}", hint=hint)

    def same_input(self, names: Sequence[str], given: Mapping[str, Any]) -> Iterator[str]:
        """All teams side by side, the chosen one, or the first of a sequence unless its input is mapped."""
        found = subs(self, names)
        match self.composition_type:
            case "parallel":
                yield from found if self.failure_policy == "all" else ()
            case "conditional":
                yield given.get("route_to") or found[0]
            case _:
                yield from (name for name in found[:1] if name not in self.mapping)

    def takes_all(self, names: Sequence[str], takes: Mapping[str, bool]) -> bool:
        """Whether the teams that get its input accept any input."""
        found = subs(self, names)
        return all(takes.get(name, False) for name in (found[:1] if self.composition_type == "sequential" else found))


def subs(config: CompoundSettings, names: Sequence[str]) -> tuple[str, ...]:
    """The sub-topologies of a compound, in order."""
    return config.sub_topologies or tuple(names)


TEXT = "text"
"""The name of the previous team's text in a mapping."""

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


@called_as('compound({"first": …, "second": …})')
def compound(
    teams: Mapping[str, Filler], /, *, name: str = "compound", description: str = "", **config: Any
) -> Topology:
    """Several teams work on one input: one after the other, side by side, or the one that `route_to` names.

    Args:
        teams: By name, in their order.
        config: Fields of `CompoundConfig`: `composition_type`, `mapping`, …
    """
    return make_team("compound", teams, config, name, description)


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


SPEC = PatternSpec(
    "compound",
    "Compound",
    CompoundSettings,
    "A combination of topologies; each is a separate execution.",
    results=(SequentialResult, ParallelResult, ConditionalResult),
)


@pattern(SPEC, calls=calls)
def play(team: Team, given: dict[str, Any]) -> Conversation:
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
        and team.subs[name].config.checks_answers
        and not any(key in mapped for key in team.keys(name))
    )


def _check_mapping(team: Team) -> None:
    """Reject mappings that no run could apply, before any turn starts.

    Raises:
        PatternFailed: If a mapping names a key that the previous team does not return.
    """
    config: CompoundSettings = team.config
    for before, name in pairwise(subs(config, team.slots)):
        kind = _kind_of(team.subs[before]) if before in team.subs else None
        for key, source in config.mapping.get(name, {}).items():
            if kind is not None and source not in (known := keys_of(kind)):
                raise PatternFailed(f"mapping.{name}.{key} wants {source!r}, and {before} gives {', '.join(known)}")


def _kind_of(team: Team) -> str | None:
    """The built-in pattern of *team*."""
    return next((kind.name for kind in KINDS.values() if kind.config is type(team.config)), None)


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
