"""`coterie completion`: shell completion of commands, options, runs, turns and agents.

The shell's script calls `coterie __complete WORDS…`, of which the last word is to be completed, and offers what that
prints: one candidate per line, with a description behind a tab. If there is none, the shell completes files.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from coterie.cli.options import STATE_DIR
from coterie.cli.output import say
from coterie.cli.parameters import Arg

if TYPE_CHECKING:
    from coterie.runs.repository import Runs

Given = Mapping[str, str]
"""The arguments and option values given so far, by parameter name."""


SCRIPTS: Mapping[str, str] = {
    "bash": """\
_coterie() {
    local found IFS=$'\\n'
    found=$(coterie __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null | cut -f 1)
    COMPREPLY=($found)
    if [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *[=.] ]]; then compopt -o nospace; fi
}
complete -o default -F _coterie coterie""",
    "zsh": """\
_coterie() {
    local line
    local -a found
    for line in "${(@f)$(coterie __complete "${(@)words[2,$CURRENT]}" 2>/dev/null)}"; do
        [[ -n $line ]] && found+=("${${line%%$'\\t'*}//:/\\\\:}:${line#*$'\\t'}")
    done
    if (( $#found )); then _describe coterie found; else _files; fi
}
compdef _coterie coterie""",
    "fish": """\
function __coterie_complete
    set -l words (commandline -opc) (commandline -ct)
    coterie __complete $words[2..-1] 2>/dev/null
end
complete -c coterie -a '(__coterie_complete)'""",
}
"""The completion script of each shell."""


def completion(
    shell: Annotated[str, Arg(metavar="SHELL", help="bash, zsh or fish.")],
) -> int:
    """Print the completion script of a shell.

    Put `eval "$(coterie completion bash)"` into ~/.bashrc, `eval "$(coterie completion zsh)"` into ~/.zshrc after
    compinit, or `coterie completion fish | source` into ~/.config/fish/config.fish.
    """
    from coterie.diagnostics import did_you_mean
    from coterie.errors import UsageError

    if shell not in SCRIPTS:
        hint = did_you_mean(shell, SCRIPTS) or f"supported shells: {', '.join(SCRIPTS)}"
        raise UsageError(f"no completion for {shell!r}; {hint}")
    say(SCRIPTS[shell])
    return 0


def answer(command: Any, words: Sequence[str]) -> int:
    """Print the candidates for the last of *words*; none if they cannot be determined."""
    try:
        found = [line for line in candidates(command, words) if "\n" not in line]
    except Exception:  # an incomplete command line or a damaged journal must not disturb the prompt
        found = []
    if found:
        say("\n".join(found))
    return 0


def candidates(command: Any, words: Sequence[str]) -> Iterator[str]:
    """Yield the candidates for the last of *words*, each with its description behind a tab."""
    *before, last = words or [""]
    given: dict[str, str] = {}
    command, rest = _command(command, before)
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = {word: one for one in command.params for word in (*one.opts, *one.secondary_opts) if word[0] == "-"}
    waits: Any = None
    for word in rest:
        if waits is not None:
            given[waits.name], waits = word, None
        elif word in options:
            waits = None if options[word].is_flag else options[word]
        elif arguments and not word.startswith("-"):
            given[arguments[0].name] = word
            if arguments[0].nargs == 1:
                arguments = arguments[1:]
    found: Iterable[tuple[str, str]]
    if waits is not None:
        found = _values(waits.name, given)
    elif last.startswith("-"):
        found = ((word, one.help or "") for word, one in options.items() if word.startswith("--"))
    elif hasattr(command, "commands"):
        found = ((name, one.get_short_help_str(80)) for name, one in command.commands.items())
    else:
        found = _values(arguments[0].name, given) if arguments else ()
    for value, about in found:
        if value.startswith(last):
            yield f"{value}\t{' '.join(about.split())}"


def _command(command: Any, words: Sequence[str]) -> tuple[Any, Sequence[str]]:
    """Return the command that *words* name, and the words after its name."""
    for n, word in enumerate(words):
        below = getattr(command, "commands", {})
        if word not in below:
            return command, words[n:]
        command = below[word]
    return command, ()


def _values(name: str, given: Given) -> Iterable[tuple[str, str]]:
    """Return the known values of a parameter; empty if the shell should complete files."""
    return _KNOWN[name](given) if name in _KNOWN else ()


def _runs(given: Given) -> Iterator[tuple[str, str]]:
    from coterie.runs import index
    from coterie.runs.repository import run_in

    yield "last", "the newest"
    for entry in reversed(index.entries(_state_dir(given))):
        runs, run = run_in(Path(entry.folder))
        yield entry.run, " ".join(filter(None, [entry.topology, runs.status(run)]))


def _views(given: Given) -> Iterator[tuple[str, str]]:
    yield "timeline", "the run's events"
    yield "turn", "a turn's prompt, answer and attempts"
    yield "why", "the causes of a turn"
    yield "prompt", "the prompt of a turn"
    yield "output", "the answer of a turn"
    yield "usage", "turns, tokens, cost and time"
    yield "topology", "agents and coordination"
    yield "memory", "the memory of a loop"
    yield "tasks", "the tasks of a loop"
    yield "journal", "the records"


def _turns(given: Given) -> Iterator[tuple[str, str]]:
    from coterie.views.run import fold

    runs, run = _run(given)
    for turn in fold(runs.read(run)).turns:
        yield turn.id, turn.state


def _attention(given: Given) -> Iterator[tuple[str, str]]:
    from coterie.runs.attention import open_in

    found = open_in(*_run(given))
    yield from ((one.id, one.text) for one in found)
    yield from ((word, "an answer") for word in dict.fromkeys(word for one in found for word in one.answers))


def _agents(given: Given) -> Iterator[str]:
    from coterie.planning.changes import agents

    runs, run = _run(given)
    yield from agents(runs.plan(run))


def _backends(given: Given) -> Iterator[tuple[str, str]]:
    from coterie.options.backends import BACKENDS, GENERIC, PROVIDERS

    yield from ((name, "") for name in sorted({*BACKENDS, *PROVIDERS} - {GENERIC}))


def _settings(given: Given) -> Iterator[tuple[str, str]]:
    from coterie.planning.changes import KEYS, NAMED

    for agent in _agents(given):
        yield from ((f"{agent}.{key}{'.' if key in NAMED else '='}", "") for key in KEYS)


def _presets(given: Given) -> Iterator[tuple[str, str]]:
    from coterie.planning.presets.catalogue import catalogue

    yield from ((one.name, one.about) for one in catalogue())


def _run(given: Given) -> "tuple[Runs, str]":
    from coterie.runs.repository import find

    return find(given["run"], _state_dir(given))


def _state_dir(given: Given) -> Path:
    return Path(given.get("state_dir", STATE_DIR))


_KNOWN: Mapping[str, Callable[[Given], Iterable[tuple[str, str]]]] = {
    "run": _runs,
    "view": _views,
    "turn": _turns,
    "words": _turns,  # of `control respond`, whose first word is a turn
    "item": _attention,
    "backend": _backends,
    "prompts": lambda given: ((f"{agent}=", "a file") for agent in _agents(given)),
    "models": lambda given: ((f"{agent}=", "a model") for agent in _agents(given)),
    "settings": _settings,
    "preset": _presets,
    "show": lambda given: (("show", "roles and events of a preset"),),
    "shell": lambda given: ((name, "") for name in SCRIPTS),
}
"""Known values by parameter name."""
