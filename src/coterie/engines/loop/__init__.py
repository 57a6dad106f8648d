"""The event-routed loop: which role is asked next, what it may emit, and when the run is over."""

from coterie.engines.loop.brief import Brief
from coterie.engines.loop.engine import Loop
from coterie.engines.loop.verdict import View, verdict

__all__ = ["Brief", "Loop", "View", "verdict"]
