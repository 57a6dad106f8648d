"""For users and their tests: virtual time, the simulation, and recorded answers of models."""

from coterie.clock import VirtualClock
from coterie.testing.cassettes import cassette
from coterie.testing.series import Series, simulate_many
from coterie.testing.simulation import SimulationFailed, Survived, simulate

__all__ = ["Series", "SimulationFailed", "Survived", "VirtualClock", "cassette", "simulate", "simulate_many"]
