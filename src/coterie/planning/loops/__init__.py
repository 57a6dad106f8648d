"""From the folder of a loop and its settings to a plan."""
