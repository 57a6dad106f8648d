"""Agents in other processes: the supervisor's process decides, a worker hosts, and only names and data travel."""
