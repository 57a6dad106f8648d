"""For users and their tests: virtual time, rehearsals, the simulation, and recorded answers of models."""

from coterie.clock import VirtualClock
from coterie.runs.rehearsal import rehearse
from coterie.testing.cassettes import cassette
from coterie.testing.series import Series, simulate_many
from coterie.testing.simulation import SimulationFailed, Survived, simulate

__all__ = [
    "Series",
    "SimulationFailed",
    "Survived",
    "VirtualClock",
    "cassette",
    "rehearse",
    "simulate",
    "simulate_many",
]
