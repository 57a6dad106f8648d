"""One run: its core, its shell, and what starts and resumes it."""
