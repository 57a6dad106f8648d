"""Capabilities of agents: hooks around their calls, and the ones that are built in."""
