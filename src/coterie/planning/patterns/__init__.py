"""Patterns: from a topology with slots to a plan with an agent for each."""

from coterie.planning.patterns.resolve import plan_pattern

__all__ = ["plan_pattern"]
