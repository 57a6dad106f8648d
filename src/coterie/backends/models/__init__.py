"""Ask models: Anthropic's, OpenAI's, and whatever speaks like one of them.

`backend` is the backend and its attempts, `needs` says before a run what it lacks. Behind them, loaded only when a
model is asked, since that takes a second: `conversation` (one attempt with a model, over pydantic-ai), `anthropic` and
`openai` (one provider's dialect each), `outputs`, `functions` (Python tools), `servers` (MCP), `spending`, `failures`.
`cassette` records what providers say, without what `hiding` hides, and says it again through `transport`.
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
