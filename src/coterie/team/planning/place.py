"""Where a run keeps its files and where its agents work, from its settings."""

import os
from pathlib import Path

from msgspec import Struct

PATHS = ("project", "work_dir", "state_dir", "journal_file", "memory_file", "tasks_file", "root")
"""The fields of a place that are paths."""


class RunPlace(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Locations of a run's files, and whether it has a separate git work tree. Fixed when the run starts.

    Attributes:
        project: The loop's folder; *preset* is the name of its overrides.
        work_dir: Where the run was started.
        state_dir: Where runs write; relative to *work_dir*.
        worktree: Whether the run gets a separate git work tree; None: if another run is live in the same tree.
        copy: The ignored files, as patterns, that a new work tree gets from the user's checkout.
        setup: Commands that prepare a new work tree before an agent works in it.
        cleanup: When the work tree is removed: `on_success`, `always` or `never`.
        root: The folder of which its agents have copies on other machines; empty: they work here.
    """

    project: str = ""
    preset: str = ""
    work_dir: str = ""
    state_dir: str = ".autoloop"
    journal_file: str = ".autoloop/journal.jsonl"
    memory_file: str = ".autoloop/memory.jsonl"
    tasks_file: str = ".autoloop/tasks.jsonl"
    log_level: str = "info"
    run_id_format: str = "human"
    worktree: bool | None = None
    branch_prefix: str = "autoloop"
    merge_strategy: str = "squash"
    cleanup: str = "on_success"
    root: str = ""

    def named(self, path: str) -> str:
        """The absolute *path* as texts for agents name it: relative to where they work, if they have copies of it."""
        if not self.root or not Path(path).is_relative_to(self.root):
            return path
        return os.path.relpath(path, self.work_dir if Path(self.work_dir).is_relative_to(self.root) else self.project)

    copy: tuple[str, ...] = ()
    setup: tuple[tuple[str, ...], ...] = ()
