"""What the documentation says can be done is done, and where it points something is."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from coterie.formats import read_text

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
SHOWN = ("src", "examples", "docs", "README.md")
"""What the commands of the pages may look at."""

LEFT_TO_CI = ("python3 -m venv",)
"""What begins so sets a machine up; `.ci/run` does it."""

_FENCE = re.compile(r"^(?P<ticks>`{3,})(?P<info>[^\n`]*)\n(?P<body>.*?)^(?P=ticks)$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?P<target>[^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} +(.+?)\s*$", re.MULTILINE)
_STATUS = re.compile(r"\s+# exit (\d+)$")


@dataclass(frozen=True)
class Block:
    """One fenced block of a page."""

    page: str
    line: int
    info: str
    body: str

    @property
    def name(self) -> str:
        """Where it stands, for the test's name."""
        return f"{self.page}:{self.line}"


def name_of(page: Path) -> str:
    """The page's path from the root of the repository."""
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> Iterator[Block]:
    """The fenced blocks of *page*."""
    text = page.read_text(encoding="utf-8")
    for match in _FENCE.finditer(text):
        yield Block(name_of(page), text.count("\n", 0, match.start()) + 1, match["info"].strip(), match["body"])


def commands(block: Block) -> list[tuple[str, int]]:
    """The command lines of a block and the exit status each must have."""
    found = []
    for line in block.body.splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            status = _STATUS.search(line)
            found.append((_STATUS.sub("", line), int(status[1]) if status else 0))
    return found


BLOCKS = [block for page in PAGES for block in blocks(page)]
TO_RUN = [
    block
    for block in BLOCKS
    if block.info == "sh" and not all(command.startswith(LEFT_TO_CI) for command, _ in commands(block))
]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """What the commands look at, under git and with one commit, so that nothing here is touched."""
    copy = tmp_path / "coterie"
    copy.mkdir()
    for name in SHOWN:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__", ".*"))
        else:
            shutil.copy(source, copy / name)
    for arguments in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "A copy"]):
        identity = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *identity, *arguments], cwd=copy, check=True)
    return copy


@pytest.mark.parametrize("block", TO_RUN, ids=lambda block: block.name)
def test_the_commands_of_a_page_do_what_it_says(block: Block, copy: Path, tmp_path: Path) -> None:
    """Every line of an `sh` block runs, and ends with 0 or with the status that the page names."""
    environment = os.environ | {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "HOME": str(tmp_path),
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "XDG_RUNTIME_DIR": str(tmp_path),
        "COLUMNS": "120",
    }
    for command, status in commands(block):
        done = subprocess.run(
            ["bash", "-c", command], cwd=copy, env=environment, input="", capture_output=True, text=True, timeout=120
        )
        assert done.returncode == status, f"{command}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.info == "python"], ids=lambda block: block.name)
def test_the_python_of_a_page_runs(block: Block, copy: Path) -> None:
    """Every `python` block is a program that ends without an error, and without a warning."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", block.body], cwd=copy, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.info == "at"], ids=lambda block: block.name)
def test_the_teams_of_a_page_are_valid(block: Block) -> None:
    """Every `at` block is a whole file without an error."""
    source = read_text(block.body, folder=ROOT)
    assert not source.has_errors, [finding.render(source.text) for finding in source.diagnostics]


def test_the_pages_have_commands_to_run() -> None:
    """The rule above is not empty: README alone has several blocks."""
    assert len([block for block in TO_RUN if block.page == "README.md"]) >= 3


@pytest.mark.parametrize("heading", ["Run it", "Test it"])
def test_readme_has_one_line_that_sets_up_and_does_the_job(heading: str) -> None:
    """`.ci/run` takes these lines from the page, so there is exactly one in each block."""
    section = (ROOT / "README.md").read_text(encoding="utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    (fence,) = _FENCE.finditer(section)

    assert fence["info"] == "sh"
    assert len(fence["body"].splitlines()) == 1
    assert fence["body"].startswith("python3 -m venv .venv && .venv/bin/pip install ")


def links() -> list[tuple[str, str]]:
    """Every link of every page, code left out."""
    found = []
    for page in PAGES:
        text = re.sub(r"`[^`\n]*`", "", _FENCE.sub("", page.read_text(encoding="utf-8")))
        found += [(name_of(page), match["target"]) for match in _LINK.finditer(text)]
    return found


def anchors(page: Path) -> set[str]:
    """The fragments that point into *page*, made of its headings as forges make them."""
    headings = _HEADING.findall(_FENCE.sub("", page.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize(("page", "target"), links())
def test_a_link_leads_somewhere(page: str, target: str) -> None:
    """A file that is there, and a heading in it; the web is not asked."""
    if re.match(r"[a-z]+:", target):
        assert target.startswith("https://")
        return
    file, _, fragment = target.partition("#")
    found = (ROOT / page).parent / file if file else ROOT / page
    assert found.exists()
    assert not fragment or fragment in anchors(found)


def test_every_page_can_be_reached_from_the_readme() -> None:
    """Nobody has to know the name of a page to find it."""
    reached, waiting = set(), ["README.md"]
    while waiting:
        page = waiting.pop()
        reached.add(page)
        for source, target in links():
            file = target.partition("#")[0]
            if source == page and file.endswith(".md"):
                found = os.path.relpath((ROOT / page).parent.joinpath(file).resolve(), ROOT)
                if found not in reached:
                    waiting.append(found)

    assert {name_of(page) for page in PAGES} <= reached


def glossary() -> list[str]:
    """The words that the glossary explains, in its order."""
    return re.findall(
        r"^- \*\*(.+?)\*\*: \S", (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8"), re.MULTILINE
    )


def test_the_glossary_explains_each_word_once() -> None:
    """One word per thing, and one thing per word; every entry has its explanation."""
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")

    assert len(glossary()) == len(set(glossary())) == len(re.findall(r"^- ", text, re.MULTILINE))


WORDS = (
    "topology, plan, agent, arrow group, mark, gate, run, child run, turn, attempt, record, journal, "
    "engine, backend, store, owner, epoch, inbox, doorbell, park, rehearsal"
)


@pytest.mark.parametrize("word", WORDS.split(", "))
def test_the_words_of_the_design_are_explained(word: str) -> None:
    """The words that messages and records use are in the glossary."""
    assert word in glossary()


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.info == "json"], ids=lambda block: block.name)
def test_json_on_a_page_is_json(block: Block) -> None:
    """What a page shows as JSON parses."""
    import json

    assert isinstance(json.loads(block.body), dict | list)


def test_the_team_that_readme_shows_is_an_example_that_runs() -> None:
    """The first thing a reader sees is a file they have."""
    shown = [block.body for block in BLOCKS if block.page == "README.md" and block.body.startswith("topology ")]

    assert shown == [(ROOT / "examples" / "code-review.at").read_text(encoding="utf-8")]


TOPOLOGIES = [block for block in BLOCKS if block.body.startswith("topology ")]


@pytest.mark.parametrize("block", TOPOLOGIES, ids=lambda block: block.name)
def test_a_topology_on_a_page_is_accepted(block: Block) -> None:
    """What a page shows as a team can be run."""
    from coterie import formats

    found = formats.read_text(block.body, block.name)
    assert [diagnostic.render(block.body) for diagnostic in found.diagnostics if diagnostic.is_error] == []
