"""Shell commands that no coding agent may run, whatever else is allowed.

The policy catches mistakes and obvious harm in the commands that a protocol shows. It is not a security boundary: a
program can do the same by other means, which only the sandbox prevents. It takes linear time in the length of the
command.
"""

import posixpath
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise, takewhile
from typing import NamedTuple

from coterie.agents.backends.coding.shell_words import GIVEN, LITERAL, Pipeline, name_of, pipelines, plain, programs

UNREADABLE = "unreadable"
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
    UNREADABLE: "the shell would replace the name of a program, or a quote is open",
}
"""The reason for each rule. All rules refuse, except `UNREADABLE`, which leaves the decision to a person."""

Branch = Callable[[], str]
_DEEPEST = 6
"""How many levels of nested shells are inspected."""
_SHELLS = {"sh", "bash", "zsh", "dash", "ksh", "ash", "fish"}
_INTERPRETER = re.compile(r"(python|pypy|perl|ruby|node|nodejs|php|lua|deno|bun|pwsh)[\d.]*$")
_DOWNLOADERS = {"curl", "wget", "fetch", "aria2c", "http", "https", "xh"}
_SENDERS = _DOWNLOADERS | {"nc", "ncat", "netcat", "socat", "scp", "sftp", "rsync", "ftp", "telnet"}
_KEY_OPTIONS = {"-i", "-e", "-E", "--rsh", "--key", "--cert", "--cacert", "--netrc-file", "--exclude"}
_GIT_OPTIONS = {"-C", "-c", "--git-dir", "--work-tree", "--namespace", "-o", "--push-option", "--repo", "--exec"}
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


class Refusal(NamedTuple):
    """The rule that forbids a command, and why."""

    rule: str
    reason: str


def refusal(command: str, branch: Branch = lambda: "") -> Refusal | None:
    """The rule that forbids the shell command *command*, or leaves it to a person, if any. Never raises.

    Args:
        branch: Returns the branch that is checked out where the command runs; empty if unknown.
    """
    rules = [*_rules(command, 0, branch)]
    rule = next((rule for rule in rules if rule != UNREADABLE), UNREADABLE)
    return Refusal(rule, REASONS[rule]) if rules else None


def _rules(command: str, depth: int, branch: Branch) -> Iterator[str]:
    if depth > _DEEPEST:
        return (yield "too-deep")
    if _BOMB.search("".join(_QUOTED.sub(LITERAL, command).split())):
        yield "fork-bomb"
    where = ""
    for line in pipelines(command):
        commands = [found for stage in line.stages for found in programs(stage)]
        before = ("", list[str]())
        for name, arguments in commands:
            if before[0] in ("echo", "printf") and _runs_input(name, arguments):
                line.documents.append(plain(before[1]))
            before = name, arguments
            if name in ("cd", "pushd"):
                where = arguments[0] if arguments else "~"
            yield from _of_program(name, arguments, where, branch)
            words = [word for word in arguments if not word.startswith("-")]
            if name == "git" and words[:1] in (["checkout"], ["switch"]) and words[1:] and "--" not in arguments:
                branch = partial(str, words[1])
            for nested in (*_nested(name, arguments), *(line.documents if name in _SHELLS else ())):
                yield from _rules(nested, depth + 1, branch)
        if any(_DEVICE.match(target) for target in line.targets):
            yield "write-to-device"
        yield from _of_pipeline(commands, line)
        if line.is_open or any(not name for name, _ in commands):
            yield UNREADABLE


def _nested(name: str, arguments: Sequence[str]) -> Iterator[str]:
    """The command that a shell, or `eval`, runs."""
    if any(map(str.isspace, name)):
        yield plain([name])
    elif name in ("eval", "trap"):
        yield plain(arguments)
    elif name in _SHELLS or name in ("su", "sg", "script", "flock"):
        options = [n for n, word in enumerate(arguments) if re.fullmatch(r"-[a-z]*c[a-z]*|--command", word)]
        yield from (plain(arguments[n + 1 : n + 2]) for n in options[:1])


