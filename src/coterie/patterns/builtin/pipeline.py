"""Stages, one after the other: each works on the output of the previous one.

Retries of a stage are part of its agent's plan; the pattern only sees the final reply.
"""

from typing import Any

from msgspec import Struct

from coterie.engines.generator import AgentFailed, Conversation, PatternFailed, Question, Tell
from coterie.engines.patterns.registry import Calls, Team, pattern
from coterie.engines.patterns.result import PatternResult, said
from coterie.engines.patterns.shown import as_json
from coterie.journal.records import TurnFinished
from coterie.topology.patterns.configs import CompoundSettings, PipelineSettings
from coterie.topology.patterns.kinds import KINDS
from coterie.topology.patterns.slots import stages, subs


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


def calls(team: Team, **numbers: Any) -> Calls:
    """Count the turns: one for every stage."""
    turns = dict.fromkeys(stages(team.config, team.slots), 1)
    return Calls(turns, turns)


@pattern(KINDS["pipeline"], calls=calls)
def pipeline(team: Team, given: dict[str, Any]) -> Conversation:
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
    match team.config:
        case PipelineSettings():
            return True
        case CompoundSettings():
            names = subs(team.config, team.slots)
            first = names[:1] if team.config.composition_type == "sequential" else names
            return all(name in team.subs and _takes_all(team.subs[name]) for name in first)
        case _:
            return False


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
