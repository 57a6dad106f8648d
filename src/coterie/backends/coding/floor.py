"""Shell commands that no coding agent may run, whatever else is allowed: the floor of refusals.

It catches mistakes and obvious harm in the commands that a protocol shows. It is no wall: a program can do the same by
other means, and the sandbox is what holds it back. The time it takes is linear in the length of the command.
"""

import posixpath
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import takewhile
from typing import NamedTuple


class Refusal(NamedTuple):
    """The rule that forbids a command, and why."""

    rule: str
    reason: str


REASONS = {
    "rm-rf-root": "recursive force-remove of a root/system/home path",
    "chmod-root": "recursive change of owner or mode of a root/system/home path",
    "fork-bomb": "fork bomb would exhaust system resources",
    "dd-to-device": "dd writing directly to a block device destroys data",
    "write-to-device": "writing directly to a block device destroys data",
    "mkfs-device": "mkfs reformats a block device",
    "pipe-to-shell": "piping a remote download into an interpreter executes untrusted code",
    "force-push-protected": "force push, or deletion, of a protected branch destroys the history of others",
    "secret-exfil": "command appears to send secrets/credentials over the network",
    "too-deep": "command is nested too deeply to be judged",
}
"""Why each rule refuses."""

Branch = Callable[[], str]
_DEEPEST = 6
"""Shells within shells that are looked into."""
_LITERAL = "\0"
"""Comes before a character that a shell would expand, but that was quoted."""

_SHELLS = frozenset({"sh", "bash", "zsh", "dash", "ksh", "ash", "fish"})
_INTERPRETER = re.compile(r"(python|pypy|perl|ruby|node|nodejs|php|lua|deno|bun|pwsh)[\d.]*$")
_DOWNLOADERS = frozenset({"curl", "wget", "fetch", "aria2c", "http", "https", "xh"})
_SENDERS = _DOWNLOADERS | {"nc", "ncat", "netcat", "socat", "scp", "sftp", "rsync", "ftp", "telnet"}
_KEY_OPTIONS = frozenset({"-i", "-e", "-E", "--rsh", "--key", "--cert", "--cacert", "--netrc-file", "--exclude"})
_SECRET = re.compile(
    r"(?:^|[/\s'\"@=(])(?:\.ssh(?:$|/(?!known_hosts|config\b|[\w.@-]{0,60}\.pub\b))|id_(?:rsa|dsa|ecdsa|ed25519)(?!\.pub)\b"
    r"|\.aws/credentials|\.gnupg(?:$|/)|\.netrc\b|\.git-credentials|\.docker/config\.json|\.kube/config|\.npmrc\b|\.pypirc\b"
    r"|\.config/gcloud/|\.env(?:$|\.(?:local|prod\w*)\b)|\.config/gh/hosts|\.claude/\.credentials|etc/shadow\b)"
)
_DEVICE = re.compile(r"/dev/(sd|hd|vd|xvd|nvme|mmcblk|disk|rdisk|mapper/|dm-|md\d|loop\d)")
_ROOT = re.compile(
    r"/(bin|boot|dev|etc|home|lib(32|64)?|opt|proc|root|run|sbin|srv|sys|usr(/bin|/lib|/local)?|var)?$"
    r"|/(Users|System|Library|Applications)$|/(home|Users)/[^/]+$|\$HOME$|~[\w.-]*$|\.\.?$"
)
_PROTECTED = re.compile(r"(refs/heads/)?(main|master|trunk|develop|production|prod|stable|release([/-].+)?|\0?\*)$")
_BOMB = re.compile(r"([^\s(){};|&\0]{1,40})\(\)\{\1\|\1&\};?\1")
_QUOTED = re.compile(r"""'[^']*'?|"(?:\\.|[^"\\])*"?""", re.DOTALL)
_DOCUMENT = re.compile(r"-?\s*(['\"\\]?)(\w+)\1?")
_HOME = re.compile(r"\$\{HOME\b[^{}]*\}")
_NUMBER = re.compile(r"[\d.]+[smhd]?")
_EXPANDED = re.compile(r"\0.")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
_KEYWORD = re.compile(r"[!{}]|if|then|elif|else|while|until|do|time")
_WRAPPERS = {
    "sudo": "ugphCrtTDR",
    "doas": "uC",
    "env": "uC",
    "nice": "n",
    "ionice": "cnp",
    "timeout": "ks",
    "xargs": "IdEnPLsa",
    "stdbuf": "ioe",
    "nohup": "",
    "setsid": "",
    "command": "",
    "builtin": "",
    "exec": "a",
    "busybox": "",
    "unshare": "",
    "nsenter": "t",
    "systemd-run": "pu",
    "taskset": "",
    "chrt": "",
    "watch": "n",
    "coproc": "",
    "strace": "eop",
}
"""Programs that run another one, with those of their one-letter options that take a value."""


