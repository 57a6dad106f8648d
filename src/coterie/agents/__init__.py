"""What does the work: backends, what agents work on, and agents that answer messages."""
