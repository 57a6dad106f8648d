"""Command lines of every declared command mean what they say; wrong ones get a message with a line to type."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import pytest
from bundles import bundle
from hypothesis import given
from hypothesis import strategies as st

from coterie.errors import UsageError
from coterie.interfaces.cli import app
from coterie.interfaces.cli.commands import COMMANDS, GROUPS
from coterie.interfaces.cli.named_command import NamedCommand, find_command
from coterie.interfaces.cli.parameters import Arg, Behind, Declaration, Opt, bound
from coterie.interfaces.cli.parser import parse

NAMES = [[name] for name in COMMANDS] + [[group, name] for group in GROUPS for name in GROUPS[group]]
CALLED = [command for words in NAMES if (command := find_command(words)[0]).function is not None]
TEXT = st.one_of(
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8),
    st.sampled_from(["-", "--", "-1", "--json", "-h", "- a list", "-x y", "a=b", "=", "-=", "last", "x.json", "a#1"]),
)
"""Words as a process may be given them."""


def parsed(line: str | Sequence[str]) -> dict[str, Any]:
    """The values that a command line gives to parameters of its command."""
    command, rest = find_command(line.split() if isinstance(line, str) else line)
    return parse(command, rest)


def is_plain(word: str) -> bool:
    """Whether *word* needs no `--` before it."""
    return not re.match("-[-A-Za-z]", word)


@st.composite
def values(draw: st.DrawFn, one: Declaration) -> tuple[str, Any]:
    """A word for *one*, and its value."""
    if one.choices:
        word = draw(st.sampled_from(one.choices))
        return word, word
    kind = get_args(one.kind)[0] if one.is_list else one.kind
    if one.declared.parser is not None or kind in (int, float):
        low, high = max(0, one.declared.min), min(1000, one.declared.max)
        number = draw(st.floats(low, high) if kind is float else st.integers(int(low), int(high)))
        return str(number), number
    word = draw(TEXT)
    return word, kind(word)


@st.composite
def options(draw: st.DrawFn, one: Declaration) -> tuple[list[str], Any]:
    """*one*, given once, and its value."""
    name = draw(st.sampled_from(sorted(one.options)))
    if one.is_flag:
        return [name], one.options[name]
    word, value = draw(values(one))
    forms = [[f"{name}={word}"]] if name.startswith("--") else []
    if one.declared.is_value is None:
        forms.append([name, word])
    if not name.startswith("--") and word and word[0] != "=":
        forms.append([name + word])
    return draw(st.sampled_from(forms)), value


@st.composite
def shuffled(draw: st.DrawFn, parts: Sequence[tuple[str, list[str]]]) -> list[list[str]]:
    """The words of *parts* in any order, but those of one parameter in theirs."""
    left = {name: [words for other, words in parts if other == name] for name, _ in parts}
    return [left[name].pop(0) for name in draw(st.permutations([name for name, _ in parts]))]


@st.composite
def command_lines(draw: st.DrawFn, command: NamedCommand) -> tuple[list[str], dict[str, Any]]:
    """Words for *command*, options in any order and form, and the values that they give."""
    wanted: dict[str, Any] = {}
    options_given, words, behind = list[tuple[str, list[str]]](), list[str](), list[str]()
    has_behind = any(isinstance(one.declared, Behind) for one in command.parameters)
    is_left_out = False  # an argument can be given only if those before it are
    for one in command.parameters:
        is_argument = isinstance(one.declared, Arg)
        if not one.is_required and ((is_argument and is_left_out) or draw(st.booleans())):
            is_left_out = is_left_out or is_argument
            continue
        count = draw(st.integers(1, 3)) if one.is_list else 1
        if isinstance(one.declared, Opt):
            given = [draw(options(one)) for _ in range(count)]
            options_given += [(one.name, part) for part, _ in given]
        else:
            plain = values(one).filter(lambda pair: is_plain(pair[0])) if is_argument and has_behind else values(one)
            given = [([word], value) for word, value in (draw(plain) for _ in range(count))]
            (words if is_argument else behind).extend(word for [word], _ in given)
        wanted[one.name] = [value for _, value in given] if one.is_list else given[0][1]
    first = draw(st.integers(0, len(words))) if not has_behind else len(words)
    first = next((n for n, word in enumerate(words[:first]) if not is_plain(word)), first)
    before, behind = words[:first], behind + words[first:]
    places = sorted(draw(st.lists(st.integers(0, len(options_given)), min_size=first, max_size=first)))
    parts = [*draw(shuffled(options_given)), []]
    line = [
        word
        for n, part in enumerate(parts)
        for word in (*(w for w, p in zip(before, places, strict=True) if p == n), *part)
    ]
    return [*line, *(["--", *behind] if behind else [])], wanted


def check(made: tuple[NamedCommand, tuple[list[str], dict[str, Any]]]) -> None:
    """A command line gives the values that it was made of."""
    command, (words, wanted) = made
    assert parse(command, words) == wanted


@given(st.sampled_from(CALLED).flatmap(lambda command: st.tuples(st.just(command), command_lines(command))))
def test_a_command_line_gives_the_values_that_it_was_made_of(
    made: tuple[NamedCommand, tuple[list[str], dict[str, Any]]],
) -> None:
    """In any order and form, with words that look like options, and with repeated options."""
    check(made)


@pytest.mark.long
@bundle("command", CALLED, ids=[command.name for command in CALLED])
def test_command_lines_of_every_command_give_the_values_that_they_were_made_of(command: NamedCommand) -> None:
    """The same for each command, many times."""
    given(st.tuples(st.just(command), command_lines(command)))(check)()


@bundle(
    "line, wanted",
    [
        ("run a.at", {"target": "a.at"}),
        ("run a.at --rehearse", {"target": "a.at", "rehearse": ""}),
        ("run a.at --rehearse s.json", {"target": "a.at", "rehearse": "s.json"}),
        ("run a.at --rehearse Fix it", {"target": "a.at", "rehearse": "", "prompt": ["Fix", "it"]}),
        ("run --rehearse a.at go", {"target": "a.at", "rehearse": "", "prompt": ["go"]}),
        ("run a.at --rehearse=other.txt", {"target": "a.at", "rehearse": "other.txt"}),
        ("run a.at --rehearse --json", {"target": "a.at", "rehearse": "", "as_json": True}),
        ("run a.at --rehearse --input-file=s.json", {"target": "a.at", "rehearse": "", "input_file": Path("s.json")}),
        ("run a.at --rehearse --rehearse s.json", {"target": "a.at", "rehearse": "s.json"}),
        ("resume last --retry", {"run": ["last"], "retry": ""}),
        ("resume last --retry a#1", {"run": ["last"], "retry": "a#1"}),
        ("resume --retry last", {"run": ["last"], "retry": ""}),
        ("resume last --retry -- a#1", {"run": ["last", "a#1"], "retry": ""}),
    ],
)
def test_an_option_with_an_optional_value_takes_only_a_word_that_is_one(line: str, wanted: dict[str, Any]) -> None:
    """A script ends in `.json`, a turn has a `#`; any other word remains an argument."""
    assert parsed(line) == wanted


@bundle(
    "line, wanted",
    [
        ("run loop -b pi go -- --model x -- -h", {"target": "loop", "backend": "pi", "prompt": ["go"]}),
        ("submit loop -- --model x -- -h", {"target": "loop"}),
    ],
)
def test_words_behind_two_dashes_are_for_the_backend_of_a_run(line: str, wanted: dict[str, Any]) -> None:
    """Whatever they look like; no words are nothing."""
    assert parsed(line) == {**wanted, "arguments": ["--model", "x", "--", "-h"]}
    assert parsed("run loop --") == {"target": "loop"}


@bundle(
    "words, wanted",
    [
        (["mock-backend", "s.json", "--do", "it"], {"script": Path("s.json"), "prompt": ["--do", "it"]}),
        (["mock-backend", "s.json", "--help me"], {"script": Path("s.json"), "prompt": ["--help me"]}),
        (["emit", "go", "--bogus", "-x"], {"given": ["go", "--bogus", "-x"]}),
        (["emit", "x.parallel", "- a"], {"given": ["x.parallel", "- a"]}),
        (["emit", "go", "--run", "r", "--output=a=1"], {"given": ["go"], "run": "r", "named": ["a=1"]}),
        (["emit", "--output", "-1", "go", "-hello"], {"given": ["go", "-hello"], "named": ["-1"]}),
    ],
)
def test_a_payload_may_begin_with_a_dash(words: list[str], wanted: dict[str, Any]) -> None:
    """The prompt of a mock backend and the payload of an event contain what an agent writes."""
    assert parsed(words) == wanted


@bundle(
    "line, wanted",
    [
        ("run -yv -bpi loop", {"yes": True, "verbose": True, "backend": "pi", "target": "loop"}),
        ("run -yvb pi loop", {"yes": True, "verbose": True, "backend": "pi", "target": "loop"}),
        ("run --park --no-park a", {"park": False, "target": "a"}),
        ("run --json --json a", {"as_json": True, "target": "a"}),
        ("run --state-dir a --state-dir b x", {"state_dir": Path("b"), "target": "x"}),
        ("run a --set x=1 b --set=y=2 c", {"target": "a", "prompt": ["b", "c"], "params": ["x=1", "y=2"]}),
        ("run a --backend --json", {"target": "a", "backend": "--json"}),
        ("run a --max-turns none", {"target": "a", "max_turns": -1}),
        ("run a --max-cost=0.5", {"target": "a", "max_cost": 0.5}),
        ("run a --backend=-- --set -- --set=--", {"target": "a", "backend": "--", "params": ["--", "--"]}),
        ("control guide last -: - -1", {"run": "last", "words": ["-:", "-", "-1"]}),
        ("serve --beat 7 --at-once 1", {"beat": 7.0, "at_once": 1}),
        ("control respond last a#1 -5", {"run": "last", "words": ["a#1", "-5"]}),
        ("validate -- --odd.at --", {"files": [Path("--odd.at"), Path("--")]}),
    ],
)
def test_options_in_every_form(line: str, wanted: dict[str, Any]) -> None:
    """Combined, attached, repeated, between arguments, and with values that begin with a dash."""
    assert parsed(line) == wanted


@bundle(
    "words, message",
    [
        ("run a --rehea", "coterie run has no option --rehea; did you mean '--rehearse'?"),
        (["run", "a", "--max-turns 3"], "coterie run has no option --max-turns 3; did you mean '--max-turns'?"),
        (["run", "a", "-q it"], "coterie run has no option -q it; `coterie run -h` lists its options"),
        ("validate --budget 3", "coterie validate has no option --budget; `coterie validate -h` lists its options"),
        ("run a --budget 3", "coterie run has no option --budget; did you mean '--max-cost'?"),
        ("emit --bogus go", "coterie emit has no option --bogus; `coterie emit -h` lists its options"),
        ("run a --max-turns 1_0", "coterie run: --max-turns: '1_0' is not a whole number from 0, or none; write"),
        ("run a --no-park=1", "coterie run: --park / --no-park takes no value; write --park alone"),
        ("run a --json=1", "coterie run: --json takes no value; write --json alone"),
        ("run a -y=q", "coterie run: -y, --yes takes no value; write --yes alone"),
        ("run a -b", "coterie run: --backend has no value; write --backend B"),
        ("run a -yb", "coterie run: --backend has no value; write --backend B"),
        ("run a --max-turns 1.5", "coterie run: --max-turns: '1.5' is not a whole number from 0, or none; write"),
        (
            "run a --max-cost inf",
            "coterie run: --max-cost: 'inf' is not a number from 0, or none; write --max-cost USD",
        ),
        (
            "run a --max-cost=nan",
            "coterie run: --max-cost: 'nan' is not a number from 0, or none; write --max-cost USD",
        ),
        ("serve --beat 8", "coterie serve: --beat: '8' is not a number from 0.1 to 7; write --beat SECONDS"),
        ("run a --log-format jsn", "--log-format: 'jsn' is not one of 'text', 'json'; did you mean 'json'?"),
        ("resume", "coterie resume: RUN is missing; write coterie resume RUN … [OPTIONS]"),
        ("runs prune", "coterie runs prune: --older-than AGE is missing; write coterie runs prune --older-than AGE"),
        ("diff a b c d", "unexpected extra argument 'c', 'd'; write coterie diff OLD NEW [OPTIONS], and quote"),
        ("diff a -- b --c", "unexpected extra argument '--c'; write coterie diff OLD NEW"),
        ("runs --all rm", "unexpected extra argument 'rm'; write coterie runs [COMMAND] [OPTIONS]"),
        ("topology --json", "coterie topology has no option --json; `coterie topology -h` lists its options"),
        ("--jsn", "coterie has no option --jsn; `coterie -h` lists its options"),
        ("--versoin", "coterie has no option --versoin; did you mean '--version'?"),
    ],
)
def test_a_wrong_command_line_gets_a_message(words: str | list[str], message: str) -> None:
    """It says what is wrong and what to type; an abbreviation is no option."""
    with pytest.raises(UsageError, match=re.escape(message)):
        parsed(words)


def test_an_unknown_letter_among_options_is_refused() -> None:
    """Before Python 3.13 argparse takes it for a value."""
    with pytest.raises(UsageError, match=r"coterie run(: -y, --yes takes no value| has no option -q); "):
        parsed("run a -yq")


@bundle(
    "line, message",
    [
        ("fly --json", "there is no command `coterie fly`; `coterie -h` lists them"),
        ("runs fly", "there is no command `coterie runs fly`; `coterie runs -h` lists them"),
        ("topology valdate -h", "there is no command `coterie topology valdate`; did you mean 'validate'?"),
    ],
)
def test_an_unknown_command_comes_before_its_options(
    line: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Even before `-h`, which would be that of another command."""
    assert app.main(line.split()) == 2
    told = capsys.readouterr()
    assert message in told.out + told.err


