"""Backends that agents without one could use on this machine, and what each of them lacks."""

import os
from collections.abc import Sequence
from importlib.util import find_spec

from msgspec import Struct

from coterie.agents.backends.coding import probes
from coterie.agents.backends.models.needs import chosen_of, variable_of
from coterie.base.waits import waiting
from coterie.team.options.backends import CODING
from coterie.team.planning.plan import AgentPlan
from coterie.team.planning.providers import Unclear

NamedAgents = Sequence[tuple[str, AgentPlan]]


class BackendOffer(Struct, frozen=True, kw_only=True):
    """A backend that agents could use.

    Attributes:
        flag: Its name for `-b`.
        has: The login or the key that makes it usable.
        needs: Steps before it can be used, one per line; empty if it is ready.
    """

    flag: str
    has: str = ""
    needs: tuple[str, ...] = ()

    def __str__(self) -> str:
        lacks = f"\n{'':20}".join(["needs:", *self.needs]) if self.needs else f"ready: {self.has}"
        return f"{f'-b {self.flag}':14}  {lacks}"


def backend_offers(agents: NamedAgents) -> list[BackendOffer]:
    """Offers for *agents* without a backend: Claude Code, and their models by API. No model is called."""
    return [_claude_code(), _models(agents)]


def _claude_code() -> BackendOffer:
    flag = "claude-sdk"
    entry = CODING[flag]
    with waiting("Claude Code to say whether it is logged in"):
        found = probes.claude(flag, entry, "")
    key = os.environ.get("ANTHROPIC_API_KEY") and found.logged_in is not False
    needs = [] if entry.is_installed else [f"pip install 'coterie[{entry.extra}]'"]
    needs += [] if found.logged_in or key else [probes.LOG_IN]
    version = found.found.replace(" (Claude Code)", "")
    has = f"Claude Code {version}" if found.logged_in else "Claude Code with ANTHROPIC_API_KEY"
    return BackendOffer(flag=flag, has=has, needs=tuple(needs))


def _models(agents: NamedAgents) -> BackendOffer:
    needs = [] if find_spec("pydantic_ai") else ["pip install 'coterie[models]'"]
    unclear = [name for name, agent in agents if isinstance(chosen_of(agent), Unclear)]
    needs += [f"a model for {', '.join(unclear)}"] if unclear else []
    variables = dict.fromkeys(filter(None, (variable_of(agent) for _, agent in agents)))
    needs += [f"export {name}=…" for name in variables if not os.environ.get(name)]
    return BackendOffer(flag="model", has=f"the key {', '.join(variables)}", needs=tuple(needs))
