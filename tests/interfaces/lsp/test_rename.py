"""Renaming: everywhere, or not at all."""

from pathlib import Path
from typing import Any

import pytest
from bundles import bundle
from editing import cursor
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct

from coterie.base.diagnostics import Span
from coterie.errors import UsageError
from coterie.interfaces.lsp.document import Document
from coterie.interfaces.lsp.names import NameKind, Symbol
from coterie.interfaces.lsp.rename import apply, rename

TEAM = """
topology team : [pipeline, fan-out] {
  meta { error-handler: medic }
  roles { critic: "You doubt" }
  orchestrator { model: opus handles: [fetch] }
  agent writer { model: sonnet on-fail: fallback medic  outputs { state: "half-done" | ready } }
  agent reviewer { model: "opus" role: critic skills: [reading] outputs { verdict: approve | revise, score: number } }
  agent medic { model: haiku invocation: manual compensates: writer tools: [lint, Grep] }
  skill reading { scripts: [lint] }
  tools { tool lint { script: "lint.sh" } }
  action fetch { commands: ["git fetch"] }
  gate tests { after: writer before: "reviewer" run: "pytest" }
  human boss { on-timeout: fallback writer }
  group panel { members: [writer, reviewer] }
  agent lister { model: opus outputs { parts: list of text } }
  agent piece { model: opus outputs { size: small | large } }
  flow {
    orchestrator -> fetch -> writer [when orchestrator.topic != "none"]
    writer -> [reviewer, boss]
    reviewer -> writer [when reviewer.verdict == "revise", max 3, per fetch]
    reviewer -> boss [when reviewer.score >= 3]
    boss -> writer [when reviewer.verdict == revise, max 2]
    boss -> lister [when reviewer.verdict == approve]
    lister -> piece [each lister.parts, at-most 5, at-once 2, until any piece.size == large]
    piece -> [writer, fetch] [when all piece.size == small, max 2]
  }
}
"""
DOCUMENT = Document.of(TEAM)
RENAMABLE = [
    one.symbol
    for one in DOCUMENT.names.all
    if (one.declares and not one.fixed) or one.symbol == Symbol(NameKind.OUTPUT, "topic", "orchestrator")
]


@settings(max_examples=40)
@given(
    st.sampled_from(RENAMABLE), st.sampled_from(["other", "Other_1", "agent", "when", "max", "flow", "not", "x-y-z"])
)
def test_renamed_a_team_says_the_same_with_the_name_mapped(symbol: Symbol, name: str) -> None:
    """The topology that is read afterwards is the one before, with one name for the other."""
    offset = DOCUMENT.names.of(symbol)[0].offset
    if (symbol.name, name) == ("medic", "agent"):  # it is named where a word of the notation may be
        with pytest.raises(UsageError, match="a different meaning"):
            rename(DOCUMENT, offset, name)
        return

    renamed = Document.of(apply(TEAM, rename(DOCUMENT, offset, name)))

    before, after = DOCUMENT.source, renamed.source
    assert [one.code for one in after.diagnostics] == [one.code for one in before.diagnostics]
    assert _plain(after.topology, {}) == _plain(before.topology, {symbol.name: name})
    back = rename(renamed, renamed.names.of(_renamed(symbol, name))[0].offset, symbol.name)
    assert apply(renamed.text.content, back) == TEAM


def _renamed(symbol: Symbol, name: str) -> Symbol:
    return Symbol(symbol.kind, name, symbol.owner)


def _plain(value: Any, names: dict[str, str]) -> Any:
    """*value* as texts and containers, spans left out, with *names* mapped."""
    if isinstance(value, str):
        first, space, rest = value.partition(" ")
        return f"fallback {names.get(rest, rest)}" if first == "fallback" and space else names.get(value, value)
    if isinstance(value, dict):
        return {_plain(key, names): _plain(each, names) for key, each in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(each, names) for each in value]
    if isinstance(value, Span):
        return None
    if isinstance(value, Struct):
        return {
            name: _plain(getattr(value, name), names)
            for name in value.__struct_fields__
            if name not in ("span", "spans")
        }
    return value


@bundle(
    ("text", "name", "message"),
    [
        ("agent ‸writer { model: m }", "two words", "'two words' is not a name"),
        ("agent ‸writer { model: m }", "4o", "'4o' is not a name"),
        ("agent ‸writer { model: m } agent reader { model: m }", "reader", "'reader' is the name of another node"),
        ("agent ‸writer { model: m } flow { writer -> reader }", "reader", "'reader' is the name of another node"),
        ("agent ‸writer { model: m }", "phase", "'phase' means something else after 'per'"),
        ("‸orchestrator { model: m }", "boss", "is always called 'orchestrator'"),
        ("gate g { after: a } flow { a -> b [when g.‸passed == true] }", "ok", "is always called 'passed'"),
        ("agent a { model: m tools: [‸Read] }", "Write", "tool 'Read' is not declared"),
        ("agent a { ‸model: m }", "thinker", "there is no name here"),
        ("agent a { outputs { ‸x: text, y: text } }", "y", "'y' is the name of another output of 'a'"),
        ("agent a { outputs { x: ‸yes | no } }", "true", "'true' is no text"),
        ("agent a { outputs { x: ‸yes } }", "text", "would have a different meaning"),
        ('roles { critic: "You doubt" } agent ‸critic { model: m }', "judge", "chooses its role"),
        ('roles { ‸critic: "You doubt" } agent critic { model: m }', "judge", "chooses its role"),
    ],
)
def test_what_would_break_the_file_is_refused(text: str, name: str, message: str) -> None:
    """No name that is none or taken, none that is not ours, none that changes what the file says."""
    document, offset = cursor(f"topology t : [pipeline] {{ {text} }}")

    with pytest.raises(UsageError, match=message):
        rename(document, offset, name)


def test_what_another_file_calls_by_its_name_keeps_it(tmp_path: Path) -> None:
    """A node that an included file leads to, and an output that an imported team gives back."""
    (tmp_path / "part.at").write_text("fragment part { agent b { model: m } flow { a -> b } }")
    team = "topology sub : [pipeline] { agent x { model: m } %s flow { x -> y } }"
    (tmp_path / "sub.at").write_text(team % "agent y { model: m outputs { mood: good | bad } }")
    text = """topology t : [pipeline] {
      include "part.at"
      import "sub.at" as sub
      agent a { model: m }
      flow { b -> sub -> a [when sub.mood == "bad"] }
    }"""
    document = Document.of(text, tmp_path / "team.at")

    with pytest.raises(UsageError, match="then the file would be wrong: the flow names 'a', which is not declared"):
        rename(document, text.index("a { model"), "other")
    with pytest.raises(UsageError, match="what 'sub' gives back is declared in another file"):
        rename(document, text.index("mood"), "temper")


def test_the_same_name_changes_nothing() -> None:
    """There is nothing to do, and nothing to refuse."""
    document, offset = cursor("topology t : [pipeline] { agent ‸a { model: m } }")

    assert rename(document, offset, "a") == []
