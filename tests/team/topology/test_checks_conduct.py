import pytest
from teams import codes, findings, letters, team

pytestmark = pytest.mark.once


def test_a_weight_of_three_thirds_is_whole() -> None:
    """Shares are rounded, so together they are nearly 1."""
    text = letters("a -> b [weight 0.333]\na -> c [weight 0.333]\na -> d [weight 0.333]")

    assert codes(text) == []


def test_weights_are_shares_of_each_node_by_itself() -> None:
    """Each source draws among its own arrows."""
    text = letters("a -> b [weight 1]\na -> c [weight 0.5]\nb -> d [weight 1]\nc -> d")

    assert findings(text) == [
        "warning[weights-not-one] weight: the weights of the arrows from 'a' add up to 1.5, not 1"
    ]


@pytest.mark.parametrize("weights", ["variant v { }  variant w { weight: 0.5 }", "variant v { weight: 1 }"])
def test_variants_without_weights_are_left_alone(weights: str) -> None:
    """Who leaves one open means the rest of it."""
    assert codes(letters("a -> b", b=f"variants {{ {weights} }}")) == []


@pytest.mark.parametrize("skip", ["not ready", "a.size == small", "a.size >= 3", '"not ready"'])
def test_a_skip_is_a_word_or_a_comparison(skip: str) -> None:
    """Quoted or not."""
    assert codes(letters("a -> b", b=f"skip: {skip}")) == []


def test_a_skipped_agent_may_leave_by_what_others_said() -> None:
    """Its arrow asks for an output that is there whether it ran or not."""
    text = letters("a -> b -> c [when a.v == x]", a="outputs { v: x }", b="skip: not ready")

    assert codes(text) == []


@pytest.mark.parametrize(
    ("models", "doubted"),
    [
        ("house { models: [m] }", []),
        ("house { models: [n] }", ["unprovided-model", "unprovided-model"]),
        ("house { models: [n] }  other { }", []),  # nobody knows what the other serves
        ("house { models: [n] }  other { models: [m] }", []),
    ],
)
def test_models_are_looked_for_where_every_provider_lists_them(models: str, doubted: list[str]) -> None:
    """One provider without a list may serve anything."""
    assert codes(letters("a -> b", blocks=f"providers {{ {models} }}")) == doubted


def test_a_model_may_be_named_with_its_provider() -> None:
    """And whoever is no model needs none."""
    agents = '  agent a { model: house/m }\n  agent b { model: x  extensions { coterie { command: ["true"] } } }'

    assert codes(team("a -> b", blocks=f"{agents}\n  providers {{ house {{ models: [m] }} }}")) == []
    unknown = team("a -> b", blocks=f"{agents.replace('house', 'hause')}\n  providers {{ house {{ models: [m] }} }}")
    assert codes(unknown) == ["unprovided-model"]


def test_a_fallback_is_looked_for_too() -> None:
    """Each at its own place in the list."""
    text = letters("a -> b", b="fallback-chain: [m, n]", blocks="providers { house { models: [m] } }")

    assert findings(text) == ["warning[unprovided-model] n: no provider lists the model 'n' of agent 'b'"]
