"""Stages, one after the other: each works on the output of the previous one.

Retries of a stage are part of its agent's plan; the pattern only sees the final reply.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from msgspec import Struct

from coterie.base.diagnostics import did_you_mean
from coterie.history.engines.patterns.registry import Calls, Team, pattern
from coterie.history.engines.patterns.result import PatternResult, said
from coterie.history.engines.patterns.shown import as_json
from coterie.history.engines.questions import AgentFailed, Conversation, PatternFailed, Question, Tell
from coterie.history.journal.records import TurnFinished
from coterie.patterns.constructors import Filler, called_as, make_team
from coterie.team.topology.model import ArrowGroup, Topology
from coterie.team.topology.patterns import faults
from coterie.team.topology.patterns.configs import Config, Idle, Natural, arrow
from coterie.team.topology.patterns.faults import Fault
from coterie.team.topology.patterns.kinds import PatternSpec


class PipelineSettings(Config, frozen=True, kw_only=True):
    """Order of the stages, and retries.

    Attributes:
        stages: The slots in order; empty: in declaration order.
        checkpoint_after: Stages whose input and output are kept in the result.
        retry_failed_stages: Whether *max_stage_retries* applies; otherwise each agent's own retries do.
        max_stage_retries: Retries of a stage, with *retry_failed_stages*; the agent's own are not added.
    """

    stages: tuple[str, ...] = ()
    checkpoint_after: tuple[str, ...] = ()
    retry_failed_stages: bool = True
    max_stage_retries: Natural = 2

    def slot_faults(self, names: Sequence[str]) -> Iterator[Fault]:
        """Check that every stage of a pipeline has an agent."""
        found = stages(self, names)
        if not found:
            yield Fault("missing-slot", "Pipeline requires at least one stage", "slots")
        for stage in dict.fromkeys(found):
            if stage not in names:
                hint = did_you_mean(stage, names)
                yield Fault("missing-slot", f"No agent for stage: {stage}", "config.stages", hint=hint)
            if found.count(stage) > 1:
                yield Fault("bad-config", f"stages names {stage!r} more than once", "config.stages")
        for stage in self.checkpoint_after:
            if stage not in found:
                yield faults.no_such("config.checkpoint_after", stage, found)
        yield from faults.spare("stage", names, found)

    def idle_settings(self, written: Mapping[str, Any], names: Sequence[str]) -> Iterator[Idle]:
        """Settings without effect beside others."""
        retried = self.retry_failed_stages
        why = "retry_failed_stages is false"
        yield not retried and "max_stage_retries" in written, "max_stage_retries", why

    def handoffs(self, names: Sequence[str]) -> Iterator[ArrowGroup]:
        """The arrows between slots: which slot passes work to which."""
        for one, following in pairwise(stages(self, names)):
            yield arrow(one, (following,))

    def takes_all(self, names: Sequence[str], takes: Mapping[str, bool]) -> bool:
        """Return True: each stage gets the complete input of the pipeline."""
        return True

    def all_retries(self) -> int | None:
        """The retries of a stage, if they apply."""
        return self.max_stage_retries if self.retry_failed_stages else None


def stages(config: PipelineSettings, names: Sequence[str]) -> tuple[str, ...]:
    """The stages of a pipeline, in order."""
    return config.stages or tuple(names)


class StageResult(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The input and output of a stage; *retried*: its first attempt failed."""

    stage: str
    input: dict[str, Any]
    output: dict[str, Any]
    duration_ms: int
    retried: bool = False


class PipelineResult(PatternResult, frozen=True, kw_only=True):
    """The result of a pipeline.

    Attributes:
        checkpoints: Input and output of the stages that the configuration names.
        final_output: The input that a further stage would get.
    """

    stages: tuple[str, ...]
    stage_results: tuple[StageResult, ...]
    checkpoints: dict[str, dict[str, Any]]
    final_output: dict[str, Any]


@called_as('pipeline({"first": …, "second": …})')
def pipeline(
    slots: Mapping[str, Filler], /, *, name: str = "pipeline", description: str = "", **config: Any
) -> Topology:
    """Each stage works on the output of the previous one.

    Args:
        slots: The stages by name, in their order.
        config: Fields of `PipelineConfig`: `max_stage_retries`, `checkpoint_after`, …
    """
    return make_team("pipeline", slots, config, name, description)


def calls(team: Team, **numbers: Any) -> Calls:
    """Count the turns: one for every stage."""
    turns = dict.fromkeys(stages(team.config, team.slots), 1)
    return Calls(turns, turns)


SPEC = PatternSpec(
    "pipeline", "Pipeline", PipelineSettings, "Stages, one after the other.", results=(PipelineResult,), retries=0
)


@pattern(SPEC, calls=calls)
def play(team: Team, given: dict[str, Any]) -> Conversation:
    """Run each stage on the output of the previous one; a failed stage fails the pipeline."""
    config: PipelineSettings = team.config
    order = stages(config, team.slots)
    shown, text = given, ""
    done: list[StageResult] = []
    for n, stage in enumerate(order):
        try:
            reply: TurnFinished = yield _question(team, stage, shown)
        except AgentFailed as failed:
            raise PatternFailed(f"Pipeline failed at stage '{stage}': {failed.reason}") from failed
        text = said(reply)
        if not text:
            raise PatternFailed(f"Pipeline failed at stage '{stage}': it gave an empty answer")
        yield Tell(stage, None, "response", {"stage": stage, "status": "complete"}, n)
        done.append(
            StageResult(
                stage=stage,
                input=shown,
                output=_output(reply),
                duration_ms=round(reply.usage.seconds * 1000),
                retried=team.failed.get(stage, 0) > 0,
            )
        )
        shown = {"previous_stages": list(order[: n + 1]), "original_input": given, "current": text}
    return PipelineResult(
        text=text,
        stages=order,
        stage_results=tuple(done),
        checkpoints={
            one.stage: {"input": one.input, "output": one.output}
            for one in done
            if one.stage in config.checkpoint_after
        },
        final_output=shown,
    )


def _question(team: Team, stage: str, shown: dict[str, Any]) -> Question:
    """Ask the *stage* to work on *shown*.

    A team that accepts any input gets it as it is. As JSON inside a text, it would be quoted again in the JSON that the
    team's own stages see, and each pipeline in a pipeline would double every quotation mark.
    """
    sub = team.subs.get(stage)
    return Question(stage, _prompt(stage, shown), given=shown if sub is not None and _takes_all(sub) else None)


def _takes_all(team: Team) -> bool:
    """Whether *team* accepts any input: a pipeline, or a compound whose first teams do."""
    takes: bool = team.config.takes_all(team.slots, {name: _takes_all(sub) for name, sub in team.subs.items()})
    return takes


def _prompt(stage: str, shown: dict[str, Any]) -> str:
    return (
        f"You work at the stage '{stage}' of a pipeline. This reaches you, as JSON:\n\n"
        f"{as_json(shown)}\n\n"
        "Do your stage's part. What you answer is all that the next stage sees of your work."
    )


def _output(reply: TurnFinished) -> dict[str, Any]:
    """The output of the stage, and its usage."""
    outputs = {"outputs": reply.outputs} if reply.outputs else {}
    usage = {"input_tokens": reply.usage.input_tokens, "output_tokens": reply.usage.output_tokens}
    return {"content": reply.text, **outputs, "usage": usage}
