"""Backends: one technology per module, all behind the `Backend` protocol.

The names below load on first use, so that a run imports only the backends it needs.
"""

TYPE_CHECKING = False  # as in `typing`, whose import would slow down the messages of agents (`agentside`)
if TYPE_CHECKING:
    from coterie.backends.base import FAILURES, Answer, Backend, Failure, Request, Session
    from coterie.backends.command import CommandBackend
    from coterie.backends.human import HumanBackend
    from coterie.backends.models.backend import ModelBackend
    from coterie.backends.models.key import turn_key
    from coterie.backends.scripted import ScriptedBackend, read_script

_PLACES = {
    "FAILURES": "base",
    "Answer": "base",
    "Backend": "base",
    "CommandBackend": "command",
    "Failure": "base",
    "HumanBackend": "human",
    "ModelBackend": "models.backend",
    "Request": "base",
    "ScriptedBackend": "scripted",
    "Session": "base",
    "read_script": "scripted",
    "turn_key": "models.key",
}

__all__ = [
    "FAILURES",
    "Answer",
    "Backend",
    "CommandBackend",
    "Failure",
    "HumanBackend",
    "ModelBackend",
    "Request",
    "ScriptedBackend",
    "Session",
    "read_script",
    "turn_key",
]


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name not in _PLACES:
        raise AttributeError(f"module 'coterie.backends' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"coterie.backends.{_PLACES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
