"""Transports, which carry messages to agents of other processes; `base.py` states their contract."""
