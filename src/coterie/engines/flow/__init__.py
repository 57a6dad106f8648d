"""The flow engine."""
