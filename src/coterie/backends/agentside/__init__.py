"""The code that runs in an agent's process: the standard library only, so that it starts fast.

The wrapper of an attempt calls it without any package being installed where it runs, and `coterie emit` before anything
else is imported. Everything beyond a message and its verdict is left to the command line.
"""
