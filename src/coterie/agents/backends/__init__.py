"""Backends: one module per technology, all behind the `Backend` protocol.

The names below load on first use, so that a run imports only the backends that it needs.

Other packages import `agentside.client`, `agentside.delivery`, `agentside.words`, `attempt`, `attempt_timeout`, `base`,
`classify`, `coding.acp`, `coding.claude`, `coding.pi`, `coding.probes`, `command`, `git_variables`, `human`, `mock`,
`models.attempt_rules`, `models.backend`, `models.cassette`, `models.key`, `models.library`, `models.needs`,
`models.response`, `models.steps`, `models.threads`, `needs`, `pending`, `prices`, `processes`, `sandbox.choice`,
`sandbox.policy`, `sandbox.restoring`, `scripted`, `scripts`, `secrets`, `team_files`, `wrapper`; the rest is internal.
"""

TYPE_CHECKING = False  # as in `typing`, whose import would slow down the messages of agents (`agentside`)
if TYPE_CHECKING:
    from coterie.agents.backends.base import FAILURES as FAILURES
    from coterie.agents.backends.base import Answer as Answer
    from coterie.agents.backends.base import Backend as Backend
    from coterie.agents.backends.base import Failure as Failure
    from coterie.agents.backends.base import Request as Request
    from coterie.agents.backends.base import Session as Session
    from coterie.agents.backends.command import CommandBackend as CommandBackend
    from coterie.agents.backends.human import HumanBackend as HumanBackend
    from coterie.agents.backends.models.backend import ModelBackend as ModelBackend
    from coterie.agents.backends.models.key import once as once
    from coterie.agents.backends.models.key import turn_attempt as turn_attempt
    from coterie.agents.backends.models.key import turn_key as turn_key
    from coterie.agents.backends.scripted import ScriptedBackend as ScriptedBackend
    from coterie.agents.backends.scripted import read_script as read_script

_EXPORTS = {
    "base": "Answer Backend FAILURES Failure Request Session",
    "command": "CommandBackend",
    "human": "HumanBackend",
    "models.backend": "ModelBackend",
    "models.key": "once turn_attempt turn_key",
    "scripted": "ScriptedBackend read_script",
}
_PLACES = {name: module for module, names in _EXPORTS.items() for name in names.split()}

__all__ = sorted(_PLACES, key=lambda name: (not name.isupper(), name))


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name not in _PLACES:
        raise AttributeError(f"module 'coterie.agents.backends' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"coterie.agents.backends.{_PLACES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
