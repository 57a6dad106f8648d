"""`coterie explain` prints the reference pages."""

import json
from pathlib import Path

import pytest
from bundles import bundle
from command_line import Place

from coterie.cli.explain import PAGES, explanations
from coterie.formats.at.language import LANGUAGE
from coterie.formats.settings import keys
from coterie.journal.records import RECORDS
from coterie.options.agents import AGENT_KEYS
from coterie.planning.codes import CODES
from coterie.topology.patterns.kinds import KINDS

pytestmark = pytest.mark.once
REFERENCE = Path(__file__).parents[2] / "docs" / "reference"


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
    assert {one.name for one in explanations()["yes"]} == {"coterie run --yes"}
    assert "coterie run --max-turns" not in {one.name for one in explanations()["max-turns"]}


def test_an_unknown_name_has_a_suggestion(place: Place) -> None:
    """The closest name, and status 2."""
    said = place.look("explain", "unknown-agnet", status=2)

    assert "did you mean 'unknown-agent'?" in said.err
