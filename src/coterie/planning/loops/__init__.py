"""From the folder of a loop and its settings to a plan."""

from coterie.planning.loops.resolve import plan_folder, plan_loop, reread

__all__ = ["plan_folder", "plan_loop", "reread"]
