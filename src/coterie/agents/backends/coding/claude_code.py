"""Environment variables for Claude Code, independent of the protocol."""

DEFAULTS = {
    "CLAUDE_CODE_MAX_RETRIES": "0",  # the run retries, and records it
    "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",  # work in the background would be ended with the process
    "CLAUDE_CODE_DISABLE_CRON": "1",
    "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",  # notes of one agent would reach all others
    "CLAUDE_CODE_MAX_SUBAGENTS_PER_SESSION": "16",
    "CLAUDE_CODE_MAX_CONCURRENT_SUBAGENTS": "4",
    "CLAUDE_CODE_MAX_SUBAGENT_SPAWN_DEPTH": "1",  # sub-agents start no further ones
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
}
"""Defaults that the user can override; other programs ignore them."""
