"""What `read` and `read_text` promise, whatever the notation."""

import os
import socket
from pathlib import Path

import pytest
from bundles import bundle

from coterie.base.diagnostics import Span
from coterie.team.formats import files
from coterie.team.formats.reader import read, read_text
from coterie.team.topology.model import Agent

PAGE = """topology t : [pipeline, fan-out] {{
  agent researcher {{ model: m }}  agent planner {{ model: m }}  agent writer {{ model: m }}
  agent reviewer {{ model: m }}  agent editor {{ model: m }}  agent publisher {{ model: m }}
  agent frontend-dev {{ model: m }}  agent backend-dev {{ model: m }}  agent qa-engineer {{ model: m }}
  agent integrator {{ model: m }}  agent a {{ model: m }}  agent b {{ model: m }}  agent c {{ model: m }}
  flow {{
{flow}
  }}
}}
"""


@bundle(
    ("flow", "arrows"),
    [
        ("researcher -> writer -> reviewer", ["researcher -> writer", "writer -> reviewer"]),
        (
            "planner -> researcher -> writer -> editor -> publisher",
            ["planner -> researcher", "researcher -> writer", "writer -> editor", "editor -> publisher"],
        ),
        (
            'researcher -> writer -> reviewer\nreviewer -> writer  [when reviewer.verdict == "revise"]',
            ["researcher -> writer", "writer -> reviewer", "reviewer -> writer"],
        ),
        (
            "planner -> [frontend-dev, backend-dev, qa-engineer]\n"
            "[frontend-dev, backend-dev, qa-engineer] -> integrator",
            [
                "planner -> [frontend-dev, backend-dev, qa-engineer]",
                "frontend-dev -> integrator",
                "backend-dev -> integrator",
                "qa-engineer -> integrator",
            ],
        ),
        (
            'writer -> reviewer\nreviewer -> writer  [when reviewer.verdict == "revise", max 3]',
            ["writer -> reviewer", "reviewer -> writer"],
        ),
        ("a -> b\nb -> c", ["a -> b", "b -> c"]),
    ],
)
def test_every_flow_of_the_page_is_accepted(flow: str, arrows: list[str]) -> None:
    """With the agents it names declared, no flow on the page has an error."""
    source = read_text(PAGE.format(flow=flow))

    assert not source.has_errors
    assert source.topology is not None
    assert source.topology.flow is not None
    assert [str(group) for group in source.topology.flow.groups] == arrows


def test_the_combined_example_of_the_page_holds_all_three_attributes() -> None:
    """`when`, `max` and `per`, in their order."""
    flow = 'writer -> reviewer\nreviewer -> writer  [when reviewer.verdict == "revise", max 2, per phase]'
    topology = read_text(PAGE.format(flow=flow)).topology
    assert topology is not None
    assert topology.flow is not None
    group = topology.flow.groups[1]

    assert (str(group.when), group.max, group.per) == ('reviewer.verdict == "revise"', 2, "phase")


def test_line_ends_make_no_difference() -> None:
    """A file with CRLF says what it says with LF."""
    text = PAGE.format(flow="a -> b\nb -> [a, c]\n[max 2]")

    assert read_text(text.replace("\n", "\r\n")).topology == read_text(text).topology


def test_values_say_where_they_stand() -> None:
    """Nodes, fields, arrows and attributes carry spans, for the checks and for editors."""
    text = (
        'topology t : [p] {\n  agent a { model: x  on-fail: fallback b }\n  flow { a -> b [when a.v == "y", max 3] }\n}'
    )
    topology = read_text(text).topology
    assert topology is not None
    assert topology.flow is not None
    (node,), (group,) = topology.nodes, topology.flow.groups

    def stands(span: Span | None) -> str:
        assert span is not None
        return text[span.offset : span.offset + span.length]

    assert [stands(node.spans[name]) for name in ("model", "on-fail", "fallback")] == ["x", "fallback b", "b"]
    assert stands(node.span) == "a"
    assert stands(group.span) == "a -> b"
    assert [stands(group.spans[name]) for name in ("when", "when.value", "max", "b")] == ['a.v == "y"', '"y"', "3", "b"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\xff\xfe\x00", "line 1 is not UTF-8 text"),
        (b"topology t {\n\n\x80", "line 3 is not UTF-8 text"),
        (b"#" * 2000, "it is larger than 0 MB"),
    ],
)
def test_a_file_that_is_no_text_is_one_diagnostic(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, reason: str
) -> None:
    """Binary content and sizes beyond reason are said, not raised."""
    monkeypatch.setattr(files, "MAX_BYTES", 1000)
    path = tmp_path / "x.at"
    path.write_bytes(content)
    source = read(path)

    assert [diagnostic.message for diagnostic in source.diagnostics] == [f"{str(path)!r} cannot be read: {reason}"]
    assert source.topology is None
    assert source.has_errors


