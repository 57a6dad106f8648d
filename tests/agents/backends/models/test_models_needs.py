import importlib.util
from typing import Any

import pytest
from asking import ask
from asking_models import plan

from coterie.agents.backends.models import needs
from coterie.agents.backends.models.backend import ModelBackend
from coterie.team.planning.plan import AgentPlan

OFFERED = {"ANTHROPIC_API_KEY": "a", "OPENAI_API_KEY": "b"}


def lacking(environment: dict[str, str], *agents: AgentPlan, offline: bool = False) -> list[tuple[str, str]]:
    """What is missing, by code and message."""
    named = [(f"team/a{n}", agent) for n, agent in enumerate(agents, 1)]
    return [(each.code, each.message) for each in needs.missing(named, environment, offline=offline)]


def test_a_key_is_missed_once_for_all_who_want_it() -> None:
    """With their names, those of child topologies included; a cassette wants none, a local server neither."""
    agents = plan(), plan("openai"), plan(), plan("openai", {"base_url": "http://127.0.0.1:1/v1"})

    assert lacking(OFFERED, *agents) == []
    assert lacking({"OPENAI_API_KEY": ""}, *agents) == [
        (
            "no-api-key",
            "the environment variable ANTHROPIC_API_KEY is not set, but team/a1, team/a3 cannot run without it",
        ),
        ("no-api-key", "the environment variable OPENAI_API_KEY is not set, but team/a2 cannot run without it"),
    ]
    assert lacking({}, *agents, offline=True) == []
    assert lacking({}) == []


@pytest.fixture
def not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The extra `models` is not there."""
    find_spec = importlib.util.find_spec

    def found(name: str, *arguments: Any) -> Any:
        return None if name == "pydantic_ai" else find_spec(name, *arguments)

    monkeypatch.setattr(needs, "find_spec", found)


@pytest.mark.usefixtures("not_installed")
def test_the_library_is_missed_before_any_key() -> None:
    """With the command that installs it, before a run and in an attempt."""
    assert [code for code, _ in lacking({}, plan())] == ["no-models"]
    failure, _ = ask(ModelBackend(environment=OFFERED), plan())

    assert getattr(failure, "kind", "") == "not_found"
    assert "pip install 'coterie[models]'" in getattr(failure, "reason", "")


def test_a_model_without_a_provider_cannot_be_asked() -> None:
    """A plan may have been changed since it was made: the attempt says so."""
    failure, _ = ask(ModelBackend(environment=OFFERED), plan(model="qwen"))

    assert getattr(failure, "kind", "") == "not_found"
    assert "no provider configured for the model 'qwen'" in getattr(failure, "reason", "")


@pytest.mark.parametrize(
    ("options", "environment", "address"),
    [
        ({}, {}, ""),
        ({}, {"ANTHROPIC_BASE_URL": "http://proxy"}, "http://proxy"),
        ({"base_url": "http://own"}, {"ANTHROPIC_BASE_URL": "http://proxy"}, "http://own"),
    ],
)
def test_the_address_of_the_file_comes_first(
    options: dict[str, Any], environment: dict[str, str], address: str
) -> None:
    """Then the environment's, then the provider's own."""
    chosen = needs.chosen_of(plan(options=options))

    assert not isinstance(chosen, needs.Unclear)
    assert needs.address_of(chosen, environment) == address
