"""Agents in other processes: the supervisor's process decides, a worker hosts them, only names and data are sent."""
