"""The event-routed loop: the next role, the events it may emit, and the end of the run."""

from coterie.engines.loop.brief import Brief
from coterie.engines.loop.engine import LoopEngine
from coterie.engines.loop.verdict import View, verdict

__all__ = ["Brief", "LoopEngine", "View", "verdict"]
