"""For users and their tests: scripted agents, virtual time, and the simulation."""

from coterie.clock import VirtualClock
from coterie.testing.series import Series, simulate_many
from coterie.testing.simulation import SimulationFailed, Survived, simulate

__all__ = ["Series", "SimulationFailed", "Survived", "VirtualClock", "simulate", "simulate_many"]