def _of_program(name: str, arguments: Sequence[str], where: str, branch: Branch) -> Iterator[str]:
    """The rules that forbid *name* with *arguments* in the directory *where*, if that is known."""
    flags = [word for word in arguments if word.startswith("-") and word != "-"]
    others = [word for word in arguments if not word.startswith("-")]
    if any(re.match(r"--recursive$|-(?!-).*[rR]", flag) for flag in flags):
        changed = {"rm": others, "chmod": others[1:], "chown": others[1:], "chgrp": others[1:]}.get(name, [])
        if any(_is_root(word, where) for word in changed):
            yield "rm-rf-root" if name == "rm" else "chmod-root"
    if name == "find" and "-name" not in flags and ("-delete" in flags or "rm" in map(name_of, others)):
        yield from ["rm-rf-root"] * _is_root([*others, "."][0], where)
    if name == "dd" and any(word.startswith("of=") and _DEVICE.match(word[3:]) for word in arguments):
        yield "dd-to-device"
    if (name.startswith("mkfs") or name in ("mke2fs", "mkswap")) and any(word.startswith("/dev/") for word in others):
        yield "mkfs-device"
    written = {"cp": others[-1:], "mv": others[-1:]}.get(name, others)
    if name in ("tee", "shred", "wipefs", "blkdiscard", "cp", "mv") and any(map(_DEVICE.match, written)):
        yield "write-to-device"
    if name == "git" and _harms_branch(arguments, branch):
        yield "force-push-protected"


def _is_root(target: str, where: str) -> bool:
    """Whether *target* is a directory on which the whole system, or a home, depends."""
    path, start = (re.sub(r"\$\{HOME\b[^{}]*\}", "$HOME", re.sub(r"\0.", "_", one)) for one in (target, where))
    if not path.startswith(("/", "~", "$HOME")):
        path = f"{start}/{path}" if where else "_"
    path = re.sub(r"(?:/\.?\*)+$", "", path) or "/"
    return bool(_ROOT.match(re.sub(r"^//", "/", posixpath.normpath(path))))


def _harms_branch(arguments: Sequence[str], branch: Branch) -> bool:
    """Whether `git` with *arguments* replaces or deletes a protected branch elsewhere."""
    command = next(_operands(arguments), "")
    rest = arguments[arguments.index("push") + 1 :] if command == "push" else []
    flags = [word for word in rest if word.startswith("-")]
    short = "".join(word[1:] for word in flags if not word.startswith("--"))
    force, deletes = "--force" in flags or "f" in short, "--delete" in flags or "d" in short
    refs = [*_operands(rest)][1:]
    if "--mirror" in flags or (force and {"--all", "--branches"} & set(flags)):
        return True
    harmed = [ref for ref in refs if force or deletes or ref.startswith(("+", ":"))] or (
        ["HEAD"] * (force and not refs)
    )
    targets = [ref.lstrip("+").rpartition(":")[2] for ref in harmed]
    return any(_PROTECTED.match(branch() if target in ("HEAD", "@") else target) for target in targets)


def _operands(words: Sequence[str]) -> Iterator[str]:
    """The words of `git` that are neither options nor the values of options."""
    return (word for key, word in pairwise(["", *words]) if not word.startswith("-") and key not in _GIT_OPTIONS)


def _of_pipeline(commands: Sequence[tuple[str, list[str]]], line: Pipeline) -> Iterator[str]:
    """The rules that forbid the commands of one pipeline together."""
    given = any(name_of(word) in _DOWNLOADERS for word in line.given)
    sends = any(target.startswith(("/dev/tcp/", "/dev/udp/")) for target in line.targets)
    secret = any(map(_SECRET.search, line.given)) or (len(line.stages) > 1 and line.stages[0] in (["env"], ["set"]))
    downloaded = False
    for name, arguments in commands:
        if (downloaded and _runs_input(name, arguments)) or (given and _runs_substitution(name, arguments)):
            yield "pipe-to-shell"
        downloaded |= name in _DOWNLOADERS
        sends |= name in _SENDERS
        words = (word for key, word in pairwise(["", *arguments]) if not {key, word.partition("=")[0]} & _KEY_OPTIONS)
        secret |= name in ("env", "printenv") or any(map(_SECRET.search, words))
    if sends and secret:
        yield "secret-exfil"


def _runs_input(name: str, arguments: Sequence[str]) -> bool:
    """Whether the program executes its standard input."""
    options = [*takewhile(lambda word: word[:1] in ("-", "+") and word not in ("-", "-s"), arguments)]
    code = set("c" if name in _SHELLS else "cmenprE")
    if not _is_interpreter(name) or any(word[1:2] != "-" and code & set(word) for word in options):
        return False
    return arguments[len(options) : len(options) + 1] in ([], ["-"], ["-s"], ["/dev/stdin"])


def _runs_substitution(name: str, arguments: Sequence[str]) -> bool:
    """Whether the program executes the result of a substitution in its arguments."""
    first = next((word for word in arguments if not word.startswith("-")), None)
    runs = "-c" in arguments or "-e" in arguments or first == GIVEN
    return name in ("eval", "source", ".") or (_is_interpreter(name) and runs)


def _is_interpreter(name: str) -> bool:
    return name in _SHELLS or _INTERPRETER.match(name) is not None
