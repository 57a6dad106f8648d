"""Call models: Anthropic's, OpenAI's, and any server that is compatible with one of them.

`backend` is the backend and its attempts; `needs` checks before a run that all is there. The others load with the first
call of a model, since that takes a second: `conversation` (one attempt with a model, over pydantic-ai), `anthropic` and
`openai` (one provider each), `outputs`, `functions` (Python tools), `servers` (MCP), `usage`, `failures`. `cassette`
records answers of providers, which `redaction` strips of secrets, and replays them through `transport`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coterie.backends.models.backend import ModelBackend
    from coterie.backends.models.cassette import Cassette
    from coterie.backends.models.key import turn_key

_PLACES = {"Cassette": "cassette", "ModelBackend": "backend", "turn_key": "key"}

__all__ = ["Cassette", "ModelBackend", "turn_key"]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'coterie.backends.models' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"coterie.backends.models.{_PLACES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
