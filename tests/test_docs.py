"""What the documentation says can be done is done, and where it points something is."""

import difflib
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import groupby
from pathlib import Path

import preforked
import pytest
from _pytest.mark.structures import ParameterSet
from bundles import bundle

from coterie.team.formats import read_text

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("[A-Z]*.md"), *(ROOT / "docs").rglob("*.md")])  # and not what README's first line writes
SHOWN = ("src/coterie/history/views", "examples", "deploy", "docs", "README.md")
"""What the commands of the pages may look at: enough of the sources to review."""

INSTALLED = Path(sys.executable).parent
"""Where the commands of this environment are, `coterie` as it is installed among them."""

TEMPORAL = "localhost:7233"
"""Where the pages have Temporal's server; the tests have another port."""
LEFT_TO_CI = ("python3 -m venv",)
"""What begins so sets a machine up; `.ci/run` does it."""

_FENCE = re.compile(r"^(?P<ticks>`{3,})(?P<info>[^\n`]*)\n(?P<body>.*?)^(?P=ticks)$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} +(.+?)\s*$", re.MULTILINE)
_STATUS = re.compile(r"\s+# exit (\d+)$")
_PROMPT = re.compile(r"^\$ ", re.MULTILINE)

VARYING = (
    (re.compile(r"\b\d{8}-\d{6}-[0-9a-f]{6}\b"), "RUN"),
    (re.compile(r"\b(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d|\d\d-\d\d \d\d:\d\d)\b"), "DATE"),
    (re.compile(r"\b\d\d:\d\d\.\d\b"), "TIME"),
    (re.compile(r"\b\d+(\.\d+)? ?m?s\b"), "SECONDS"),
    (re.compile(r"\bprocess \d+\b"), "process PID"),
)
"""What differs from run to run, and so between a page and what its commands print: ids, times, processes.

Besides, the reader's folder is `/home/ada`, and `…` stands for any part of a line, alone on a line for any lines.
"""


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


@dataclass(frozen=True)
class Typed:
    """A command on a `console` block, with what the page says it prints."""

    block: Block
    command: str
    printed: str


def typed(block: Block) -> Iterator[Typed]:
    """The commands of a `console` block: each begins with `$ `, goes on with `> `, and prints what follows."""
    before, *entries = _PROMPT.split(block.body)
    assert not before, f"{block.name}: a console block begins with `$ `, or is marked `console shown`"
    for entry in entries:
        first, *others = entry.splitlines()
        more = 0
        while more < len(others) and re.match(r"> |>$", others[more]):
            more += 1
        command = "\n".join([first, *(line[2:] for line in others[:more])])
        yield Typed(block, command, "\n".join(others[more:]))


SESSIONS = {
    page: [entry for block in found for entry in typed(block)]
    for page, found in groupby((block for block in BLOCKS if block.info == "console"), lambda block: block.page)
}
"""What is typed on each page: the `console` blocks of a page are one session in one shell."""
CORE = [entry for entry in SESSIONS["docs/tutorial.md"] if "step3" not in entry.command][:8]
"""The first two steps of the tutorial, which are typed by default; the whole page is `slow`."""

SLOW = {
    "sh": "README examples/shop forking howto loops model-agents patterns reference/presets running starting testing",
    "console": "cluster gateway howto loop-folder management mock-backend patterns patterns/cross-check "
    "patterns/debate patterns/ensemble reference-api tutorial",
    "python": "model-agents reference-api testing",
}
"""The pages of `docs` whose blocks of a kind take above a second of processor time; and what some blocks name."""


