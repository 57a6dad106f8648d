"""Topology and settings to a plan: every default and precedence is resolved here and nowhere else."""
