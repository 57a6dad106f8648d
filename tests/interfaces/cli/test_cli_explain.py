"""`coterie explain` prints the reference pages."""

import json
import re
from pathlib import Path

import pytest
from bundles import bundle
from command_line import Place

from coterie.agents.backends.base import FAILURES
from coterie.history.engines.loop.engine import LASTING_FAILURES
from coterie.history.journal.records import MERGE_CONFLICT, RECORDS
from coterie.interfaces.cli.commands import COMMANDS, GROUPS
from coterie.interfaces.cli.explain import PAGES, explanations
from coterie.interfaces.cli.named_command import find_command
from coterie.team.formats.at.language import LANGUAGE
from coterie.team.formats.settings import keys
from coterie.team.options.agents import AGENT_KEYS
from coterie.team.planning.codes import CODES
from coterie.team.topology.patterns.kinds import KINDS

pytestmark = pytest.mark.once
REFERENCE = Path(__file__).parents[3] / "docs" / "reference"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@bundle("name", ["unknown-agent", "turn.started", "event_loop", "agent", "coterie fork"])
def test_a_section_is_printed_as_on_its_page(name: str, tmp_path: Path) -> None:
    """Every line of it, in one piece."""
    place = Place(tmp_path)
    found = json.loads(place.look("explain", name, "--json").out)

    assert found
    for one in found:
        assert f" {name}\n\n{one['text']}\n" in (REFERENCE / one["page"]).read_text(encoding="utf-8")
        assert one["text"] in place.look("explain", name).out


@bundle("name", ["event_loop.max_iterations", "agent.model", "turn.started.agent", "stall-after", "debate.max_rounds"])
def test_a_row_is_printed_cell_by_cell(name: str, tmp_path: Path) -> None:
    """Each cell of the table, after the name of its column."""
    [found] = json.loads(Place(tmp_path).look("explain", name, "--json").out)
    cells = [line.partition(": ")[2] for line in found["text"].splitlines()]

    assert any(
        all(f" {cell} |" in line for cell in cells)
        for line in (REFERENCE / found["page"]).read_text(encoding="utf-8").splitlines()
        if line.startswith(f"| `{name}` |") or line.startswith(f"| `{name.rpartition('.')[2]}` |")
    )


def test_all_findings_records_settings_options_and_fields_are_explained() -> None:
    """None needs a browser."""
    fields = (f"{block.name}.{field.name}" for block in LANGUAGE for field in block.fields)
    topics = (str(kind.__struct_config__.tag) for kind in RECORDS)
    options = (f"extensions.coterie.{key}" for key in AGENT_KEYS)
    settings = (f"{kind}.{name}" for kind, it in KINDS.items() for name in it.config.__struct_fields__)
    names = [*(code.code for code in CODES), *topics, *keys(), *options, *fields, *settings]

    assert set(names) - set(explanations()) == set()
    assert {f"{page}.md" for page in PAGES} <= {path.name for path in REFERENCE.iterdir()}


def test_every_command_group_and_option_is_explained() -> None:
    """As the parser has them: by the words that a person types, short forms included, and each option by its name."""
    known = explanations()
    commands = [[name] for name, (place, _) in COMMANDS.items() if place]
    commands += [[group, below] for group, names in GROUPS.items() for below in names]
    for words in commands:
        command, _ = find_command(words)
        usage = command.usage.removeprefix("coterie topology ").removeprefix("coterie ")
        assert f"{usage}\n```" in "".join(one.text for one in known[" ".join(words)]), words
        for one in command.parameters:
            for name in re.findall(r"--([\w-]+)", one.declared.text.partition("[")[0]):
                assert name in known, (words, name)
    for group, names in GROUPS.items():
        listing = known[group][-1]
        assert listing.name == f"coterie {group}"
        assert [line.partition(":")[0] for line in listing.text.splitlines()] == [
            f"coterie {group} {name}" for name in names
        ]


REASONS = "max_turns max_cost max_iterations max_runtime cost_budget stalled waiting forked asleep quota backend_failed"
"""Why runs stop; `coterie.history.views.ending` has their sentences."""


