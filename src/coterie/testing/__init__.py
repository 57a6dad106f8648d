"""For users and their tests: scripted agents, virtual time, and the simulation."""

from coterie.clock import VirtualClock
from coterie.testing.simulation import SimulationFailed, Survived, simulate

__all__ = ["SimulationFailed", "Survived", "VirtualClock", "simulate"]
