"""Prove plans before anything is spent: that they end, what they take at worst, and what never happens.

Other packages import `flow_report`, `loop`, `measures`, `pattern`, `preflight`, `witness`, `worst_case`; the rest is
internal.
"""

from coterie.proofs.dispatch import check
from coterie.proofs.measures import Prices
from coterie.proofs.options import STATES
from coterie.proofs.report import Case, Cost, Finding, Join, Report

__all__ = ["STATES", "Case", "Cost", "Finding", "Join", "Prices", "Report", "check"]