def test_each_reason_that_a_run_or_an_attempt_ended_for_is_explained(place: Place) -> None:
    """As a list or a last line has it: a word, `cut off`, or a reason with its details."""
    reasons = {*REASONS.split(), *FAILURES, *LASTING_FAILURES.values(), MERGE_CONFLICT, "completion_event", "cut off"}

    assert reasons - set(explanations()) == set()
    assert "The loop has begun all its iterations." in place.look("explain", "max_iterations").out
    assert "`coterie resume RUN` continues it." in place.look("explain", "cut", "off").out
    for words in (["quota until 2026-11-28T12:00:00Z"], ["quota", "until", "x"], ["asleep until x"], ["shortage: x"]):
        assert f"run.stopped.{words[0].partition(' ')[0].strip(':')} (records.md)" in place.look("explain", *words).out


def test_a_command_is_explained_by_its_words(place: Place) -> None:
    """With or without `coterie`, and without quotes."""
    said = place.look("explain", "worktree", "merge").out

    assert said.startswith("coterie worktree merge (commands.md)\n\n```\ncoterie worktree merge ")
    assert place.look("explain", "coterie", "worktree", "merge").out == said
    assert place.look("explain", "check").out == place.look("explain", "topology", "check").out


def test_an_option_is_found_by_its_name_in_yaml_and_python(place: Place) -> None:
    """With underscores."""
    assert place.look("explain", "stall_after").out == place.look("explain", "stall-after").out


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("max_iterations", "event_loop.max_iterations"),
        ("timeout_ms", "backend.timeout_ms"),
        ("on-max", "flow.on-max"),
        ("when", "flow.when"),
        ("max", "flow.max"),
    ],
)
def test_a_setting_and_an_attribute_are_found_by_their_word(place: Place, name: str, meant: str) -> None:
    """Without its section, and without the values that stand behind it on the page."""
    found = json.loads(place.look("explain", name, "--json").out)

    assert meant in [one["name"] for one in found]
    assert found == [one._asdict() for one in explanations()[name]]


def test_an_option_of_commands_is_found_without_its_hyphens(place: Place) -> None:
    """As each command has it; a field of that name comes first."""
    found = json.loads(place.look("explain", "when-open", "--json").out)

    assert [one["name"] for one in found] == ["coterie resume --when-open"]
    assert place.look("explain", "--", "--when-open").out == place.look("explain", "when-open").out
    assert place.look("explain", "--when-open").out == place.look("explain", "when-open").out
    assert {one.name for one in explanations()["yes"]} == {"coterie run --yes", "coterie chat --yes"}
    assert "coterie run --max-turns" not in {one.name for one in explanations()["max-turns"]}


@bundle(
    "pasted",
    [
        "--max-turns",
        "-- --max-turns",
        "--max-turns 5",
        "--max-turns=5",
        "run --max-turns",
        "coterie run team.at --max-turns 5",
        "resume --retry",
        "coterie resume last --max-turns=5",
    ],
)
def test_an_option_is_pasted_as_it_was_read(pasted: str, tmp_path: Path) -> None:
    """With its hyphens it is an option of commands only, behind a command that of this command."""
    place = Place(tmp_path)
    found = json.loads(place.look("explain", "--json", *pasted.split()).out)
    names = [one["name"] for one in found]
    option = "--retry" if "--retry" in pasted else "--max-turns"

    if (command := pasted.removeprefix("coterie ").partition(" ")[0]) in ("run", "resume"):
        assert names == [f"coterie {command} {option}"]
    else:
        assert {f"coterie run {option}", f"coterie resume {option}"} <= {*names}
        assert all(re.fullmatch(rf"coterie [\w -]+ {option}", name) for name in names)


def test_an_unknown_name_has_a_suggestion(place: Place) -> None:
    """The closest name, and status 2."""
    said = place.look("explain", "unknown-agnet", status=2)

    assert "did you mean 'unknown-agent'?" in said.err
    assert "did you mean '--max-turns'?" in place.look("explain", "--max-turn", status=2).err
