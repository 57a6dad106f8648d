"""For users and their tests: virtual time, rehearsals, crash simulation, recorded answers of models.

Other packages import `series`; the rest is internal.
"""

from coterie.base.clock import VirtualClock
from coterie.execution.runs.rehearsal import rehearse
from coterie.testing.cassettes import cassette
from coterie.testing.series import Series, simulate_many
from coterie.testing.simulated_agents import Assumptions, SimulatedAgents, Skill
from coterie.testing.simulation import Survived, simulate
from coterie.testing.world import SimulationFailed

__all__ = [
    "Assumptions",
    "Series",
    "SimulatedAgents",
    "SimulationFailed",
    "Skill",
    "Survived",
    "VirtualClock",
    "cassette",
    "rehearse",
    "simulate",
    "simulate_many",
]
