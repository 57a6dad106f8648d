"""The driver of a run and its child runs: what is decided is appended, and leaves once it is durable."""
