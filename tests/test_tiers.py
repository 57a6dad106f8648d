"""Which tests a marker expression runs: those of a slower tier only where it names the tier."""

from types import SimpleNamespace

import pytest
from bundles import bundle
from cpu_seconds import MARKERS
from shares import chosen

pytestmark = pytest.mark.once


@bundle(
    ("expression", "chosen"),
    [
        ("", ["plain", "once"]),
        ("not once", ["plain", "once"]),  # pytest itself then leaves out what is `once`
        ("slow", ["plain", "slow", "once"]),
        ("not slow", ["plain", "slow", "once"]),
        ("slow or long", ["plain", "slow", "long", "slow long", "once"]),
        ("real_agents and not long", ["plain", "long", "real_agents", "once"]),
        ("slower", ["plain", "once"]),
    ],
)
def test_a_tier_runs_only_if_the_expression_names_it(
    expression: str, chosen: list[str], request: pytest.FixtureRequest
) -> None:
    """A test with the markers of two tiers wants both named."""
    module = request.node.getparent(pytest.Module)
    items, left_out = [], []
    for marks in ("plain", *MARKERS, "slow long", "once"):
        item = pytest.Function.from_parent(module, name=marks, callobj=test_a_tier_runs_only_if_the_expression_names_it)
        item.own_markers = [getattr(pytest.mark, name).mark for name in marks.split() if name != "plain"]
        items.append(item)
    hooks = SimpleNamespace(pytest_deselected=lambda items: left_out.extend(one.name for one in items))
    config = SimpleNamespace(option=SimpleNamespace(markexpr=expression), hook=hooks)
    everything = [one.name for one in items]
    conftest = request.config.pluginmanager.get_plugin(str(request.config.rootpath / "tests" / "conftest.py"))
    conftest.pytest_collection_modifyitems(config, items)

    assert [one.name for one in items] == chosen
    assert left_out == [name for name in everything if name not in chosen]


@bundle("count", [1, 3, 4, 9])
def test_every_case_of_a_long_test_is_in_the_share_of_one_seed_of_four(count: int) -> None:
    """At least one case is in each share."""
    shares = [chosen(range(count), 4, seed) for seed in range(4)]

    assert all(shares)
    assert {case for share in shares for case in share} == set(range(count))
    assert sum(map(len, shares)) == max(count, 4)
    assert chosen(range(count), 1, 7) == list(range(count))
