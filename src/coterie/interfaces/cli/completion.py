"""`coterie completion`: shell completion of commands, options, runs, turns and agents.

The shell's script calls `coterie __complete WORDS…`, of which the last word is to be completed, and offers what that
prints: one candidate per line, with a description behind a tab. If there is none, the shell completes files.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from coterie.interfaces.cli.named_command import find_command
from coterie.interfaces.cli.options import STATE_DIR
from coterie.interfaces.cli.output import say
from coterie.interfaces.cli.parameters import Arg, Declaration

if TYPE_CHECKING:
    from coterie.execution.runs.repository import Runs

_DESCRIBED = 100
"""How many runs are offered with their status; of others no file is read."""
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


def completion(shell: Annotated[str, Arg("SHELL", "bash, zsh or fish.")]) -> int:
    """Print the completion script of a shell.

    Put `eval "$(coterie completion bash)"` into ~/.bashrc, `eval "$(coterie completion zsh)"` into ~/.zshrc after
    compinit, or `coterie completion fish | source` into ~/.config/fish/config.fish.
    """
    from coterie.base.diagnostics import did_you_mean
    from coterie.errors import UsageError

    if shell not in SCRIPTS:
        hint = did_you_mean(shell, SCRIPTS) or f"supported shells: {', '.join(SCRIPTS)}"
        raise UsageError(f"no completion for {shell!r}; {hint}")
    say(SCRIPTS[shell])
    return 0


def answer(words: Sequence[str]) -> int:
    """Print the candidates for the last of *words*; none if they cannot be determined."""
    try:
        found = [line for line in candidates(words) if "\n" not in line]
    except Exception:  # an incomplete command line or a damaged journal must not disturb the prompt
        found = []
    if found:
        say("\n".join(found))
    return 0


def candidates(words: Sequence[str]) -> Iterator[str]:
    """Yield the candidates for the last of *words*, each with its description behind a tab."""
    *before, last = words or [""]
    command, rest = find_command(before)
    given: dict[str, str] = {}
    arguments = [one for one in command.parameters if isinstance(one.declared, Arg)]
    waits: Declaration | None = None
    for word in rest:
        if waits is not None:
            given[waits.name], waits = word, None
        elif (option := command.options.get(word)) is not None:
            waits = None if option.is_flag else option
        elif arguments and not word.startswith("-"):
            given[arguments[0].name] = word
            arguments = arguments[not arguments[0].is_list :]
    found: Iterable[tuple[str, str]] = ()
    if waits is not None:
        found = [(word, "") for word in waits.choices] or _values(waits.name, given)
    elif last.startswith("-"):
        found = ((word, one.declared.help) for word, one in command.options.items() if word.startswith("--"))
    elif command.below and not rest:
        found = command.summaries()
    elif arguments:
        found = _values(arguments[0].name, given)
    for value, about in found:
        if value.startswith(last):
            yield f"{value}\t{' '.join(about.split())}"


def _values(name: str, given: Given) -> Iterable[tuple[str, str]]:
    """Return the known values of a parameter; empty if the shell should complete files."""
    return _KNOWN[name](given) if name in _KNOWN else ()


def _runs(given: Given) -> Iterator[tuple[str, str]]:
    from coterie.execution.runs import index
    from coterie.execution.runs.ended import EndedRuns

    yield "last", "the newest"
    with EndedRuns() as ended:
        for n, entry in enumerate(reversed(index.entries(_state_dir(given)))):
            status = ended.status(entry.folder).state if n < _DESCRIBED else ""
            yield entry.run, " ".join(filter(None, [entry.topology, status]))


def _views(given: Given) -> Iterator[tuple[str, str]]:
    from coterie.interfaces.cli.views import OF_RUNS, OF_TURNS

    for name, view in {**OF_RUNS, **OF_TURNS}.items():
        yield name, str(view.__doc__).partition("\n")[0].rstrip(".")


def _turns(given: Given) -> Iterator[tuple[str, str]]:
    from coterie.history.views.run import fold

    runs, run = _run(given)
    for turn in fold(runs.read(run)).turns:
        yield turn.id, turn.state


def _attention(given: Given) -> Iterator[tuple[str, str]]:
    from coterie.execution.runs.attention import open_in

    found = open_in(*_run(given))
    yield from ((one.id, one.text) for one in found)
    yield from ((word, "an answer") for word in dict.fromkeys(word for one in found for word in one.answers))


def _agents(given: Given) -> Iterator[str]:
    from coterie.team.planning.changes import agents

    runs, run = _run(given)
    yield from (name for name, _, _ in agents(runs.plan(run)))


def _backends(given: Given) -> Iterator[tuple[str, str]]:
    from coterie.team.options.backends import BACKENDS, GENERIC, PROVIDERS

    yield from ((name, "") for name in sorted({*BACKENDS, *PROVIDERS} - {GENERIC}))


def _settings(given: Given) -> Iterator[tuple[str, str]]:
    from coterie.team.planning.changes import KEYS, NAMED

    for agent in _agents(given):
        yield from ((f"{agent}.{key}{'.' if key in NAMED else '='}", "") for key in KEYS)


def _presets(given: Given) -> Iterator[tuple[str, str]]:
    from coterie.team.planning.presets.catalogue import catalogue

    yield from ((one.name, one.about) for one in catalogue())


def _run(given: Given) -> "tuple[Runs, str]":
    from coterie.execution.runs.repository import find

    return find(given["run"], _state_dir(given))


def _state_dir(given: Given) -> Path:
    return Path(given.get("state_dir", STATE_DIR))


_KNOWN: Mapping[str, Callable[[Given], Iterable[tuple[str, str]]]] = {
    **dict.fromkeys(("run", "names", "a", "b"), _runs),
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
