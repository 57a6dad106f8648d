"""Runs on more than one machine: Temporal drives them, workers perform their turns, an export keeps their journals."""
