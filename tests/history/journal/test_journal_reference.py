from pathlib import Path
from pkgutil import iter_modules

import record_page as reference
from msgspec.structs import fields

from coterie.history.journal import records
from coterie.history.journal.records import NOUNS, RECORDS

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "records.md"


def test_the_page_is_fresh() -> None:
    """`python docs/generate/record_page.py > docs/reference/records.md` writes it anew."""
    assert PAGE.read_text(encoding="utf-8") == reference.page()


def test_the_page_has_every_record_and_field() -> None:
    """With what each field holds."""
    sections = dict(part.split("\n", 1) for part in reference.page().split("\n## ")[1:])

    for kind in RECORDS:
        section = sections[kind.__struct_config__.tag] + sections["Every record"]
        assert all(f"\n| `{field.name}` | " in section for field in fields(kind))
    assert "|  |  |  |" not in reference.page()


def test_every_module_of_records_is_read() -> None:
    """A noun that is not listed would write records that cannot be read back."""
    modules = {f"{records.__name__}.{found.name}" for found in iter_modules(records.__path__)}

    assert {noun.__name__ for noun in NOUNS} == modules - {f"{records.__name__}.base"}
