"""What a pattern is: its kind, its configuration, its slots, and what makes them fit together."""
