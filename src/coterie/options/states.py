"""Where coding agents keep their state in a home: what a confined one must write of it, and what it may only read.

A user's own sessions obey what lies in such a folder: settings, hooks, commands, extensions, lists of trusted folders.
So everything in it is read-only but what is named here, and what an agent adds to it is private to its attempt.
"""

from collections.abc import Mapping
from fnmatch import fnmatchcase

from msgspec import Struct

WHOLE = "."
"""The folder itself. As a login: it has a database in it, and of what is there only *scratch* is written."""


class AgentState(Struct, frozen=True):
    """A folder of an agent's state; names and patterns in it are separated by spaces.

    Attributes:
        folder: Its path in a home.
        variable: The variable that moves it.
        login: Names in it that the agent must write: it renews its login.
        sessions: Folders in it that belong to the run, so that a later attempt can go on in a session.
        scratch: Names in it, or patterns, without which the agent begins: it writes them anew.
        copied: A file that the agent rewrites, and of which it has a copy: in the folder if a variable moves that, else
            in the home.
        secrets: Names in it, or patterns, that contain secrets; `.`: all of it.
    """

    folder: str
    variable: str = ""
    login: str = ""
    sessions: str = ""
    scratch: str = ""
    copied: str = ""
    secrets: str = ""

    def is_own(self, name: str) -> bool:
        """Whether *name* in the user's folder is not shown to the agent, which has its own."""
        return name == self.copied or any(fnmatchcase(name, one) for one in f"{self.sessions} {self.scratch}".split())


_CODEX_SCRATCH = "history.jsonl log tmp shell_snapshots *.sqlite* models_cache.json"
_OPENCODE_SCRATCH = "log project snapshot tool-output opencode*.db*"
_LOGIN, _OAUTH = "auth.json", "oauth_creds.json google_accounts.json"
OTHERS: Mapping[str, tuple[AgentState, ...]] = {
    "codex": (AgentState(".codex", "CODEX_HOME", _LOGIN, "sessions", _CODEX_SCRATCH, secrets=_LOGIN),),
    "gemini": (
        AgentState(
            ".gemini", "", _OAUTH, "tmp", "history antigravity*", secrets="oauth_creds.json .env mcp-oauth-tokens*"
        ),
    ),
    "opencode": (
        AgentState(".config/opencode"),
        AgentState(
            ".local/share/opencode", "", _LOGIN, "storage", _OPENCODE_SCRATCH, secrets="auth.json mcp-auth.json"
        ),
        AgentState(".local/state/opencode", scratch="*"),
        AgentState(".cache/opencode"),
    ),
    "kiro": (
        AgentState(".kiro", sessions="sessions"),
        AgentState(".local/share/kiro-cli", login=WHOLE, scratch="*.sqlite3* history* *.lock", secrets=WHOLE),
        AgentState(".aws/sso/cache", login="kiro-auth-token.json", scratch="*"),
    ),
    "goose": (
        AgentState(".config/goose", secrets="secrets.yaml"),
        AgentState(".local/share/goose", sessions="sessions"),
        AgentState(".local/state/goose", scratch="*"),
    ),
    "copilot": (
        AgentState(".copilot", sessions="session-state", scratch="logs history-session-state", secrets=WHOLE),
        AgentState(".config/github-copilot", login="apps.json hosts.json", secrets=WHOLE),
    ),
    "cursor": (
        AgentState(".cursor", "", _LOGIN, "chats", "projects", secrets=_LOGIN),
        AgentState(".config/cursor", login=_LOGIN, secrets=WHOLE),
    ),
    "qwen": (AgentState(".qwen", "", _OAUTH, "tmp projects", secrets="oauth_creds.json"),),
}
"""The state of each agent without an entry among the backends, by a part of its name."""