def test_a_group_without_a_command_shows_its_help_as_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    """The same text as `-h` prints."""
    assert app.main(["topology"]) == 2
    complaint = capsys.readouterr().err
    assert app.main(["topology", "-h"]) == 0

    assert capsys.readouterr().out == complaint
    assert complaint.startswith("Usage: coterie topology COMMAND [OPTIONS]\n\n  Read a team's file")
    assert "\nCommands:\n  validate  Check files" in complaint


def test_help_shows_first_what_fits_the_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The options of loops for a loop, those of systems for a system, and neither for a file."""
    (tmp_path / "loop").mkdir()
    (tmp_path / "loop" / "autoloops.toml").write_text('backend.kind = "scripted"\n')
    (tmp_path / "topology.yaml").write_text("")
    monkeypatch.chdir(tmp_path)
    first = {}
    for target in ("team.at", "loop", "topology.yaml"):
        assert app.main(["run", target, "-h"]) == 0
        options = capsys.readouterr().out.split("Options:\n")[1]
        first[target] = options.split()[0]

    assert first == {"team.at": "--input", "loop": "-i,", "topology.yaml": "-t,"}


def test_help_says_the_default_of_each_value() -> None:
    """A default that is a value, and not a switch, is part of the text."""
    for command in CALLED:
        for one in command.parameters:
            if not one.is_required and not isinstance(one.default, bool) and one.default not in (None, "", 0, 1):
                text = f"{one.default:g}" if isinstance(one.default, float) else str(one.default)
                assert text in one.declared.help, f"{command.name} {one.declared.text}"


def test_declarations_are_what_the_parser_relies_on() -> None:
    """No two parameters of a command share an option, an option begins as one, and a list is the last argument."""
    for command in CALLED:
        words = [word for one in command.parameters for word in one.options]
        assert len(words) == len(set(words)) == len({*words} - {"-h", "--help"})
        assert all(re.fullmatch("-[A-Za-z]|--[a-z][a-z-]+", word) for word in words)
        arguments = [one for one in command.parameters if isinstance(one.declared, Arg)]
        assert not any(one.is_list for one in arguments[:-1])


def test_values_become_the_arguments_of_the_function() -> None:
    """Those of a group become the group, whose other fields keep their defaults."""
    command, rest = find_command(["run", "team.at", "--max-turns", "3", "--json", "--", "-x"])
    assert command.function is not None
    made = bound(command.function, parse(command, rest))

    assert made.keys() == {"target", "limits", "drive", "loop", "system", "thread"}
    assert (made["limits"].max_turns, made["limits"].max_cost) == (3, None)
    assert (made["drive"].as_json, made["loop"].arguments) == (True, ["-x"])
