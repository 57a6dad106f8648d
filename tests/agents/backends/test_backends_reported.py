"""What a program reports as used, and what becomes of a report that makes no sense."""

from pathlib import Path

import pytest

from coterie.agents.backends.base import Text
from coterie.agents.backends.reported import reported
from coterie.execution.kernel.run_tree import misreport
from coterie.history.journal.records import Usage


def test_tokens_and_money_are_read(tmp_path: Path) -> None:
    """What came from or went into a cache was read too; what nobody knows does not matter."""
    path = tmp_path / "usage.json"
    path.write_text(
        '{"input_tokens": 10, "cache_read_tokens": 5, "cache_write_tokens": 2, "output_tokens": 3,'
        ' "cost_usd": 0.25, "total_tokens": 20, "model": "m"}'
    )
    assert reported(path, pytest.fail) == Usage(input_tokens=17, cached_tokens=5, output_tokens=3, cost=0.25)


def test_no_report_is_none(tmp_path: Path) -> None:
    assert reported(tmp_path / "usage.json", pytest.fail) == Usage()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "cannot be read"),
        ("[]", "contains no JSON object"),
        ('{"cost_usd": "1"}', "cost_usd = '1', which is not an amount"),
    ],
)
def test_a_report_that_makes_no_sense_is_told_and_counts_nothing(text: str, why: str, tmp_path: Path) -> None:
    path = tmp_path / "usage.json"
    path.write_text(text)
    told: list[object] = []
    assert reported(path, told.append) == Usage()
    assert [isinstance(one, Text) and one.channel == "log" and why in one.text for one in told] == [True]


@pytest.mark.parametrize("amount", ["-1", "NaN", "-Infinity", "Infinity", "1e300", "1" + "0" * 400])
@pytest.mark.parametrize("field", ["cost_usd", "input_tokens", "output_tokens"])
def test_an_amount_that_cannot_be_true_is_flagged(field: str, amount: str, tmp_path: Path) -> None:
    """In the log, and by a usage that the run takes for no usage of an attempt."""
    path = tmp_path / "usage.json"
    path.write_text(f'{{"{field}": {amount}, "cache_read_tokens": 7}}')
    told: list[object] = []

    assert misreport(reported(path, told.append), Usage(), 0.0) == "an amount is negative"
    assert [isinstance(one, Text) and f"{field} = " in one.text for one in told] == [True]
