from bundles import bundle
from hypothesis import given
from hypothesis import strategies as st

from coterie.history.engines.patterns.sections import sections

NAMES = ("summary", "verdict", "conclusion")


@bundle(
    "text",
    [
        "SUMMARY: both heard\nVERDICT: tie\nCONCLUSION: write tests",
        "1. SUMMARY: both heard\n2. VERDICT: tie\n3. CONCLUSION: write tests\n",
        "**Summary:** both heard\n\n**Verdict**: tie\n\n**Conclusion:** write tests",
        "## Summary\nboth heard\n\n## Verdict\n\ntie\n## Conclusion\nwrite tests",
        "First thoughts.\n- summary : both heard\n- verdict: tie\n- conclusion: write tests",
    ],
)
def test_sections_are_found_however_they_are_written(text: str) -> None:
    """Case, numbers, bullets, bold marks and headings do not matter."""
    assert sections(text, NAMES) == {"summary": "both heard", "verdict": "tie", "conclusion": "write tests"}


def test_a_section_has_many_lines_and_the_last_of_a_name_counts() -> None:
    """A name in the middle of a line begins nothing; an empty section is none."""
    text = "CONCLUSION: first\nVERDICT:\nCONCLUSION: one\n\ntwo: my conclusion: yes\nconclusions: three"

    assert sections(text, NAMES) == {"conclusion": "one\n\ntwo: my conclusion: yes\nconclusions: three"}


@given(st.dictionaries(st.sampled_from(NAMES), st.text("ab \n", min_size=1).map(str.strip).filter(bool)))
def test_what_is_written_as_sections_is_read_back(said: dict[str, str]) -> None:
    """Writing then reading gives what was said."""
    text = "\n".join(f"{name.upper()}: {words}" for name, words in said.items())

    assert sections(text, NAMES) == said
