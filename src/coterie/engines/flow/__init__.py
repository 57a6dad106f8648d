"""The flow engine."""

from coterie.engines.flow.engine import Decision, Flow
from coterie.engines.flow.on_max import human_agent

__all__ = ["Decision", "Flow", "human_agent"]
