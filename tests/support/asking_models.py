"""Ask the backend of models one question, answered by a provider on loopback."""

from collections.abc import Sequence
from typing import Any

from asking import Heard, ask
from fake_models import FakeModels

from coterie.agents.backends.base import Answer, Failure, Result
from coterie.agents.backends.models.backend import ModelBackend
from coterie.team.planning.plan import AgentPlan, Wanted

MODELS = {"anthropic": "claude-sonnet-5-5", "openai": "gpt-5"}
"""A model of each provider, whose price is known."""

VERDICT = Wanted(name="verdict", type="enum", values=("approve", "revise"))


def plan(api: str = "anthropic", options: dict[str, Any] | None = None, **values: Any) -> AgentPlan:
    """An agent that a model answers."""
    return AgentPlan(name="a", backend="model", **{"model": MODELS[api], "options": options or {}, **values})


def put(models: FakeModels, agent: AgentPlan, **values: Any) -> tuple[Result, Heard]:
    """Put a question to *agent*, whose provider is *models*."""
    return ask(ModelBackend(environment=models.environment), agent, **{"prompt": "a question", **values})


def answered(models: FakeModels, agent: AgentPlan, **values: Any) -> Answer:
    """The same; it answers."""
    result, _ = put(models, agent, **values)
    assert isinstance(result, Answer), result
    return result


def failed(models: FakeModels, agent: AgentPlan, **values: Any) -> Failure:
    """The same; it fails."""
    result, _ = put(models, agent, **values)
    assert isinstance(result, Failure), result
    return result


def tools_of(body: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The tools that a request offers, by name, each with its schema."""
    found = {}
    for tool in body.get("tools", ()):
        function = tool.get("function", tool)
        found[function["name"]] = function.get("parameters") or function["input_schema"]
    return found


def results_of(body: dict[str, Any]) -> Sequence[str]:
    """What tools gave, as the model is told."""
    found = []
    for message in body["messages"]:
        if message["role"] == "tool":
            found.append(str(message["content"]))
        elif isinstance(message["content"], list):
            found += [str(part["content"]) for part in message["content"] if part.get("type") == "tool_result"]
    return found
