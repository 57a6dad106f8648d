"""Where a run keeps its files and where its agents work, from its settings."""

from msgspec import Struct


class RunPlace(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Locations of a run's files, and whether it has a separate git work tree. Fixed when the run starts.

    Attributes:
        project: The loop's folder; *preset* is the name of its overrides.
        work_dir: Where the run was started.
        state_dir: Where runs write; relative to *work_dir*.
        worktree: Whether the run gets a separate git work tree; None: if another run is live in the same tree.
        cleanup: When the work tree is removed: `on_success`, `always` or `never`.
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