def refusal(command: str, branch: Branch = lambda: "") -> Refusal | None:
    """The rule that forbids the shell command *command*; None if none does. Never raises.

    Args:
        branch: The branch that is checked out where the command runs; empty if it is not known.
    """
    rule = _judge(command, 0, branch)
    return Refusal(rule, REASONS[rule]) if rule else None


def _judge(command: str, depth: int, branch: Branch) -> str:
    if depth > _DEEPEST:
        return "too-deep"
    if _BOMB.search("".join(_bare(command).split())):
        return "fork-bomb"
    where = ""
    for pipeline in _Lexer(command).run():
        commands = [command for stage in pipeline.stages for command in _commands(stage)]
        before = ("", list[str]())
        for name, arguments in commands:
            if before[0] in ("echo", "printf") and _runs_input(name, arguments):
                pipeline.documents.append(" ".join(before[1]).replace(_LITERAL, ""))
            before = name, arguments
            if name in ("cd", "pushd"):
                where = arguments[0] if arguments else "~"
            if rule := _of_program(name, arguments, where, branch):
                return rule
            if name == "git" and (switched := _switched_to(arguments)):
                branch = partial(str, switched)
            nested = _nested(name, arguments)
            if nested is not None and (rule := _judge(nested, depth + 1, branch)):
                return rule
            if name in _SHELLS:
                for document in pipeline.documents:
                    if rule := _judge(document, depth + 1, branch):
                        return rule
        if any(_DEVICE.match(target) for target in pipeline.targets):
            return "write-to-device"
        if rule := _of_pipeline(commands, pipeline):
            return rule
    return ""


class _Pipeline:
    """Commands joined by `|`, each as its words, with the files that they write and the texts that they read.

    It also notes what the substitutions within it do.
    """

    def __init__(self) -> None:
        self.stages: list[list[str]] = [[]]
        self.targets: list[str] = []
        self.documents: list[str] = []
        self.downloads = self.reads_secret = False

    def holds(self, other: "_Pipeline") -> None:
        """Note that *other* is a substitution within this one."""
        words = [word for stage in other.stages for word in stage]
        self.downloads |= other.downloads or any(_name(word) in _DOWNLOADERS for word in words)
        self.reads_secret |= other.reads_secret or any(_SECRET.search(word) for word in words)


