"""The seven patterns, a module each."""
