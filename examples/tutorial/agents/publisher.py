"""Puts the note into note.md: whole or not at all."""

from pathlib import Path

from turn import said_by

note = said_by("writer")
draft = Path("note.md.new")
draft.write_text(note, encoding="utf-8")
draft.replace("note.md")
print(f"note.md has {len(note.splitlines())} lines.")
