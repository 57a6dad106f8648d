"""Where a run keeps its files and where its agents work, as its settings say."""

from msgspec import Struct


class RunPlace(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where a run keeps things, and whether it works in a git work tree of its own. Fixed when the run starts.

    Attributes:
        project: The loop's folder, *preset* the name its overrides go by.
        work_dir: Where the run was started.
        state_dir: Where everything lies that runs write; relative paths begin in *work_dir*.
        worktree: Whether the run gets a git work tree of its own; None: when another run is live in the same tree.
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
