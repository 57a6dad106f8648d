"""The event-routed loop: the next role, the events it may emit, and the end of the run."""

from coterie.history.engines.loop.engine import LoopEngine
from coterie.history.engines.loop.prompt_state import PromptState
from coterie.history.engines.loop.verdict import View, verdict

__all__ = ["LoopEngine", "PromptState", "View", "verdict"]
