"""Code that runs in an agent's process: it imports only the standard library, so that it starts fast.

The wrapper of an attempt calls it even where no package is installed, and `coterie emit` calls it before any other
import. It only sends a message and prints the verdict; the command line does the rest.
"""