def played(kind: str, block: Block, value: object, id: str) -> ParameterSet:
    """The parameter of what is played, *block* or what begins with it."""
    name = block.page.removeprefix("docs/").removesuffix(".md")
    is_slow = any(one == name or ("/" in one and f" {one}/" in block.body) for one in SLOW[kind].split())
    return pytest.param(value, id=id, marks=pytest.mark.slow if is_slow else ())


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the commands look at, under git and with one commit."""
    template = tmp_path_factory.mktemp("docs") / "coterie"
    for name in SHOWN:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, template / name, ignore=shutil.ignore_patterns("__pycache__", ".*"))
        else:
            shutil.copy(source, template / name)
    incident = template / "examples" / "incident" / "incident.at"
    incident.write_text(incident.read_text().replace("timeout: 2s", "timeout: 6s"))  # long enough for a busy machine
    for arguments in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "A copy"]):
        identity = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *identity, *arguments], cwd=template, check=True)
    return template


@pytest.fixture
def copy(template: Path, tmp_path: Path) -> Path:
    """A copy for one test, so that nothing here is touched."""
    return shutil.copytree(template, tmp_path / "coterie", symlinks=True)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """The reader's: the commands of this environment, `coterie` forked (see `preforked`), and a home of its own."""
    programs = tmp_path / "programs"
    programs.mkdir()
    preforked.shim(programs)
    return os.environ | {
        "PATH": os.pathsep.join([str(programs), str(INSTALLED), os.environ["PATH"]]),
        "HOME": str(tmp_path),
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "XDG_RUNTIME_DIR": str(tmp_path),
        "COLUMNS": "120",
        "PYTHONUNBUFFERED": "1",
        "THINK": "4",  # how long an agent of the tutorial works, in seconds: longer than the one beside it
    }


@pytest.mark.parametrize("block", [played("sh", block, block, block.name) for block in TO_RUN])
def test_the_commands_of_a_page_do_what_it_says(block: Block, copy: Path, environment: dict[str, str]) -> None:
    """Every line of an `sh` block runs, and ends with 0 or with the status that the page names."""
    for command, status in commands(block):
        done = subprocess.run(
            ["bash", "-c", command], cwd=copy, env=environment, input="", capture_output=True, text=True, timeout=300
        )
        assert done.returncode == status, f"{command}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "entries",
    [
        pytest.param(CORE, id="the first steps of docs/tutorial.md"),
        *(played("console", entries[0].block, entries, page) for page, entries in SESSIONS.items()),
    ],
)
def test_the_commands_of_a_page_print_what_it_shows(
    entries: list[Typed], copy: Path, environment: dict[str, str], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Every command of the `console` blocks prints what stands below it, but for what varies; `echo $?` included.

    One that ends with another status than 0 has its status asked next, or named behind it (`# exit 4`).
    """
    if any(TEMPORAL in entry.command for entry in entries):
        address = request.getfixturevalue("temporal_server").address
        entries = [replace(entry, command=entry.command.replace(TEMPORAL, address)) for entry in entries]
    asked = [*(entry.command == "echo $?" for entry in entries[1:]), False]
    for entry, named, (printed, status) in zip(entries, asked, session(entries, copy, environment), strict=True):
        where = f"{entry.block.name}: $ {entry.command}"
        printed = settled(printed.replace(str(tmp_path), "/home/ada"))
        found = _STATUS.search(entry.command)
        assert named or status == (int(found[1]) if found else 0), f"{where}\n{printed}"
        assert agrees(entry.printed, printed), "\n".join(
            [where, *difflib.unified_diff(settled(entry.printed).split("\n"), printed.split("\n"), "page", "printed")]
        )


def session(entries: list[Typed], folder: Path, environment: dict[str, str]) -> list[tuple[str, int]]:
    """What each of *entries*, typed into one shell that begins in *folder*, prints on either output; and its status."""
    mark = "-- the command ended with"
    ended = f"status=$?; hash -r; printf '\\n{mark} %s\\n' $status; (exit $status)"
    killable = f"hash -p {shlex.quote(str(INSTALLED / 'coterie'))} coterie\n"  # in the background: a real process
    script = "\n".join(
        f"{killable if entry.command.endswith('&') else ''}{entry.command}\n{ended}" for entry in entries
    )
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
    )
    *found, rest = re.split(rf"\n{mark} (\d+)\n", done.stdout)
    assert not rest.strip(), rest
    return [(found[i], int(found[i + 1])) for i in range(0, len(found), 2)]


def settled(text: str) -> str:
    """*text* without what varies, without space at the ends of lines and without empty lines at its end."""
    for pattern, name in VARYING:
        text = pattern.sub(name, text)
    return "\n".join(line.rstrip() for line in text.rstrip().split("\n"))


def agrees(shown: str, printed: str) -> bool:
    """Whether *printed* is what the page has *shown*; both may vary, and `…` stands for anything."""
    lines = (
        r"(.*\n)*?" if line == "…" else ".*".join(map(re.escape, line.split("…"))) + r"\n"
        for line in settled(shown).split("\n")
    )
    return re.fullmatch("".join(lines), settled(printed) + "\n") is not None


@bundle(
    ("shown", "printed", "expected"),
    [
        ("completed: 2 turns, worked 0.1 s", "completed: 2 turns, worked 13 s", True),
        ("completed: 2 turns, worked 0.1 s", "completed: 3 turns, worked 0.1 s", False),
        ("run 20261121-120321-685bb6", "run 20270101-000000-abcdef", True),
        ("00:00.1  a started", "01:10.9  a started", True),
        ("a … c", "a b c", True),
        ("a … c", "a b\nc", False),
        ("a\n…\nd", "a\nb\nc\nd", True),
        ("a\n…\nd", "a\nd", True),
        ("a\n…\nd", "a\nb\nc", False),
        ("a", "a\nb", False),
        ("", "a", False),
    ],
)
def test_what_is_printed_may_differ_only_where_it_has_to(shown: str, printed: str, expected: bool) -> None:
    """The comparison above can fail."""
    assert agrees(shown, printed) is expected


@pytest.mark.parametrize(
    "block", [played("python", block, block, block.name) for block in BLOCKS if block.info == "python"]
)
def test_the_python_of_a_page_runs(block: Block, copy: Path, environment: dict[str, str]) -> None:
    """Every `python` block is a program that ends without an error, and without a warning."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", block.body],
        cwd=copy,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr


