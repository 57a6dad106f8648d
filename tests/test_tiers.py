"""Which tests a marker expression runs: those of a slower tier only where it names the tier."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from bundles import bundle
from cpu_seconds import MARKERS
from shares import left_out

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


def test_the_recipe_is_written_for_the_bash_of_macos() -> None:
    """Its version 3.2 has no `mapfile`, no tables, no changes of case, and takes an empty array for an unset one."""
    recipe = (Path(__file__).parents[1] / ".ci" / "run").read_text()

    assert not re.findall(r"\b(?:mapfile|readarray|declare -A|coproc)\b|\$\{\w+(?:,,|\^\^)|&>>|\|&", recipe)
    assert '${stages[@]+"${stages[@]}"}' in recipe


def test_one_in_ten_of_all_tests_is_played_and_what_macos_needs(request: pytest.FixtureRequest) -> None:
    """Together the seeds play every other test once, whatever tests there are beside it."""
    module = request.node.getparent(pytest.Module)
    call = test_one_in_ten_of_all_tests_is_played_and_what_macos_needs
    items = [pytest.Function.from_parent(module, name=f"case{n}", callobj=call) for n in range(25)]
    always = pytest.Function.from_parent(module, name="always", callobj=call)
    always.add_marker("macos")
    played = [
        [one for one in (*items, always) if one not in left_out([*items, always], 1, seed, 10)] for seed in range(10)
    ]

    assert all(always in some for some in played)
    assert sorted(one.name for some in played for one in some) == sorted([one.name for one in items] + ["always"] * 10)


def test_every_long_case_is_in_the_share_of_one_seed_of_five(request: pytest.FixtureRequest) -> None:
    """Tests of one module play the same cases."""
    module = request.node.getparent(pytest.Module)

    def case(name: str, marker: str = "long") -> pytest.Item:
        call = test_every_long_case_is_in_the_share_of_one_seed_of_five
        item = pytest.Function.from_parent(module, name=name, callobj=call)
        item.add_marker(marker)
        return item

    items = [case("alone"), *(case(f"all[{n}]") for n in range(11)), *(case(f"pair[{n}]") for n in range(2))]
    items += [case(f"{name}[{tier}]", tier) for name in ("first", "second") for tier in ("slow", "long")]
    played = [[one.name for one in items if one not in left_out(items, 5, seed)] for seed in range(5)]

    assert {name for names in played for name in names} == {one.name for one in items}
    for names in played:
        assert {"first[slow]", "second[slow]"} <= set(names)
        assert sum(name.startswith("all") for name in names) in (2, 3)
    for name in ("alone", "pair[0]", "pair[1]", "first[long]", "second[long]"):
        assert sum(name in names for names in played) == 1
    assert left_out(items, 1, 3) == set()
