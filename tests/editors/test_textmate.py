"""The grammar that editors colour `.at` files by, and what VS Code is told."""

import json
import re
from pathlib import Path

from bundles import bundle
from textmate import Grammar

from coterie.team.formats.at.flow_parser import ATTRIBUTE_WORDS
from coterie.team.formats.at.language import BLOCKS

VSCODE = Path(__file__).parents[2] / "editors" / "vscode"
RAW = json.loads((VSCODE / "coterie.tmLanguage.json").read_text())
GRAMMAR = Grammar(RAW)
BARE = {"race", "reflection"}
"""Attributes of an arrow that take no value."""

TEAM = """\
topology review-team : [pipeline, fan-out] { # the team
  import "./other.at" as other with { rounds: 2 }
  agent plan-b {
    model: sonnet
    description: "Says \\"no\\" # often, ${param.tone}"
    timeout: 30s
    temperature: 0.7
    background: false
    on-fail: fallback prompt
    outputs { verdict: approve | revise }
    prompt { Write { and } flow, # no comment
      agent x -> y "open
    }
  }
  agent prompt { model: opus }
  roles { critic: "You doubt" }
  flow {
    plan-b -> [prompt, max] -x[timeout]-> other
    prompt -> plan-b [when prompt.verdict == "revise", max 3, per run, on-max end] # again
    prompt -> when [per plan-b, max 2]
  }
  agent flow { model: "a" }
}
"""
LINES = TEAM.splitlines()
SCOPES = GRAMMAR.scopes(TEAM)


def scope(line: int, word: str, occurrence: int = 0) -> set[str]:
    """The scopes of the letters of *word* in a line of the team, counted from 0."""
    start = [found.start() for found in re.finditer(re.escape(word), LINES[line])][occurrence]
    offset = sum(len(each) + 1 for each in LINES[:line]) + start
    return set(SCOPES[offset : offset + len(word)])


@bundle(
    ("line", "word", "expected"),
    [
        (0, "topology", "keyword.declaration"),
        (0, "review-team", "entity.name.namespace"),
        (0, "# the team", "comment.line.number-sign"),
        (1, "import", "keyword.control.import"),
        (1, '"./other.at"', "string.quoted.double"),
        (1, "with", "keyword.control.import"),
        (2, "agent", "storage.type"),
        (2, "plan-b", "entity.name.type"),
        (3, "model", "variable.other.property"),
        (3, "sonnet", ""),
        (4, "# often", "string.quoted.double"),
        (4, '\\"', "constant.character.escape"),
        (4, "${param.tone}", "variable.parameter"),
        (5, "30s", "constant.numeric.duration"),
        (6, "0.7", "constant.numeric"),
        (7, "false", "constant.language.boolean"),
        (8, "fallback", "keyword.other"),
        (9, "outputs", "storage.type"),
        (9, "|", "keyword.operator.or"),
        (10, "Write { and } flow, # no comment", "string.unquoted.prompt"),
        (11, 'agent x -> y "open', "string.unquoted.prompt"),
        (14, "agent", "storage.type"),
        (14, "prompt", "entity.name.type"),
        (14, "model", "variable.other.property"),
        (15, "roles", "storage.type"),
        (17, "prompt", "variable.other.node"),
        (17, "max", "variable.other.node"),
        (17, "->", "keyword.operator.arrow"),
        (17, "-x[timeout]->", "keyword.operator.arrow.error"),
        (18, "when", "keyword.control"),
        (18, "verdict", "variable.other.property"),
        (18, "==", "keyword.operator.comparison"),
        (18, '"revise"', "string.quoted.double"),
        (18, "max", "keyword.control"),
        (18, "3", "constant.numeric"),
        (18, "run", "constant.language"),
        (18, "end", "constant.language"),
        (18, "# again", "comment.line.number-sign"),
        (19, "when", "variable.other.node"),
        (19, "plan-b", "variable.other.node"),
        (21, "agent", "storage.type"),
        (21, "flow", "entity.name.type"),
        (21, '"a"', "string.quoted.double"),
    ],
)
def test_words_are_coloured_by_what_they_are(line: int, word: str, expected: str) -> None:
    """Keywords only where they are expected, comments not in strings, nothing inside a prompt."""
    assert scope(line, word) == {expected}


def test_the_grammar_is_whole() -> None:
    """Its expressions compile, each part that is included is there, and each part is included."""
    for regex in GRAMMAR.regexes():
        re.compile(regex)
    assert set(GRAMMAR.includes()) == set(RAW["repository"])


def test_the_grammar_knows_the_words_of_the_notation() -> None:
    """What begins a block with a name, and every attribute of an arrow."""
    named = set(re.findall(r"[a-z-]+", RAW["repository"]["named-block"]["match"].partition(")\\s")[0]))

    assert {block.name for block in BLOCKS.values() if block.named} <= named
    for word in ATTRIBUTE_WORDS:
        written = word if word in BARE else f"{word} x"
        for text in (f"flow {{ a -> b [{written}] }}", f"flow {{ a -> b [max 2, {written}] }}"):
            start = text.index(written)
            assert {*GRAMMAR.scopes(text)[start : start + len(word)]} == {"keyword.control"}, text


def test_vs_code_finds_what_it_is_told_of() -> None:
    """The files that the manifest names are there, and speak of one language."""
    manifest = json.loads((VSCODE / "package.json").read_text())
    (language,) = manifest["contributes"]["languages"]
    (grammar,) = manifest["contributes"]["grammars"]

    assert language["extensions"] == [".at"]
    assert grammar["scopeName"] == RAW["scopeName"]
    assert grammar["language"] == language["id"]
    for path in (manifest["main"], language["configuration"], grammar["path"]):
        assert (VSCODE / path).is_file()
    configuration = json.loads((VSCODE / language["configuration"]).read_text())
    assert re.fullmatch(configuration["wordPattern"], "review-team")
    assert re.search(configuration["indentationRules"]["increaseIndentPattern"], "  agent a {  # here")
