"""What can be proved of a plan before anything is spent."""
