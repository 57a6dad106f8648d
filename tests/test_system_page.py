from pathlib import Path

import pytest
import system_page as reference

pytestmark = pytest.mark.once

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "topology-yaml.md"


def test_the_page_of_topology_yaml_is_fresh() -> None:
    """`python docs/generate/system_page.py` writes it anew; its console blocks are compared by the tests of pages."""
    page = PAGE.read_text(encoding="utf-8")

    assert page == reference.page(reference.printed(page))
    assert "|  |" not in page
