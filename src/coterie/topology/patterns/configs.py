"""The configuration of each pattern: every field, its default and its range.

Names and defaults are those of the reference's `*Config` classes; what it does not have stands after a blank line.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct

Share = Annotated[float, Meta(ge=0, le=1)]
Probability = Annotated[float, Meta(gt=0, lt=1)]
Natural = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]
UpToTen = Annotated[int, Meta(ge=1, le=10)]

Consensus = Literal["majority", "unanimous", "weighted", "mediator", "first_agree"]
Aggregation = Literal["vote", "average", "weighted", "concat", "best_of", "synthesis"]
Weights = Literal["log_odds", "linear", "uniform"]


class Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every configuration is: frozen, and without fields that nobody knows."""


class DebateConfig(Config, frozen=True, kw_only=True):
    """How long two sides argue, and who decides.

    Attributes:
        max_rounds: Exchanges at most; in each the opponent answers the proponent.
        consensus_method: `mediator`: the mediator decides; `majority`, `weighted` and `unanimous`: both sides and the
            mediator vote; `first_agree`: the argument that the other side first agrees with, else the mediator.
        convergence_threshold: How sure both sides must agree for the debate to end early.
        allow_early_termination: Whether it may end early at all.
        mediator_agent_name: The agent that fills the slot `mediator`, when no slot has that name.
        min_rounds: Exchanges before the debate may end early.
        swap_verdict: Ask for the verdict twice, the sides in both orders; two different ones are told as inconsistent.
    """

    max_rounds: UpToTen = 3
    consensus_method: Consensus = "mediator"
    convergence_threshold: Share = 0.8
    allow_early_termination: bool = True
    mediator_agent_name: str | None = None

    min_rounds: UpToTen = 1
    swap_verdict: bool = False


class ChainConfig(Config, frozen=True, kw_only=True):
    """Who commands whom, and when work comes back up.

    Attributes:
        authority_levels: From the top down; a slot belongs to the level that it is named after (`worker_2`).
        escalation_threshold: A result with less confidence goes back to whoever gave the task.
        max_delegation_depth: How often a task may be handed down.
        max_subtasks: Subtasks that count of one plan.
        max_concurrency: Subtasks of one level that run at once; None is without limit.
    """

    authority_levels: Annotated[tuple[str, ...], Meta(min_length=1, max_length=100)] = (
        "commander",
        "lieutenant",
        "worker",
    )
    escalation_threshold: Share = 0.5
    max_delegation_depth: Positive = 3

    max_subtasks: Positive = 10
    max_concurrency: Positive | None = None


class DelegationConfig(Config, frozen=True, kw_only=True):
    """Who gets a task.

    Attributes:
        routing_strategy: `capability_match`: who can do all that it requires; `coordinator`: whom the slot
            `coordinator` names; `round_robin`: the next.
        load_balance: Of several who could, the one with the fewest tasks so far; otherwise the first.
        fallback_agent_name: The slot that gets what nobody else can do.
        max_concurrency: Tasks that run at once; None is without limit.
    """

    routing_strategy: Literal["capability_match", "coordinator", "round_robin"] = "capability_match"
    load_balance: bool = True
    fallback_agent_name: str | None = None

    max_concurrency: Positive | None = None


