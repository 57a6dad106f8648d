"""Split a shell command into pipelines and words, as far as possible without running it.

`coterie.agents.backends.coding.command_policy` judges the result. The time is linear in the length of the command.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import takewhile

from msgspec import Struct, field

LITERAL = "\0"
"""Precedes a quoted character in a word that a shell would otherwise expand."""
GIVEN = "$()"
"""Marks the place of a substitution in a word."""
_DEEPEST = 6
"""How many levels of nested substitutions are read."""
_TOKEN = re.compile(
    r"\\\n|\\(?P<escaped>.)|\$?'(?P<single>[^']*)'|(?P<text>\$\(\([^()]*\)\))|(?P<open>\$\(|[<>]\(|`)|(?P<quote>\")"
    r"|(?P<blank>[ \t\r]+)|<<(?!<)-?\s*(?:['\"\\]?(?P<mark>\w+)['\"]?)?|(?P<redirect>[<>][<>|&]*)"
    r"|(?P<pipe>\|&?(?!\|))|(?P<end>[;&|\n()])|(?P<plain>[^\\'\"$<>` \t\r|;&\n()#]+|.)",
    re.DOTALL,
)
_IN_QUOTES = re.compile(
    r"\\\n|\\(?P<escaped>.)|(?P<text>\$\(\([^()]*\)\))|(?P<open>\$\(|`)|(?P<quote>\")|(?P<single>[~*])"
    r"|(?P<plain>[^\\\"$`~*]+|.)",
    re.DOTALL,
)
_SKIPPED = re.compile(r"[A-Za-z_]\w*\+?=.*|[!{}]|if|then|elif|else|while|until|do|time", re.DOTALL)
_WRAPPERS = dict(
    re.findall(
        r"(\S+):(\w*)",
        "sudo:ugphCrtTDR doas:uC env:uC nice:n ionice:cnp timeout:ks xargs:IdEnPLsa stdbuf:ioe nohup: setsid: command: "
        "builtin: exec:a busybox: unshare: nsenter:t systemd-run:pu taskset: chrt: watch:n coproc: strace:eop",
    )
)
"""Programs that run another program, with their one-letter options that take a value."""


class Pipeline(Struct):
    """Commands joined by `|`, each as words, with the files that they write and the texts that they read.

    Attributes:
        given: The words of substitutions within it.
        is_open: Whether a quote or a substitution is not closed.
        closer: The closing character of its substitution, if it is in one.
        word: The parts of the word that is being read; *redirect* is the redirection before it.
        quoted: Whether double quotes are open.
    """

    closer: str = ""
    stages: list[list[str]] = field(default_factory=lambda: [[]])
    targets: list[str] = []
    documents: list[str] = []
    given: list[str] = []
    is_open: bool = False
    word: list[str] | None = None
    redirect: str = ""
    quoted: bool = False

    def add(self, part: str) -> None:
        """Add to the current word, or begin one."""
        if self.word is None:
            self.word = []
        self.word.append(part)

    def end_word(self) -> None:
        """Store the current word as an argument or a redirection."""
        if self.word is not None:
            word, redirect, self.word, self.redirect = "".join(self.word), self.redirect, None, ""
            if redirect == "<<<":
                self.documents.append(plain([word]))
            else:
                (self.targets if redirect.startswith(">") else self.stages[-1]).append(word)


def pipelines(text: str) -> Iterator[Pipeline]:
    """Yield the pipelines of a shell command; a substitution is a pipeline that precedes the enclosing one."""
    stack, marks, at = [Pipeline()], list[str](), 0
    while at < len(text) and len(stack) <= _DEEPEST:
        line = stack[-1]
        found = (_IN_QUOTES if line.quoted else _TOKEN).match(text, at)
        assert found is not None  # both may end in any character
        kind, token, at = found.lastgroup, found[0], found.end()
        closes = token == line.closer and not (token == ")" and line.quoted)
        if closes or kind in ("blank", "mark", "redirect", "pipe", "end"):
            line.end_word()
        if closes or kind == "end":
            for mark in marks if token == "\n" else ():  # here-documents that begin after this line
                end = re.compile(rf"^\t*{mark}$", re.MULTILINE).search(text, at)
                line.documents.append(text[at : end.start() if end else len(text)])
                at = end.end() if end else len(text)
            if token == "\n":
                marks.clear()
            yield from _end(stack)
            stack += [] if closes else [Pipeline(line.closer)]
        elif kind == "open":
            line.add(GIVEN)
            stack.append(Pipeline("`" if token == "`" else ")"))
        elif kind == "quote":
            line.quoted = not line.quoted
            line.add("")
        elif kind == "mark":
            marks.append(found["mark"])
        elif kind == "redirect":
            line.redirect = token
        elif kind == "pipe":
            line.stages.append([])
        elif kind in ("escaped", "single"):
            line.add(re.sub(r"[~$*]", lambda one: LITERAL + one[0], found[kind]))
        elif token == "#" and line.word is None:
            at = end_of_line if (end_of_line := text.find("\n", at)) >= 0 else len(text)
        elif kind in ("text", "plain"):
            line.is_open |= token == "'" and not line.quoted
            line.add(token)
    stack[-1].is_open |= len(stack) > 1 or stack[-1].quoted
    while stack:
        stack[-1].end_word()
        yield from _end(stack)


def _end(stack: list[Pipeline]) -> Iterator[Pipeline]:
    """Yield the last of *stack*, which has ended, and pass its words to the enclosing one."""
    line = stack.pop()
    yield line
    for holder in stack[-1:]:
        holder.given += [*line.given, *(word for stage in line.stages for word in stage)]


def programs(stage: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """The programs that *stage* runs with their arguments, without assignments, keywords, `sudo` and the like.

    The name is empty if the shell would expand it, and the whole word if it has blanks, since it is then a command.
    """
    at, valued = 0, None
    while at < len(stage):
        word = stage[at]
        if valued is not None and word.startswith("-") and word != "-":
            at += 2 if not word.startswith("--") and word[-1] in valued else 1
        elif _SKIPPED.fullmatch(word) or (valued is not None and re.fullmatch(r"[\d.]+[smhd]?", word)):
            at += 1
        elif name_of(word) in _WRAPPERS:
            valued, at = _WRAPPERS[name_of(word)], at + 1
        else:
            is_command = any(map(str.isspace, word))
            name = word if is_command else name_of(word) or word
            is_replaced = not is_command and "$" in word.rpartition("/")[2].replace(LITERAL + "$", "")
            yield "" if is_replaced else name, list(stage[at + 1 :])
            break
    for n, word in enumerate(stage) if stage[at : at + 1] and name_of(stage[at]) == "find" else ():
        if word in ("-exec", "-execdir", "-ok", "-okdir"):
            yield from programs([*takewhile(lambda word: word not in (";", "+"), stage[n + 1 :])])


def name_of(word: str) -> str:
    """The name of the program at the path *word*."""
    return plain([word]).rpartition("/")[2]


def plain(words: Sequence[str]) -> str:
    """Join *words* to a command for another shell."""
    return " ".join(words).replace(LITERAL, "")
