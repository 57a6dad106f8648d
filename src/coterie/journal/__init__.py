"""What happened in a run: records, their codec, and the stores that keep them."""
