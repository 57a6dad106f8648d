"""Plan a loop from its folder and its settings."""

from coterie.team.planning.loops.folder import plan_folder, reread
from coterie.team.planning.loops.resolve import plan_loop

__all__ = ["plan_folder", "plan_loop", "reread"]
