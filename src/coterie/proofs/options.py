"""Options of a proof besides its plan."""

from math import isfinite

from msgspec import Struct

from coterie.proofs.measures import Prices
from coterie.proofs.report import Cost
from coterie.proofs.ways import Amounts
from coterie.team.topology.model import Topology

STATES = 100_000
"""The default limit of explored states, which takes a few seconds."""


class ProofOptions(Struct, frozen=True, kw_only=True):
    """Options of a prover.

    Attributes:
        prices: The price of a turn; None: no cost is computed.
        states: The maximum number of states to explore.
        topology: The source of the plan, for the places of findings.
    """

    prices: Prices | None = None
    states: int = STATES
    topology: Topology | None = None

    def cost(self, most: Amounts) -> Cost | None:
        """The worst cost in *most*; None without prices, or if the run is unbounded."""
        if self.prices is None or not isfinite(most[0]):
            return None
        return Cost(turns=round(most[-2], 6), attempts=round(most[-1], 6))
