"""The closed vocabularies of the reference's data model; what is stored is a member's value."""

from enum import StrEnum


class AgentRole(StrEnum):
    """What an agent mainly does in its team."""

    PLANNER = "planner"
    EXECUTOR = "executor"
    REVIEWER = "reviewer"
    CRITIC = "critic"
    SYNTHESIZER = "synthesizer"
    SPECIALIST = "specialist"
    COORDINATOR = "coordinator"
    OBSERVER = "observer"


class TopologyType(StrEnum):
    """How a team works together."""

    DEBATE = "debate"
    CHAIN_OF_COMMAND = "chain"
    DELEGATION = "delegation"
    CROSS_CHECK = "crosscheck"
    ENSEMBLE = "ensemble"
    PIPELINE = "pipeline"
    COMPOUND = "compound"


class ExecutionStatus(StrEnum):
    """How far an execution is; a paused one waits, for a human or for a higher limit, and can be resumed."""

    PENDING = "pending"
    RUNNING = "running"
    PAUSED = "paused"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class MessageType(StrEnum):
    """What one agent wants of another."""

    REQUEST = "request"
    RESPONSE = "response"
    FEEDBACK = "feedback"
    ESCALATION = "escalation"
    BROADCAST = "broadcast"
    SYSTEM = "system"


class ConsensusMethod(StrEnum):
    """How several verdicts become one."""

    MAJORITY_VOTE = "majority"
    UNANIMOUS = "unanimous"
    WEIGHTED_VOTE = "weighted"
    MEDIATOR_DECISION = "mediator"
    FIRST_AGREEMENT = "first_agree"


class AggregationMethod(StrEnum):
    """How several answers become one."""

    VOTE = "vote"
    AVERAGE = "average"
    WEIGHTED = "weighted"
    CONCAT = "concat"
    BEST_OF = "best_of"
    SYNTHESIS = "synthesis"
