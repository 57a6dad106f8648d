"""What an agent's own process uses to speak to its run: the standard library only, so that it starts at once.

The wrapper of an attempt calls it without any package being installed where it runs, and `coterie emit` before anything
else is imported. What needs more than a message and its verdict is left to the command line.
"""
