"""The configuration of each pattern: every field, its default and its range.

Names and defaults are those of the reference's `*Config` classes; our additions follow a blank line.
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
    """Base class: frozen, and unknown fields are errors."""


class DebateSettings(Config, frozen=True, kw_only=True):
    """Length of a debate, and who decides it.

    Attributes:
        max_rounds: Exchanges at most; in each the opponent answers the proponent.
        consensus_method: `mediator`: the mediator decides; `majority`, `weighted` and `unanimous`: both sides and the
            mediator vote; `first_agree`: the argument that the other side first agrees with, else the mediator.
        convergence_threshold: How sure both sides must agree for the debate to end early.
        allow_early_termination: Whether the debate may end early.
        mediator_agent_name: The agent that fills the slot `mediator`, when no slot has that name.
        min_rounds: Exchanges before the debate may end early.
        swap_verdict: Request the verdict twice, with the sides in both orders; differing ones are inconsistent.
    """

    max_rounds: UpToTen = 3
    consensus_method: Consensus = "mediator"
    convergence_threshold: Share = 0.8
    allow_early_termination: bool = True
    mediator_agent_name: str | None = None

    min_rounds: UpToTen = 1
    swap_verdict: bool = False


class ChainSettings(Config, frozen=True, kw_only=True):
    """Levels of a chain of command, delegation depth and escalation.

    Attributes:
        authority_levels: From the top down; a slot belongs to the level it is named after (`worker_2`).
        escalation_threshold: A result with less confidence goes back to the delegating agent.
        max_delegation_depth: How often a task may be delegated further.
        max_subtasks: Maximum subtasks of one plan; further ones are ignored.
        max_concurrency: Maximum subtasks of one level that run at once; None: unlimited.
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


class DelegationSettings(Config, frozen=True, kw_only=True):
    """Assignment of tasks to agents.

    Attributes:
        routing_strategy: `capability_match`: an agent with all required capabilities; `coordinator`: the one that
            the slot `coordinator` names; `round_robin`: the next.
        load_balance: Among several candidates choose the one with the fewest tasks so far; otherwise the first.
        fallback_agent_name: The slot that gets tasks no other slot can do.
        max_concurrency: Maximum tasks that run at once; None: unlimited.
    """

    routing_strategy: Literal["capability_match", "coordinator", "round_robin"] = "capability_match"
    load_balance: bool = True
    fallback_agent_name: str | None = None

    max_concurrency: Positive | None = None


class EnsembleSettings(Config, frozen=True, kw_only=True):
    """How several answers are combined into one.

    Attributes:
        aggregation_method: `vote`: the most frequent answer; `weighted`: the one with the most weight; `average`:
            the mean of the numbers; `best_of`: the most confident answer; `concat`: all, one after another;
            `synthesis`: the answer of the slot `aggregator`.
        diversity_weight: How strongly the order of answers shown to the aggregator favours different ones.
        failure_threshold: The largest share of members that may fail.
        samples: Calls per member.
        layers: Rounds of a mixture of agents: from the second on, each member sees the previous round's answers.
        stop_when_decided: Call no further member once the rest could not change the vote.
        weights: Weight of a confidence: `log_odds` is correct for independent voters, `linear` is the confidence
            itself, `uniform` ignores it.
        accuracy: Measured accuracy of each slot; used instead of the confidence it reports.
        average: `mean`, `median`, or `trimmed` (the mean without the outer fifths).
        max_concurrency: Maximum members called at once; None: unlimited.
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


class CrossCheckSettings(Config, frozen=True, kw_only=True):
    """Checkers of an answer, and how their verdicts are combined.

    Attributes:
        num_checkers: How often a single slot named `checker` is called, each time independently.
        consensus_method: `majority`: more approve than reject; `unanimous`: none rejects; `weighted`: the approvals
            weigh more; `mediator`: the slot `mediator` decides; `first_agree`: the first side with a quorum.
        require_unanimous_for_approval: A single rejection rejects, whatever the method.
        checker_specializations: The i-th is added to the prompt of checker i.
        quorum: Required number of verdicts; a checker that fails abstains.
        weights: Weight of a confidence with the method `weighted`, as in an ensemble.
        accuracy: Measured accuracy of each slot; used instead of the confidence it reports.
        max_revisions: How often a rejected answer goes back to the primary, with the issues, and is checked again.
        stop_when_decided: Call no further checker once the rest could not change the decision.
        max_concurrency: Maximum checkers called at once; None: unlimited.
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
