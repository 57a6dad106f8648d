"""What can be proved of a plan before anything is spent: that it ends, what it takes at worst, what never happens."""

from coterie.proofs.measures import Prices
from coterie.proofs.options import STATES
from coterie.proofs.proving import check
from coterie.proofs.report import Case, Cost, Finding, Join, Report

__all__ = ["STATES", "Case", "Cost", "Finding", "Join", "Prices", "Report", "check"]
