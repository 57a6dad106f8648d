"""The built-in tools of a model, and the rules of a file about their calls.

A rule is `TOOL` or `TOOL(PATTERN)`. A call that needs approval is refused, since no backend can request approval yet.
`coterie.agents.backends.models.rules` matches the patterns.
"""

import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from msgspec import Struct

READING = ("Read", "Grep", "Glob")
"""The tools that read files of the working directory."""
CHANGING = ("Write", "Edit")
"""The tools that change files of the working directory."""
BUILT_IN = (*READING, *CHANGING, "Bash")
"""The names in `tools` of the tools that every model can be offered."""

_COVERED = {"Read": READING, "Edit": CHANGING, "Write": CHANGING}
"""The tools covered by a rule about each tool; `Edit` also reads, so it must not edit what `Read` must not read."""
_UNATTENDED = ("", "autonomous", "auto", "unrestricted", "bypass")
_UNRESTRICTED = ("unrestricted", "bypass")
_LATER = "which no model can request yet"
_RULE = re.compile(r"([^()]+)(?:\((.*)\))?", re.DOTALL)


class Rule(Struct, frozen=True):
    """A rule about calls of a tool; without a pattern it is about all of them. *text* is the rule as written."""

    tool: str
    pattern: str
    text: str

    def covers(self, tool: str, *, forbids: bool = False) -> bool:
        """Whether the rule is about *tool*. A rule that *forbids* reading also covers editing."""
        also = forbids and self.tool == "Read" and tool == "Edit"
        return also or tool in _COVERED.get(self.tool, ()) or fnmatchcase(tool, self.tool)


class Permissions(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a file says about the tools of an agent.

    Attributes:
        mode: The agent's `permissions`. By default it may do all that its tools do, except run programs, which needs
            a rule in *allow* or the mode `unrestricted`. In other modes every change needs one.
        allow: Calls that need no approval.
        deny: Forbidden calls. These rules come first.
        ask: Calls that need approval.
    """

    mode: str = ""
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()

    def needs_approval(self, tool: str) -> bool:
        """Whether a call of *tool* needs a rule in `allow`."""
        if tool == "Bash":
            return self.mode not in _UNRESTRICTED
        return tool in CHANGING and self.mode not in _UNATTENDED

    def forbids(self, tool: str) -> bool:
        """Whether no call of *tool* is allowed."""
        return _covers_all(self.deny, tool)

    def waits(self, tool: str) -> str:
        """Why every call of *tool* needs approval; empty if some do not."""
        if _covers_all(self.ask, tool):
            return f"'ask' of 'settings' requires approval, {_LATER}"
        if not self.needs_approval(tool) or any(rule.covers(tool) for rule in read_rules(self.allow)):
            return ""
        if self.mode in _UNATTENDED:
            return "no rule allows it"
        return f"'permissions: {self.mode}' requires approval, {_LATER}"


def read_rules(texts: Iterable[str], *, forbid: bool = False) -> Sequence[Rule]:
    """Parse the rules in *texts*. An invalid rule allows nothing; if rules *forbid*, it covers its whole tool."""
    rules = []
    for text in texts:
        if found := _RULE.fullmatch(text.strip()):
            pattern = (found[2] or "").strip().strip("\"'")
            rules.append(Rule(found[1].strip(), "" if pattern in ("*", "**") else pattern, text))
        elif forbid:
            rules.append(Rule(text.partition("(")[0].strip(), "", text))
    return rules


def _covers_all(texts: Iterable[str], tool: str) -> bool:
    return any(not rule.pattern and rule.covers(tool, forbids=True) for rule in read_rules(texts, forbid=True))
