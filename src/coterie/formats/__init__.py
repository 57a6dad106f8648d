"""Text to topology and back."""
