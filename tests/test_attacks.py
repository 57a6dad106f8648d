"""What agents, repositories and files may try, and what stops each of them."""

import json
import os
from pathlib import Path

import limited
import pytest
from repositories import git, put, repository

from coterie.errors import GitFailed
from coterie.runs.trees import git as calls
from coterie.runs.trees.git import need
from coterie.runs.trees.snapshots import Snapshots

# -- git and hostile inputs -------------------------------------------------------------------------------------------

ROLE = '[[role]]\nid = "a"\nemits = ["task.complete"]\nprompt = "Work."\n'
PATTERN = "pattern:\n  type: debate\n"


def test_a_filter_of_a_repository_reads_api_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs, and finds none."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-stolen")
    folder = repository(tmp_path / "r")
    git(folder, "config", "filter.spy.clean", f"env > {tmp_path}/loot; cat")
    put(folder, ".gitattributes", "*.txt filter=spy\n")
    put(folder, "a.txt", "changed\n")
    saved = Snapshots(need(folder, "the test"), tmp_path / "index").save("r", "a#1", 1)

    assert not saved.incomplete
    assert "PATH=" in (tmp_path / "loot").read_text()
    assert "sk-stolen" not in (tmp_path / "loot").read_text()


def test_a_filter_of_a_repository_never_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is killed with git."""
    monkeypatch.setattr(calls, "TIMEOUT", 0.5)
    folder = repository(tmp_path / "r")
    git(folder, "config", "filter.hang.clean", "sleep 600 | sleep 600")
    put(folder, ".gitattributes", "*.txt filter=hang\n")
    put(folder, "a.txt", "changed\n")

    with pytest.raises(GitFailed, match="longer than"):
        Snapshots(need(folder, "the test"), tmp_path / "index").save("r", "a#1", 1)


@pytest.mark.parametrize("key", ["/(a+)+/", "/(a|a)*b/", "/(.*a){30}/", "/([a-z.]+)*!/"])
def test_an_expression_takes_exponential_time(tmp_path: Path, key: str) -> None:
    """It is matched in linear time, by `validate` and by a live loop."""
    events = ["a" * 60 + "!", "task.complete"]
    loop(tmp_path, f'[[role]]\nid = "a"\nemits = {json.dumps(events)}\nprompt = "W."\n[handoff]\n"{key}" = ["a"]\n')
    done = limited.coterie("topology", "validate", ".", cwd=tmp_path)

    assert (done.returncode, done.stderr.count("Traceback")) == (0, 0), done.stderr


def test_an_expression_looks_ahead(tmp_path: Path) -> None:
    """What cannot be matched in linear time is an error at its place."""
    loop(tmp_path, ROLE + '[handoff]\n"/(?=a)b/" = ["a"]\n')
    done = limited.coterie("topology", "validate", ".", cwd=tmp_path)

    assert done.returncode == 1
    assert "topology.toml:6:1: error[bad-pattern]" in done.stderr
    assert "lookahead" in done.stderr


HOSTILE = {
    "topology.toml": {
        "key": ("a." * 30_000 + "a = 1", "too-deep"),
        "header": ("[" + "a." * 30_000 + "a]", "too-deep"),
        "brackets": ("a = " + "[" * 1_000_000, "too-deep"),
        "tables": ("a = " + "{a = " * 200_000, "too-deep"),
        "headers": ("[[role]]\n" * 200_000, "too-large"),
        "digits": ("a = " + "1" * 1_000_000, "not-toml"),
        "size": ("#" * 50_000_000, "unreadable-file"),
    },
    "team.yaml": {
        "brackets": ("a: " + "[" * 1_000_000, "too-deep"),
        "dashes": ("- " * 500_000, "too-deep"),
        "laughs": (
            PATTERN + "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{f'*a{n - 1},' * 9}]\n" for n in range(1, 12)),
            "too-large",
        ),
        "cycle": (PATTERN + "a: &a [*a]\n", "not-yaml"),
        "size": ("#" * 50_000_000, "unreadable-file"),
    },
    "team.at": {
        "brackets": ("[" * 1_000_000, "too-large"),
        "blocks": ("topology t : [pipeline] {" + "agent a { b {" * 70_000, "too-large"),
        "arrows": (
            "topology t : [fan-out] { flow { "
            + " -> ".join("[" + ",".join(f"{p}{n}" for n in range(9_000)) + "]" for p in "ab")
            + " } }",
            "too-large",
        ),
        "size": ("#" * 50_000_000, "unreadable-file"),
    },
}
CASES = [pytest.param(name, *HOSTILE[name][what], id=f"{name}-{what}") for name in HOSTILE for what in HOSTILE[name]]


@pytest.mark.parametrize(("name", "text", "code"), CASES)
def test_a_file_takes_all_memory_or_time(tmp_path: Path, name: str, text: str, code: str) -> None:
    """It is refused at once, with its place, and no traceback."""
    (tmp_path / name).write_text(text)
    done = limited.coterie("topology", "validate", "." if name == "topology.toml" else name, cwd=tmp_path)

    assert done.returncode == 1, done.stderr[-2000:]
    assert f"error[{code}]" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", ["autoloops.toml", "agents.toml"])
def test_settings_take_all_memory_or_time(tmp_path: Path, name: str) -> None:
    """As a team's own file."""
    loop(tmp_path, ROLE)
    (tmp_path / name).write_text("a." * 30_000 + "a = 1")
    done = limited.coterie("topology", "validate", ".", cwd=tmp_path)

    assert done.returncode == 1, done.stderr
    assert f"{name}:1:" in done.stderr
    assert "error[too-deep]" in done.stderr