class _Lexer:
    """Divides a shell command into pipelines; a substitution is a pipeline too, before the one that it is in."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self.word: list[str] | None = None
        self.quoted = False
        self.redirects = ""
        self.pipeline = _Pipeline()
        self.outer: list[tuple[str, _Pipeline, list[str] | None, bool, str]] = []
        self.documents: list[str] = []

    def run(self) -> Iterator[_Pipeline]:
        text = self.text
        while self.at < len(text):
            c, following = text[self.at], text[self.at + 1 : self.at + 2]
            self.at += 1
            if c == "\\":
                self.at += 1
                if following != "\n":
                    self._add(_LITERAL + following if following in "~$*" else following)
            elif c == "`" and self.outer and self.outer[-1][0] == "`":
                yield from self._leave()
            elif c == "`" or (c in "$<>" and following == "(" and not (self.quoted and c != "$")):
                self.at += c != "`"
                self._enter("`" if c == "`" else ")")
            elif c == '"':
                self.quoted = not self.quoted
                self._add("")
            elif self.quoted:
                self._add(_LITERAL + c if c in "~*" else c)
            elif c == "$" and following == "'":
                continue
            elif c == "'":
                end = text.find("'", self.at)
                end = len(text) if end < 0 else end
                self._add("".join(_LITERAL + one if one in "~$*" else one for one in text[self.at : end]))
                self.at = end + 1
            elif c == "#" and self.word is None:
                end = text.find("\n", self.at)
                self.at = len(text) if end < 0 else end
            elif c in " \t\r":
                self._end_word()
            elif c == ")" and self.outer and self.outer[-1][0] == ")":
                yield from self._leave()
            elif c == "<" and following == "<" and text[self.at + 1 : self.at + 2] != "<":
                self._begin_document()
            elif c in "<>":
                self._end_word()
                end = next((n for n in range(self.at, len(text)) if text[n] not in ">|&<"), len(text))
                self.redirects, self.at = text[self.at - 1 : end], end
            elif c == "|" and following != "|":
                self._end_word()
                self.at += following == "&"
                self.pipeline.stages.append([])
            elif c in ";&|\n()":
                self._end_word()
                if c == "\n":
                    self._read_documents()
                yield from self._end_pipeline()
            else:
                self._add(c)
        while self.outer:
            yield from self._leave()
        self._end_word()
        yield self.pipeline

    def _add(self, text: str) -> None:
        if self.word is None:
            self.word = []
        self.word.append(text)

    def _end_word(self) -> None:
        if self.word is not None:
            word, self.word = "".join(self.word), None
            if self.redirects.startswith(">"):
                self.pipeline.targets.append(word)
            elif self.redirects == "<<<":
                self.pipeline.documents.append(word.replace(_LITERAL, ""))
            else:
                self.pipeline.stages[-1].append(word)
            self.redirects = ""

    def _end_pipeline(self) -> Iterator[_Pipeline]:
        yield self.pipeline
        if self.outer:
            self.outer[-1][1].holds(self.pipeline)
        self.pipeline = _Pipeline()

    def _enter(self, end: str) -> None:
        self._add("")
        self.outer.append((end, self.pipeline, self.word, self.quoted, self.redirects))
        self.pipeline, self.word, self.quoted, self.redirects = _Pipeline(), None, False, ""

    def _leave(self) -> Iterator[_Pipeline]:
        self._end_word()
        yield from self._end_pipeline()
        _, self.pipeline, self.word, self.quoted, self.redirects = self.outer.pop()

    def _begin_document(self) -> None:
        """Read the end mark of a here-document, whose lines are data."""
        self._end_word()
        found = _DOCUMENT.match(self.text, self.at + 1)
        if found:
            self.documents.append(found[2])
            self.at = found.end()
        else:
            self.at += 1

    def _read_documents(self) -> None:
        """Take the lines of the here-documents that begin after this one."""
        for mark in self.documents:
            end = re.compile(rf"^\t*{re.escape(mark)}$", re.MULTILINE).search(self.text, self.at)
            self.pipeline.documents.append(self.text[self.at : end.start() if end else len(self.text)])
            self.at = end.end() if end else len(self.text)
        self.documents.clear()


def _bare(command: str) -> str:
    """*command* without what is quoted."""
    return _QUOTED.sub(_LITERAL, command)


def _name(word: str) -> str:
    return word.replace(_LITERAL, "").rpartition("/")[2]


def _commands(stage: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """The programs that *stage* runs, each with its arguments."""
    found = _unwrapped(stage)
    if found is None:
        return
    yield found
    if found[0] == "find":
        words = iter(found[1])
        for word in words:
            if word in ("-exec", "-execdir", "-ok", "-okdir"):
                executed = _unwrapped([*takewhile(lambda word: word not in (";", "+"), words)])
                if executed:
                    yield executed


def _unwrapped(stage: Sequence[str]) -> tuple[str, list[str]] | None:
    """The program that *stage* runs and its arguments, without assignments, keywords, `sudo` and the like."""
    at = 0
    valued: str | None = None
    while at < len(stage):
        word = stage[at]
        if valued is not None and word.startswith("-") and word != "-":
            at += 2 if word != "--" and not word.startswith("--") and word[-1] in valued else 1
            continue
        if _ASSIGNMENT.match(word) or _KEYWORD.fullmatch(word) or (valued is not None and _NUMBER.fullmatch(word)):
            at += 1
            continue
        name = _name(word)
        if name not in _WRAPPERS:
            return (word if any(map(str.isspace, word)) else name), list(stage[at + 1 :])
        valued, at = _WRAPPERS[name], at + 1
    return None


def _nested(name: str, arguments: Sequence[str]) -> str | None:
    """The command that a shell, or `eval`, is to run."""
    if any(map(str.isspace, name)):
        return name
    if name in ("eval", "trap"):
        return " ".join(arguments).replace(_LITERAL, "")
    if name in _SHELLS or name in ("su", "sg", "script", "flock"):
        for n, word in enumerate(arguments):
            if re.fullmatch(r"-[a-z]*c[a-z]*|--command", word):
                return " ".join(arguments[n + 1 : n + 2]).replace(_LITERAL, "")
    return None


def _of_program(name: str, arguments: Sequence[str], where: str, branch: Branch) -> str:
    """The rule that forbids *name* with *arguments* in the directory *where*, as far as that is known."""
    flags = [word for word in arguments if word.startswith("-") and word != "-"]
    others = [word for word in arguments if not word.startswith("-")]
    recursive = any(flag == "--recursive" or (flag[1:2] != "-" and {"r", "R"} & set(flag)) for flag in flags)
    if name == "rm" and recursive and any(_is_root(word, where) for word in others):
        return "rm-rf-root"
    if name == "find" and ("-delete" in flags or any(_name(word) == "rm" for word in others)):
        starts = others[: 1 if others else 0] or ["."]
        if any(_is_root(word, where) for word in starts) and "-name" not in flags:
            return "rm-rf-root"
    if name in ("chmod", "chown", "chgrp") and recursive and any(_is_root(word, where) for word in others[1:]):
        return "chmod-root"
    if name == "dd" and any(word.startswith("of=") and _DEVICE.match(word[3:]) for word in arguments):
        return "dd-to-device"
    if (name.startswith("mkfs") or name in ("mke2fs", "mkswap")) and any(word.startswith("/dev/") for word in others):
        return "mkfs-device"
    if name in ("tee", "shred", "wipefs", "blkdiscard") and any(map(_DEVICE.match, others)):
        return "write-to-device"
    if name in ("cp", "mv") and others and _DEVICE.match(others[-1]):
        return "write-to-device"
    return "force-push-protected" if name == "git" and _harms_branch(arguments, branch) else ""


def _is_root(target: str, where: str) -> bool:
    """Whether *target* is a directory that the whole system, or a home, depends on."""
    path = _HOME.sub("$HOME", _EXPANDED.sub("_", target))
    if not path.startswith(("/", "~", "$HOME")):
        if not where:
            return False
        path = f"{_HOME.sub('$HOME', where)}/{path}"
    while path.endswith(("/*", "/.*")):
        path = path.rpartition("/")[0] or "/"
    normal = posixpath.normpath(path)
    normal = "/" + normal.lstrip("/") if path.startswith("/") else normal
    return bool(_ROOT.match(normal))


def _switched_to(arguments: Sequence[str]) -> str:
    """The branch that `git` with *arguments* checks out; empty if it does not."""
    words = [word for word in arguments if not word.startswith("-")]
    return words[1] if len(words) > 1 and words[0] in ("checkout", "switch") and "--" not in arguments else ""


def _harms_branch(arguments: Sequence[str], branch: Branch) -> bool:
    """Whether `git` with *arguments* replaces or deletes a protected branch elsewhere."""
    rest = iter(arguments)
    for word in rest:
        if word in ("-C", "-c", "--git-dir", "--work-tree", "--namespace"):
            next(rest, None)
        elif not word.startswith("-"):
            break
    else:
        return False
    if word != "push":
        return False
    force = delete = everything = False
    named: list[str] = []
    for word in rest:
        if word in ("-o", "--push-option", "--repo", "--receive-pack", "--exec"):
            next(rest, None)
        elif word.startswith("--"):
            force |= word == "--force"
            delete |= word == "--delete"
            everything |= word in ("--all", "--branches")
            if word == "--mirror":
                return True
        elif word.startswith("-"):
            force |= "f" in word
            delete |= "d" in word
        else:
            named.append(word)
    if force and everything:
        return True
    harmed = [ref for ref in named[1:] if force or delete or ref.startswith(("+", ":"))]
    targets = [ref.lstrip("+").rpartition(":")[2] for ref in harmed]
    if force and not named[1:]:
        targets = ["HEAD"]
    return any(_PROTECTED.match(branch() if target in ("HEAD", "@") else target) for target in targets)


def _of_pipeline(commands: Sequence[tuple[str, list[str]]], pipeline: _Pipeline) -> str:
    """The rule that forbids the commands of one pipeline together."""
    downloaded = sends = reads_secret = False
    for name, arguments in commands:
        if downloaded and _runs_input(name, arguments):
            return "pipe-to-shell"
        if pipeline.downloads and _runs_substitution(name, arguments):
            return "pipe-to-shell"
        downloaded |= name in _DOWNLOADERS
        sends |= name in _SENDERS
        reads_secret |= name in ("env", "printenv") or any(map(_SECRET.search, _without_keys(arguments)))
    sends |= any(target.startswith(("/dev/tcp/", "/dev/udp/")) for target in pipeline.targets)
    reads_secret |= pipeline.reads_secret or (len(pipeline.stages) > 1 and pipeline.stages[0] in (["env"], ["set"]))
    return "secret-exfil" if sends and reads_secret else ""


def _without_keys(arguments: Sequence[str]) -> Iterator[str]:
    """*arguments* without the files by which a program proves who calls it."""
    before = ""
    for word in arguments:
        if before not in _KEY_OPTIONS and word.partition("=")[0] not in _KEY_OPTIONS:
            yield word
        before = word


def _runs_input(name: str, arguments: Sequence[str]) -> bool:
    """Whether the program runs what it reads from its standard input."""
    shell = name in _SHELLS
    if not shell and not _INTERPRETER.match(name):
        return False
    for word in arguments:
        if word in ("-", "/dev/stdin") or (shell and word == "-s"):
            return True
        if not word.startswith(("-", "+")):
            return False
        if not word.startswith("--") and any(c in word for c in ("c" if shell else "cmenprE")):
            return False
    return True


def _runs_substitution(name: str, arguments: Sequence[str]) -> bool:
    """Whether the program runs what a substitution among its arguments gives."""
    if name in ("eval", "source", "."):
        return True
    if name not in _SHELLS and not _INTERPRETER.match(name):
        return False
    return "-c" in arguments or "-e" in arguments or next((w for w in arguments if not w.startswith("-")), None) == ""
