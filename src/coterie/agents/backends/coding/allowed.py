"""Recognize tool uses that need no person: commands of Coterie itself, and uses that rules allow.

A rule is `TOOL`, `Bash(COMMAND)` for exactly this command, or `Bash(BEGINNING:*)` for each command that begins with
these words. Only plain commands are understood, by the strictest reading of all shells: a text in which a shell would
expand, redirect, or run anything else matches only a rule with exactly this text.
"""

import re
from collections.abc import Collection, Iterable

from coterie.agents.backends import wrapper

OWN = ("emit", "memory", "task")
"""The commands with which an agent speaks to its run."""
NAMES = frozenset({wrapper.NAME, *wrapper.ALIASES})
"""The names of the program with these commands."""
SHELL = "Bash"
"""The name of the tool in rules about commands, whatever the agent's name for it is."""
_SHELLS = {f"{folder}{name}" for folder in ("", "/bin/", "/usr/bin/") for name in ("bash", "sh", "zsh", "dash")}
_PLAIN = re.compile(
    r"(?P<blank>[ \t]+)|(?P<end>\n|;|&&|\|\|)|'(?P<single>[^'\\\0]*)'"
    r'|"(?P<double>(?:[^"\\`$\0]|\\[^\0]|\$(?![({\[]|\w+\[))*)"|(?P<word>[\w./:=,@%+-][\w./:=,@%+#-]*)',
    re.DOTALL,
)
_UNKNOWN = "\0"
"""Replaces a word whose text depends on a shell."""


def commands_of(text: str) -> list[list[str]]:
    """The commands in *text*, each as words; none if a shell would do more than run them one after the other."""
    found, at, word = [list[str]()], 0, ""
    is_word = False
    while at < len(text):
        if (one := _PLAIN.match(text, at)) is None:
            return []
        at, kind = one.end(), one.lastgroup
        if kind in ("blank", "end"):
            found[-1] += [word] if is_word else []
            found += [[]] if kind == "end" else []
            word, is_word = "", False
        else:
            part = one[kind or ""]
            word += _UNKNOWN if kind == "double" and re.search(r"[\\$]", part) else part
            is_word = True
    found[-1] += [word] if is_word else []
    return [words for words in found if words]


def is_own(command: str, names: Collection[str] = NAMES) -> bool:
    """Whether *command* only calls Coterie's own commands, by one of *names*."""
    commands = commands_of(command)
    if len(commands) == 1 and len(commands[0]) == 3 and commands[0][0] in _SHELLS and commands[0][1] in ("-c", "-lc"):
        commands = commands_of(commands[0][2])
    return bool(commands) and all(len(one) > 1 and one[0] in names and one[1] in OWN for one in commands)


def rule_for(tool: str, command: str) -> str:
    """The rule that allows exactly this use of *tool*; empty if there is none."""
    if not command:
        return tool if re.fullmatch(r"[\w.:/-]+", tool) and tool != SHELL else ""
    return "" if command.endswith(":*") else f"{SHELL}({command})"


def fits(rules: Iterable[str], tool: str, command: str) -> bool:
    """Whether one of *rules* allows the use of *tool*; each of several commands in a text must be allowed."""
    known = set(rules)
    if not known or (rule_for(tool, command) or _UNKNOWN) in known or (SHELL if command else tool) in known:
        return bool(known)
    if not command:
        return False
    texts = [rule[len(SHELL) + 1 : -1] for rule in known if rule.startswith(f"{SHELL}(") and rule.endswith(")")]
    begins = [*(one[0] for text in texts if text.endswith(":*") and len(one := commands_of(text[:-2])) == 1)]
    exact = [*(one[0] for text in texts if not text.endswith(":*") and len(one := commands_of(text)) == 1)]
    commands = commands_of(command)
    return bool(commands) and all(
        one in exact or any(one[: len(words)] == words for words in begins) for one in commands
    )