@pytest.mark.parametrize(
    "line", ["[" + " " * 100_000, "a " * 50_000 + '"', " ." * 50_000 + "= 1", "a" * 100_000 + '"= 1']
)
def test_a_line_of_settings_takes_cubic_time(tmp_path: Path, line: str) -> None:
    """Each line is looked through once."""
    loop(tmp_path, ROLE)
    with (tmp_path / "autoloops.toml").open("a") as file:
        file.write(f"bare words\n{line}\n")
    done = limited.coterie("topology", "validate", ".", cwd=tmp_path)

    assert (done.returncode in (0, 1), "Traceback" in done.stderr) == (True, False), done.stderr[-2000:]


@pytest.mark.parametrize("name", ["topology.toml", "agents.toml", "autoloops.toml"])
def test_a_file_is_a_pipe_without_a_writer(tmp_path: Path, name: str) -> None:
    """It is not waited for."""
    loop(tmp_path, ROLE)
    (tmp_path / name).unlink(missing_ok=True)
    os.mkfifo(tmp_path / name)
    done = limited.coterie("topology", "validate", ".", cwd=tmp_path)

    assert done.returncode in (0, 1), done.stderr
    assert "Traceback" not in done.stderr
    assert name == "agents.toml" or "cannot be read" in done.stderr


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[" * 1_000_000, "more than 100 deep"),
        ('{"a":' * 200_000, "more than 100 deep"),
        ('{"a": [' + "[],[]," * 400_000 + "1]}", "more than 1000000 values"),
        ("1" * 1_000_000, "Exceeds the limit"),
    ],
)
def test_an_input_takes_all_memory_or_time(tmp_path: Path, text: str, reason: str) -> None:
    """Neither that of a run nor the script of a rehearsal."""
    (tmp_path / "team.at").write_text(
        "topology t : [pipeline] { agent a { model: m } agent b { model: m } flow { a -> b } }"
    )
    (tmp_path / "hostile.json").write_text(text)
    for words in (["--rehearse", "--input-file", "hostile.json"], ["--rehearse=hostile.json"]):
        done = limited.coterie("run", "team.at", *words, cwd=tmp_path)
        assert done.returncode == 2, done.stderr[-2000:]
        assert "Traceback" not in done.stderr
        assert reason in done.stderr


REPLIES = {
    "brackets": '"a"' + "[" * 1_000_000,
    "braces": '"a"' + '{"a":' * 200_000,
    "quotes": '{"a' * 300_000,
    "blanks": '"a" {' + " " * 1_000_000,
    "lines": "a: b\n" * 200_000,
    "marks": "*" * 1_000_000,
}


@pytest.mark.parametrize("kind", REPLIES)
def test_a_reply_takes_all_memory_or_time(tmp_path: Path, kind: str) -> None:
    """Outputs are looked for in linear time."""
    (tmp_path / "reply").write_text(REPLIES[kind])
    program = (
        "from coterie.engines.replies import find_outputs; from coterie.planning.plan import Wanted\n"
        "find_outputs(open('reply').read(), [Wanted(name='a', type='text')])"
    )
    done = limited.python(program, cwd=tmp_path)

    assert done.returncode == 0, done.stderr


def loop(folder: Path, text: str) -> None:
    """A loop whose roles and map *text* says."""
    (folder / "topology.toml").write_text(text)
    (folder / "autoloops.toml").write_text('event_loop.completion_event = "task.complete"\nbackend.command = "true"\n')