@bundle(
    ("name", "reason"),
    [
        ("missing.at", "No such file or directory"),
        ("missing", "No such file or directory"),
        ("missing.toml", "No such file or directory"),
        ("a" * 300, "File name too long"),
        ("", "Is a directory"),
        ("plain", "a name without a suffix is in no notation coterie knows"),
        ("x.toml", "'.toml' is no notation coterie knows"),
        ("nul\0.at", "its name contains a NUL character"),
        ("a" * 300 + ".at", "File name too long"),
    ],
)
def test_a_file_that_cannot_be_opened_is_one_diagnostic(tmp_path: Path, name: str, reason: str) -> None:
    """What the system says of it is in the message."""
    (tmp_path / "x.toml").touch()
    (tmp_path / "plain").touch()
    (found,) = read(tmp_path / name).diagnostics

    assert found.code == "unreadable-file"
    assert reason in found.message


def test_a_file_of_python_is_answered_with_the_name_that_it_needs(tmp_path: Path) -> None:
    """A program in it can be shown, checked and run by its name."""
    (tmp_path / "program.py").touch()
    (found,) = read(tmp_path / "program.py").diagnostics

    assert found.hint == "use .at, or .yaml for a pattern or a system; a program in it is program.py:NAME"


@pytest.mark.parametrize(("name", "kind"), [("pipe.at", "a pipe"), ("socket.at", "a socket"), ("null.at", "a device")])
def test_what_is_no_file_is_not_even_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, kind: str
) -> None:
    """A pipe that nobody writes to would be waited for without end."""
    monkeypatch.chdir(tmp_path)  # the path of a socket has to be short
    os.mkfifo("pipe.at")
    Path("null.at").symlink_to(os.devnull)

    def opened(path: Path, *arguments: object) -> None:
        raise AssertionError(f"{path} was opened")

    monkeypatch.setattr(Path, "open", opened)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket.at")
        (found,) = read(Path(name)).diagnostics

    assert (found.code, found.is_error) == ("unreadable-file", True)
    assert found.message == f"{name!r} cannot be read: it is {kind}, not a regular file"
    assert found.hint == "write the text to a file and pass its name"


def test_an_empty_file_holds_no_topology(tmp_path: Path) -> None:
    """Which is one error, at its beginning."""
    path = tmp_path / "x.at"
    path.touch()
    (found,) = read(path).diagnostics

    assert (found.code, found.span, found.file) == ("no-topology", Span(1, 1, 0, 0), str(path))


def test_the_prompt_of_a_path_is_a_path_only_where_the_file_is(tmp_path: Path) -> None:
    """A name that ends in .md or .txt and exists beside the file is read at planning; anything else is the text."""
    (tmp_path / "p.md").touch()
    text = 'topology t : [p] {{ agent a {{ model: m  prompt: "{}" }} flow {{ a -> a [max 1] }} }}'

    def prompt(value: str, folder: Path | None) -> tuple[str, bool, list[str]]:
        source = read_text(text.format(value), folder=folder)
        assert source.topology is not None
        agent = source.topology.node("a")
        assert isinstance(agent, Agent)
        return agent.prompt, agent.prompt_is_path, [diagnostic.code for diagnostic in source.diagnostics]

    assert prompt("p.md", tmp_path) == ("p.md", True, [])
    assert prompt("p.md", None) == ("p.md", False, [])
    assert prompt("q.md", tmp_path) == ("q.md", False, ["no-prompt-file"])
    assert prompt("read p.md", tmp_path) == ("read p.md", False, [])
    assert prompt("a" * 5000 + ".md", tmp_path)[1:] == (False, ["no-prompt-file"])


def test_what_the_flow_could_not_say_is_not_held_against_it() -> None:
    """While a statement cannot be read, no check speaks of arrows or agents that may be missing because of it."""
    text = PAGE.format(flow="a -> b\nb => => c\nghost -> a")

    assert [diagnostic.code for diagnostic in read_text(text).diagnostics] == [
        "bad-arrow",
        "double-arrow",
        "unknown-agent",
    ]


def test_diagnostics_come_in_the_order_of_the_text() -> None:
    """Those of the reader and those of the checks together."""
    text = "topology t : [p] {\n agent a { modle: x }\n flow {\n  ghost -> a [max 0]\n }\n}"
    lines = [diagnostic.span.line for diagnostic in read_text(text).diagnostics if diagnostic.span]

    assert lines == sorted(lines)
    assert len(lines) >= 3
