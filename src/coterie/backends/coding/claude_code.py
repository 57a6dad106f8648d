"""Variables of Claude Code, whichever protocol it is reached by."""

DEFAULTS = {
    "CLAUDE_CODE_MAX_RETRIES": "0",  # the run retries, and records it
    "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",  # what goes on after the answer would be ended with the process
    "CLAUDE_CODE_DISABLE_CRON": "1",
    "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",  # what one agent noted would reach all others
    "CLAUDE_CODE_MAX_SUBAGENTS_PER_SESSION": "16",
    "CLAUDE_CODE_MAX_CONCURRENT_SUBAGENTS": "4",
    "CLAUDE_CODE_MAX_SUBAGENT_SPAWN_DEPTH": "1",  # sub-agents start no others
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
}
"""They hold unless the user sets them; other programs ignore them."""
