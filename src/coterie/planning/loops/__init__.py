"""From the folder of a loop and its settings to a plan."""

from coterie.planning.loops.folder import plan_folder, reread
from coterie.planning.loops.resolve import plan_loop

__all__ = ["plan_folder", "plan_loop", "reread"]
