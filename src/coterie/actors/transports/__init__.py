"""How messages reach agents of other processes: one promise (`base.py`) and what keeps it."""
