"""The `.at` notation."""
