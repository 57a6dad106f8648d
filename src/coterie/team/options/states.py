"""The folders in a home where coding agents keep their state, and the parts that a confined agent may write.

A user's own sessions obey the contents of such a folder: settings, hooks, commands, extensions, lists of trusted
folders. So everything in it is read-only except the names here, and new files of an agent are private to its attempt.
"""

from collections.abc import Mapping
from fnmatch import fnmatchcase

from msgspec import Struct

WHOLE = "."
"""The name of the folder itself.

As a `login`, it means a database in the folder; of the existing files the agent writes only *scratch*.
"""


class AgentState(Struct, frozen=True):
    """A folder of an agent's state; names and patterns in it are separated by spaces.

    Attributes:
        folder: Its path in a home.
        variable: The variable that moves it.
        login: Names in it that the agent must write, to renew its login.
        sessions: Folders in it that belong to the run, so that a later attempt can continue a session.
        scratch: Names or patterns in it that the agent does not see and writes anew.
        copied: A file that the agent rewrites, of which it gets a copy: in the folder if a variable moves that, else in
            the home.
        secrets: Names or patterns in it that contain secrets; `.`: the whole folder.
    """

    folder: str
    variable: str = ""
    login: str = ""
    sessions: str = ""
    scratch: str = ""
    copied: str = ""
    secrets: str = ""

    def is_own(self, name: str) -> bool:
        """Whether *name* in the user's folder is hidden from the agent, which has its own."""
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
"""The state of agents without an entry among the backends, by a part of the agent's name."""

OBEYED_IN_PROJECT = (
    *(
        ".claude/*",
        ".mcp.json",
        ".gemini/*",
        ".codex/*",
        ".cursor/*",
        ".cursorrules",
        ".kiro/*",
        ".opencode/*",
        ".pi/*",
    ),
    *(".vscode/*", ".idea/*", ".devcontainer/*", ".envrc", ".mise.toml", ".tool-versions", ".github/workflows/*"),
    *(".husky/*", ".githooks/*", ".gitmodules", ".gitattributes", ".pre-commit-config.yaml", ".lefthook.yml"),
    *("AGENTS.md", "CLAUDE.md", "CLAUDE.local.md", "GEMINI.md", ".github/copilot-instructions.md"),
)
"""Files of a project that a user's own tools obey when they are started there: agents, editors, shells, git.

They are work, so an agent may write them; a run says which of them it changed.
"""


def is_obeyed(path: str) -> bool:
    """Whether a user's tools obey *path*, relative to the top of its project; names such as `AGENTS.md`, anywhere."""
    name = path.rpartition("/")[2]
    return any(fnmatchcase(path, one) or ("/" not in one and name == one) for one in OBEYED_IN_PROJECT)