class EnsembleConfig(Config, frozen=True, kw_only=True):
    """How the answers of several become one.

    Attributes:
        aggregation_method: `vote`: the answer that most give; `weighted`: the one whose givers weigh most; `average`:
            the mean of the numbers; `best_of`: the answer of who is surest; `concat`: all, one after another;
            `synthesis`: what the slot `aggregator` makes of them.
        diversity_weight: How much the order in which an aggregator sees the answers favours different ones.
        failure_threshold: The largest share of members that may fail.
        samples: How often each member is asked.
        layers: Rounds of a mixture of agents: from the second on, each member sees the answers of the one before.
        stop_when_decided: Ask no further member once the rest could not change the vote.
        weights: What a confidence weighs: `log_odds` is right for independent voters, `linear` is the confidence
            itself, `uniform` leaves it out.
        accuracy: How often each slot is right, as measured; counts instead of the confidence that it says.
        average: `mean`, `median`, or `trimmed` (the mean without the outer fifths).
        max_concurrency: Members asked at once; None is without limit.
    """

    aggregation_method: Aggregation = "synthesis"
    diversity_weight: Share = 0.3
    failure_threshold: Share = 0.5

    samples: Annotated[int, Meta(ge=1, le=100)] = 1
    layers: UpToTen = 1
    stop_when_decided: bool = False
    weights: Weights = "log_odds"
    accuracy: dict[str, Probability] = {}
    average: Literal["mean", "median", "trimmed"] = "mean"
    max_concurrency: Positive | None = None


class PipelineConfig(Config, frozen=True, kw_only=True):
    """In what order stages work, and how often one is tried.

    Attributes:
        stages: The slots in their order; empty: as they are declared.
        checkpoint_after: The stages whose input and output the result keeps.
        retry_failed_stages: Whether the pipeline says how often a stage is tried; otherwise each agent does.
        max_stage_retries: Further attempts of a stage, with *retry_failed_stages*; the agent's own do not come on top.
    """

    stages: tuple[str, ...] = ()
    checkpoint_after: tuple[str, ...] = ()
    retry_failed_stages: bool = True
    max_stage_retries: Natural = 2


class CrossCheckConfig(Config, frozen=True, kw_only=True):
    """Who judges an answer, and what their verdicts come to.

    Attributes:
        num_checkers: How often a single slot named `checker` is asked, each time independently.
        consensus_method: `majority`: more approve than reject; `unanimous`: nobody rejects; `weighted`: those who
            approve weigh more; `mediator`: the slot `mediator` decides; `first_agree`: who first has a quorum.
        require_unanimous_for_approval: A single rejection rejects, whatever the method.
        checker_specializations: The i-th joins the question of checker i.
        quorum: Verdicts that must come; a checker that fails abstains.
        weights: What a confidence weighs, for the method `weighted`: as in an ensemble.
        accuracy: How often each slot is right, as measured; counts instead of the confidence that it says.
        max_revisions: How often a rejected answer goes back to the primary, with the issues, and is checked again.
        stop_when_decided: Ask no further checker once the rest could not change the decision.
        max_concurrency: Checkers asked at once; None is without limit.
    """

    num_checkers: Annotated[int, Meta(ge=2, le=10)] = 3
    consensus_method: Consensus = "majority"
    require_unanimous_for_approval: bool = False
    checker_specializations: tuple[str, ...] = ()

    quorum: Positive = 2
    weights: Weights = "log_odds"
    accuracy: dict[str, Probability] = {}
    max_revisions: Annotated[int, Meta(ge=0, le=10)] = 0
    stop_when_decided: bool = False
    max_concurrency: Positive | None = None


class CompoundConfig(Config, frozen=True, kw_only=True):
    """In what order teams work on one input.

    Attributes:
        sub_topologies: The slots in their order; empty: as they are declared.
        composition_type: `sequential`: each gets what the one before gave; `parallel`: all get the same;
            `conditional`: the one that the input's `route_to` names, else the first.
        failure_policy: In parallel: `all` must complete, or `any` of them.
        mapping: By sub-topology: which key of its input comes from which key of the dict before it; `text` is the
            text that the one before gave.
        max_concurrency: Sub-topologies that run at once; None is without limit.
    """

    sub_topologies: tuple[str, ...] = ()
    composition_type: Literal["sequential", "parallel", "conditional"] = "sequential"

    failure_policy: Literal["all", "any"] = "all"
    mapping: dict[str, dict[str, str]] = {}
    max_concurrency: Positive | None = None