@bundle("block", [block for block in BLOCKS if block.info == "at"], ids=lambda block: block.name)
def test_the_teams_of_a_page_are_valid(block: Block) -> None:
    """Every `at` block is a whole file without an error."""
    source = read_text(block.body, folder=ROOT)
    assert not source.has_errors, [finding.render(source.text) for finding in source.diagnostics]


def test_the_pages_have_commands_to_run() -> None:
    """The rules above are not empty: README alone has several blocks, and the tutorial is a long session."""
    assert len([block for block in TO_RUN if block.page == "README.md"]) >= 3
    assert len(SESSIONS["docs/tutorial.md"]) >= 30


@bundle("heading", ["Run it", "Test it"])
def test_readme_has_one_line_that_sets_up_and_does_the_job(heading: str) -> None:
    """`.ci/run` takes these lines from the page, so there is exactly one in each block."""
    section = (ROOT / "README.md").read_text(encoding="utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    (fence,) = _FENCE.finditer(section)

    assert fence["info"] == "sh"
    assert len(fence["body"].splitlines()) == 1
    assert fence["body"].startswith("python3 -m venv .venv && .venv/bin/pip install ")


TUTORIAL = ROOT / "examples" / "tutorial"


def test_the_tutorial_shows_the_files_of_its_steps() -> None:
    """What the page shows of a team or a program is in a file of `examples/tutorial`, word for word."""
    files = [path.read_text(encoding="utf-8") for path in TUTORIAL.glob("*.*")]
    shown = [
        block.body for block in BLOCKS if block.page == "docs/tutorial.md" and not block.info.startswith("console")
    ]

    assert shown
    for part in (part for body in shown for part in body.split("\n\n")):
        assert any(part.strip("\n") in text for text in files), part


@cache
def links() -> list[tuple[str, str]]:
    """Every link of every page, code left out."""
    found = []
    for page in PAGES:
        text = re.sub(r"`[^`\n]*`", "", _FENCE.sub("", page.read_text(encoding="utf-8")))
        found += [(name_of(page), match["target"]) for match in _LINK.finditer(text)]
    return found


@cache
def anchors(page: Path) -> set[str]:
    """The fragments that point into *page*, made of its headings as forges make them."""
    headings = _HEADING.findall(_FENCE.sub("", page.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def leads_somewhere(page: str, target: str) -> bool:
    """Whether *target* is a file that is there, and a heading in it; the web is not asked."""
    if re.match(r"[a-z]+:", target):
        return target.startswith("https://")
    file, _, fragment = target.partition("#")
    found = (ROOT / page).parent / file if file else ROOT / page
    return found.exists() and (not fragment or fragment in anchors(found))


def test_every_link_leads_somewhere() -> None:
    """On every page."""
    assert [link for link in links() if not leads_somewhere(*link)] == []


def promises() -> list[str]:
    """The sentences and the rows of SECURITY.md, but for its first lines and how to report."""
    _, *sections = (ROOT / "SECURITY.md").read_text(encoding="utf-8").split("\n## ")
    found = []
    for section in sections:
        title, _, text = section.partition("\n")
        for block in text.strip().split("\n\n") if title != "Report" else ():
            is_table = block.startswith("|")
            found += block.splitlines()[2:] if is_table else re.split(r"(?<=\.) (?=[A-Z`\[])", block)
    return found


def test_each_promise_about_security_names_its_test() -> None:
    """Or says that it is untested; a test that is named is there, as every link."""
    assert len(promises()) > 50
    assert [one for one in promises() if "](tests/" not in one and "(untested)" not in one] == []


def test_what_an_agent_leaves_says_who_reads_it_and_what_holds() -> None:
    """Each row has all three, and its tests in the last."""
    table = (ROOT / "SECURITY.md").read_text(encoding="utf-8").partition("## What an agent leaves\n\n")[2]
    rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in table.partition("\n\n")[0].splitlines()[2:]]
    assert len(rows) > 15
    assert [row for row in rows if len(row) != 3 or not all(row) or "](tests/" not in row[2]] == []


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


MOST_WORDS = 49_200
"""Of prose that people write; blocks of code are run or compared, references and tables of settings are generated."""

_GENERATED = re.compile(r"<!-- Settings: .*?<!-- End of settings -->|<!-- abilities -->.*?<!-- end -->", re.DOTALL)


def test_the_pages_are_short_enough_to_be_read() -> None:
    """A new page costs an old one its length."""
    pages = [page for page in PAGES if page.parent in (ROOT / "docs", ROOT / "docs" / "patterns")]
    texts = (page.read_text(encoding="utf-8") for page in [*pages, ROOT / "README.md"])
    prose = (_GENERATED.sub("", _FENCE.sub("", text)) for text in texts)

    assert sum(len(re.findall(r"\S*\w\S*", text)) for text in prose) <= MOST_WORDS


WORDS = (
    "topology, plan, agent, arrow group, mark, gate, run, child run, turn, attempt, record, journal, "
    "engine, backend, store, owner, epoch, inbox, doorbell, park, rehearsal"
)


def test_the_words_of_the_design_are_explained() -> None:
    """The words that messages and records use are in the glossary."""
    assert set(WORDS.split(", ")) - set(glossary()) == set()


@bundle("block", [block for block in BLOCKS if block.info == "json"], ids=lambda block: block.name)
def test_json_on_a_page_is_json(block: Block) -> None:
    """What a page shows as JSON parses."""
    import json

    assert isinstance(json.loads(block.body), dict | list)


def test_the_team_that_readme_shows_is_an_example_that_runs() -> None:
    """The first thing a reader sees is a file they have."""
    shown = [block.body for block in BLOCKS if block.page == "README.md" and block.body.startswith("topology ")]

    assert shown == [(ROOT / "examples" / "code-review.at").read_text(encoding="utf-8")]


TOPOLOGIES = [block for block in BLOCKS if block.body.startswith("topology ")]


@bundle("block", TOPOLOGIES, ids=lambda block: block.name)
def test_a_topology_on_a_page_is_accepted(block: Block) -> None:
    """What a page shows as a team can be run."""
    from coterie.team import formats

    found = formats.read_text(block.body, block.name)
    assert [diagnostic.render(block.body) for diagnostic in found.diagnostics if diagnostic.is_error] == []
