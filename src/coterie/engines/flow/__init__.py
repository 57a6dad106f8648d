"""The flow engine."""

from coterie.engines.flow.engine import Decision, Flow

__all__ = ["Decision", "Flow"]
