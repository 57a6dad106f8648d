"""The flow engine."""

from coterie.engines.flow.engine import Decision, FlowEngine

__all__ = ["Decision", "FlowEngine"]
