"""For users and their tests: scripted agents and the simulation."""
