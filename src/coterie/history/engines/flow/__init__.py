"""The flow engine."""

from coterie.history.engines.flow.engine import Decision, FlowEngine

__all__ = ["Decision", "FlowEngine"]
