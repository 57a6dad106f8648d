"""The closed vocabularies of the reference's data model; the value of a member is stored."""

from enum import StrEnum


class AgentRole(StrEnum):
    """The main role of an agent in its team."""

    PLANNER = "planner"
    EXECUTOR = "executor"
    REVIEWER = "reviewer"
    CRITIC = "critic"
    SYNTHESIZER = "synthesizer"
    SPECIALIST = "specialist"
    COORDINATOR = "coordinator"
    OBSERVER = "observer"


class ExecutionStatus(StrEnum):
    """The status of an execution; a paused one waits, for a human or a higher limit, and can be resumed."""

    PENDING = "pending"
    RUNNING = "running"
    PAUSED = "paused"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class MessageType(StrEnum):
    """The purpose of a message between agents."""

    REQUEST = "request"
    RESPONSE = "response"
    FEEDBACK = "feedback"
    ESCALATION = "escalation"
    BROADCAST = "broadcast"
    SYSTEM = "system"


class ConsensusMethod(StrEnum):
    """The method that combines verdicts."""

    MAJORITY_VOTE = "majority"
    UNANIMOUS = "unanimous"
    WEIGHTED_VOTE = "weighted"
    MEDIATOR_DECISION = "mediator"
    FIRST_AGREEMENT = "first_agree"


class AggregationMethod(StrEnum):
    """The method that combines answers."""

    VOTE = "vote"
    AVERAGE = "average"
    WEIGHTED = "weighted"
    CONCAT = "concat"
    BEST_OF = "best_of"
    SYNTHESIS = "synthesis"
