"""What happened in a run: records, their codec, and the stores that keep them."""

from coterie.journal.base import Store, Writer
from coterie.journal.jsonl import JsonlStore
from coterie.journal.memory import MemoryStore

__all__ = ["JsonlStore", "MemoryStore", "Store", "Writer"]
