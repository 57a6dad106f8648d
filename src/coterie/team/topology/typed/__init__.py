"""Types and functions of Python as outputs and agents of a team."""
