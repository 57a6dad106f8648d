"""What a text could hide from the person who reads it is shown escaped, wherever an agent's text is shown."""

import json
import sys
import unicodedata
from pathlib import Path

import pytest
from bundles import bundle
from command_line import make

from coterie.agents.actors.plugins.reports import report
from coterie.base.escapes import printable, printable_json
from coterie.execution.cluster.labels import RunDetails, summary
from coterie.history.journal.records import TurnStarted
from coterie.interfaces.cli import output
from coterie.team.planning.plan import Plan

HIDDEN = {
    "zero width": ("pass\u200bword", "pass\\u200bword"),
    "joiners": ("a\u200c\u200d\u2060\ufeffb", "a\\u200c\\u200d\\u2060\\ufeffb"),
    "direction": ("\u202egpj.exe\u2066x\u2069\u061c", "\\u202egpj.exe\\u2066x\\u2069\\u061c"),
    "tags": ("\U000e0068\U000e0069", "\\U000e0068\\U000e0069"),
    "variants": ("a\ufe00\U000e0100", "a\\ufe00\\U000e0100"),
    "fillers": ("\u00ad\u115f\u3164\uffa0", "\\xad\\u115f\\u3164\\uffa0"),
    "terminal": ("\x1b[2J\x9b\x07", "\\x1b[2J\\x9b\\x07"),
    "readable": ("naïve\tçok 日本 ⚠\ufe0f\n", "naïve\tçok 日本 ⚠\ufe0f\n"),
}


@bundle("name", HIDDEN)
def test_what_hides_is_shown_and_what_is_read_stays(name: str) -> None:
    """In JSON as an escape of JSON, which reads as the same text."""
    text, shown = HIDDEN[name]
    line = json.dumps(text, ensure_ascii=False)

    assert printable(text) == shown
    assert json.loads(printable_json(line)) == text
    assert printable(printable_json(line)) == printable_json(line)


def test_no_character_of_formats_is_left_out() -> None:
    """By Unicode's own list, but for marks that are drawn around numbers."""
    drawn = {0x600, 0x601, 0x602, 0x603, 0x604, 0x605, 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD}
    drawn |= {*range(0x13430, 0x13440)}  # of hieroglyphs
    formats = {code for code in range(sys.maxunicode) if unicodedata.category(chr(code)) in ("Cf", "Zl", "Zp")}

    assert not [hex(code) for code in formats - drawn if printable(chr(code)) == chr(code)]


def test_every_way_to_a_terminal_escapes(capsys: pytest.CaptureFixture[str]) -> None:
    """Results, notices, questions, JSON, and lines of plugins."""
    text = "a\u200b\x1b[2J\U000e0041"
    for show in (output.say, output.complain, output.prompt, output.say_json, report):
        show(text)
        out, err = capsys.readouterr()
        assert not {*text}.difference("a[2J") & {*out, *err}, show
        assert "\\u200b" in out + err


def test_what_temporal_shows_is_escaped() -> None:
    """The prompt, which an agent may have submitted, within the server's 400 bytes, and the names of turns."""
    hidden = "a\u200b\U000e0041\u3164"
    plan = Plan(name=hidden, agents={})
    line = summary(plan, {"prompt": hidden * 40})
    details = RunDetails(line)
    details.take("r", TurnStarted(turn=f"{hidden}#1", agent="a"))

    assert line.endswith("…")
    assert len(line.encode()) <= 400
    assert not {*hidden}.difference("a") & {*str(details)}


@pytest.mark.slow
def test_an_answer_that_hides_text_is_seen_in_every_view(tmp_path: Path) -> None:
    """Of `run`, `inspect`, `logs`, `runs` and `attention`; the journal keeps it as it is."""
    place = make(tmp_path)
    text = "hid\u200bden\U000e0041"
    (tmp_path / "agent.py").write_text(f"print({text!r})\n")
    (tmp_path / "hides.at").write_text(
        "topology hides : [pipeline] {\n"
        '  agent writer { extensions { coterie { command: ["{python}", "{here}/agent.py"] } } }\n'
        "  human boss { outputs { verdict: approve | revise } }\n"
        "  flow { writer -> boss }\n}\n"
    )
    shown = [place.call("run", "hides.at", text, status=4)]
    for words in (
        ["inspect", "last"],
        ["inspect", "last", "output", "writer#1"],
        ["logs", "last"],
        ["runs"],
        ["attention"],
    ):
        shown.append(place.look(*words))
    said = "".join(one.out + one.err for one in shown)

    assert "hid\\u200bden\\U000e0041" in said
    assert not {"\u200b", "\U000e0041"} & {*said}
