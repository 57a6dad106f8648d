"""Values that stand side by side are never read as one text, whatever block or grammar they are in."""

import subprocess
import tempfile
from pathlib import Path

import pytest
from bundles import bundle
from hypothesis import given
from hypothesis import strategies as st

from coterie.base.diagnostics import Diagnostic
from coterie.errors import UsageError
from coterie.team.formats import read_text
from coterie.team.formats.settings.edit import set_value
from coterie.team.formats.settings.grammar import LINES, read
from coterie.team.formats.settings.layers import resolve
from coterie.team.options.values import COMMAND, Unfit
from coterie.team.planning import examine
from coterie.team.planning.plan import AgentPlan

FIELDS = (
    'coterie { command: ["true"]  allow: [%s] }',
    "coterie { command: [%s] }",
    'coterie { command: ["true"]  gates: [[%s]] }',
    'coterie { command: ["true"]  options { nested { deeper: [%s] } } }',
)
PLACES = (
    *(f"topology t : [pipeline] {{ agent one {{ extensions {{ {field} }} }} flow {{ one }} }}" for field in FIELDS),
    *(f"topology t : [pipeline] {{ extensions {{ {field} }} agent one {{ }} flow {{ one }} }}" for field in FIELDS[:3]),
    "topology t : [pipeline] { agent one { model: m  tools: [%s] } flow { one } }",
    "topology t : [pipeline] { agent one { model: m } pattern { type: debate  config { order: [%s] } } }",
    "topology t : [pipeline] { agent one { model: m } settings { deny: [%s] } flow { one } }",
)
"""Lists that have an effect, each in another block or read by another reader."""


@bundle("place", PLACES)
def test_a_missing_comma_is_reported_where_it_is_missing(place: str) -> None:
    """Between two texts, with or without a blank between them; the fix makes two items of them."""
    for items in ('"a" "b"', '"a""b"', '"a" b', 'a"b"', "a b", '"x", "a" "b", "y"'):
        text = place % items
        (found,) = [each for each in _said(text) if each.code == "missing-comma"]

        assert found.is_error
        assert found.span is not None
        assert found.fix is not None
        assert text[: found.span.offset].endswith(("a", 'a"'))
        at = found.fix.span.offset
        assert "missing-comma" not in {each.code for each in _said(text[:at] + found.fix.text + text[at:])}


@bundle(
    "field",
    [
        'extensions { coterie { command: ["true"]  cwd: "a" "b" } }',
        'extensions { coterie { command: ["true"]  cwd: "a""b" } }',
        'extensions { coterie { command: ["true"]  env { NAME: "a" "b" } } }',
        'model: "a""b"',
        'model: m  tools: "a""b"',
        'model: m  description: "a" b',
    ],
)
def test_what_follows_a_quoted_text_is_not_part_of_it(field: str) -> None:
    """Nor are the quotation marks."""
    said = _said(f"topology t : [pipeline] {{ agent one {{ {field} }} flow {{ one }} }}")

    assert [each.code for each in said if each.is_error] == ["unexpected-text"]


def test_words_of_commands_and_variables_are_texts() -> None:
    """A duration is no number of seconds there, and a number keeps its zeros."""
    own = "command: [sleep, 5m, 007, 1.50, true]  gates: [[test, 2h]]  env { MODE: 0644  WAIT: 5m }  timeout: 5m"
    agent = _planned(
        f"topology t : [pipeline] {{ agent one {{ extensions {{ coterie {{ {own} }} }} }} flow {{ one }} }}"
    )

    assert agent.argv == ("sleep", "5m", "007", "1.50", "true")
    assert agent.gates == (("test", "2h"),)
    assert agent.env == {"MODE": "0644", "WAIT": "5m"}
    assert agent.timeout == 300.0


def test_a_bare_text_is_a_list_of_one() -> None:
    """Not the list of its letters."""
    own = "backend: claude-sdk  allow: Edit"
    agent = _planned(
        f"topology t : [pipeline] {{ agent one {{ extensions {{ coterie {{ {own} }} }} }} flow {{ one }} }}"
    )

    assert agent.options["allow"] == ("Edit",)


@given(st.text(st.sampled_from("ab1 \t\n'\"\\$#=;&|<>(){}[]*?~!%-./é`,:"), max_size=12))
def test_the_hint_for_a_command_runs_what_was_written(text: str) -> None:
    """It is accepted as it stands, and its words are what a shell makes of the text, or a shell gets the text."""
    with pytest.raises(Unfit) as wrong:
        COMMAND.read(text)
    _, _, hint = wrong.value.hint.partition("write ")
    file = f"topology t : [pipeline] {{ agent one {{ extensions {{ coterie {{ {hint} }} }} }} flow {{ one }} }}"

    assert [each.message for each in _said(file) if each.is_error] == []
    argv = list(_planned(file).argv)
    if argv[:2] != ["sh", "-c"]:
        assert argv == (["program", "argument"] if not text.strip() else _words(text))
    else:
        assert argv[2:] == [text] or _words(text) == argv


def test_a_block_behind_the_value_of_a_word_of_the_topology_is_one_error() -> None:
    """The agent that is missed then was not declared by mistake."""
    said = _said("topology t : [pipeline] { agent: writer { model: m } flow { writer } }")

    assert [(each.code, each.message) for each in said if each.is_error] == [
        ("unexpected-text", "found '{' behind the value of 'agent'")
    ]


def _words(text: str) -> list[str]:
    """The words of *text*, a command of one program, as `sh` divides them."""
    script = f"set -- {text}\nfor word; do printf '%s\\0' \"$word\"; done"
    with tempfile.TemporaryDirectory() as empty:  # a wrong hint may redirect into a file
        done = subprocess.run(["sh", "-c", script], cwd=empty, capture_output=True, text=True, check=True)
    return done.stdout.split("\0")[:-1]


@bundle("items", ['"Edit" "Read"', '"Edit" Read', "'a''b'", '"x", "Edit" "Read"'])
def test_lines_of_settings_report_it_too(items: str, tmp_path: Path) -> None:
    """In a file, on the command line, and for `config set`."""
    reading = read(f"kind = bare\nbackend.allow = [{items}]\n", LINES)

    assert [(each.code, each.span.line) for each in reading.diagnostics if each.span] == [("bad-setting", 2)]
    given = resolve(None, work_dir=tmp_path, env={}, overrides=[f"backend.allow=[{items}]"])[1]
    assert [each.code for each in given] == ["bad-setting"]
    with pytest.raises(UsageError, match="a comma is missing"):
        set_value(tmp_path / "settings.toml", "backend.allow", f"[{items}]")
    assert not (tmp_path / "settings.toml").exists()


def test_a_text_of_a_setting_may_look_like_a_list() -> None:
    """Only lists are read as lists."""
    settings, said = resolve(None, work_dir=Path("/"), env={}, overrides=['event_loop.prompt=["a" "b"]'])

    assert said == []
    assert settings.event_loop.prompt == '["a" "b"]'


def _said(text: str) -> tuple[Diagnostic, ...]:
    return examine(read_text(text, "team.at"))[1]


def _planned(text: str) -> AgentPlan:
    plan = examine(read_text(text, "team.at"))[0]
    assert plan is not None
    return plan.agents["one"]
