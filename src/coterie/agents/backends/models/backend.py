"""The backend `model`: attempts with models, one task each.

pydantic-ai and the providers' clients load while a run starts, or with the first call of a model, in a thread.
"""

import asyncio
import os
from collections.abc import Iterable, Mapping
from functools import cached_property, partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import msgspec

from coterie.agents.backends.attempt_timeout import ABANDONED, AttemptTask
from coterie.agents.backends.base import Abilities, Failure, OnEvent, Request, Result, Session
from coterie.agents.backends.models.cassette import Cassette
from coterie.agents.backends.models.library import load, load_once, open_client
from coterie.agents.backends.models.needs import NO_KEY, address_of, chosen_of, key_of, missing
from coterie.agents.backends.models.threads import start
from coterie.agents.backends.process_table import moment
from coterie.agents.backends.processes import end_orphans
from coterie.agents.backends.secrets import Secrets
from coterie.team.options.values import VARIABLE
from coterie.team.planning.plan import AgentPlan
from coterie.team.planning.providers import Unclear

if TYPE_CHECKING:
    import httpx2

    from coterie.agents.backends.models.conversation import Conversation
    from coterie.agents.backends.models.recorded import RecordedConversation


class ModelBackend:
    """Calls models of Anthropic, of OpenAI, and of compatible servers.

    An answer is a text and, if outputs are declared, the outputs that the model gives by calling a tool. A model may
    use Python functions and MCP servers; a server runs for one attempt. A time-out, an interruption, and cancelling
    the wait for the result end the request to the provider at once. Keys come from the environment only, and are
    redacted in all output.

    Args:
        cassette: Replays or records answers of providers; by default the one that the environment names.
        environment: The variables with keys and addresses; by default those of the process.
    """

    abilities = Abilities(steer=True, cost=True, model=True)

    def __init__(self, cassette: Cassette | None = None, environment: Mapping[str, str] | None = None) -> None:
        self._environment = os.environ if environment is None else environment
        self._given = cassette
        self._attempts: set[_Attempt] = set()
        self._http: httpx2.AsyncClient | None = None

    @cached_property
    def _cassette(self) -> Cassette | None:
        return self._given or Cassette.from_environment(self._environment)

    @property
    def offline(self) -> bool:
        """Whether all answers come from a cassette.

        Raises:
            UsageError: If the cassette that the environment names cannot be read.
        """
        return self._cassette is not None and self._cassette.replays

    @property
    def _plays_without_library(self) -> bool:
        return self.offline and find_spec("pydantic_ai") is None

    def prepare(self, agents: Iterable[AgentPlan]) -> None:
        """Begin to load the libraries that *agents* need in a thread, which takes a second or two."""
        if self._plays_without_library:
            return
        for modules in {_modules_for(agent) for agent in agents}:
            start(partial(load, "conversation", *modules), "load")

    async def start(self, request: Request, on_event: OnEvent) -> Session:
        """Start a conversation; a failure to start is a result."""
        attempt = _Attempt(self, request, on_event)
        self._attempts.add(attempt)
        attempt.task.add_done_callback(lambda _: self._attempts.discard(attempt))
        return attempt

    async def close(self) -> None:
        """Interrupt all attempts that still run, and close the connections. Idempotent."""
        await asyncio.gather(*(attempt.interrupt() for attempt in list(self._attempts)))
        if self._http is not None:
            http, self._http = self._http, None
            await http.aclose()

    async def converse(self, request: Request, on_event: OnEvent) -> "Conversation | RecordedConversation | Failure":
        """Make a conversation for *request*, or return the failure."""
        agent = request.agent
        chosen = chosen_of(agent)
        if isinstance(chosen, Unclear):
            return Failure(kind="not_found", reason=f"agent {agent.name!r}: {chosen.message}; {chosen.hint}")
        key = NO_KEY if self.offline else key_of(chosen, self._environment)
        for lack in missing([(agent.name, agent)], self._environment, offline=self.offline):
            kind = "auth" if lack.code == "no-api-key" else "not_found"
            return Failure(kind=kind, reason=f"{lack.message}: {lack.hint}")
        declared = agent.options.get("mcp_servers", {}).values()
        own = [
            {
                name: VARIABLE.sub(lambda found: os.environ.get(found[1], ""), str(value))
                for name, value in one.get(part, {}).items()
            }
            for one in declared
            for part in ("env", "headers")
        ]
        secrets = Secrets(os.environ, self._environment, agent.env, {"API_KEY": key or ""}, *own)
        if self._cassette is not None and self._plays_without_library:
            from coterie.agents.backends.models.recorded import RecordedConversation

            return RecordedConversation(request, chosen, self._cassette, secrets, on_event)
        conversation = await load_once("conversation", *_modules_for(agent))
        made: Conversation = conversation.Conversation(
            request,
            chosen,
            base_url=address_of(chosen, self._environment),
            key=key,
            http=self._client(),
            secrets=secrets,
            on_event=on_event,
        )
        return made

    def _client(self) -> "httpx2.AsyncClient":
        """The HTTP client that all attempts share."""
        if self._http is None:
            self._http = open_client(self._cassette, self._environment)
        return self._http


class _Attempt(AttemptTask):
    """A running attempt."""

    def __init__(self, backend: ModelBackend, request: Request, on_event: OnEvent) -> None:
        super().__init__(request.agent.timeout)
        self._since = moment()
        self._backend, self._request, self._on_event = backend, request, on_event
        self._conversation: Conversation | RecordedConversation | None = None
        self._guidance: list[str] = []

    async def steer(self, text: str) -> bool:
        """Pass *text* to the model with its next request; False if its answer is complete."""
        if self.task.done() or self._cut.done():
            return False
        if self._conversation is None:
            self._guidance.append(text)
            return True
        return self._conversation.steer(text)

    async def _run(self) -> Result:
        loop = asyncio.get_running_loop()
        began = loop.time()
        exchange = loop.create_task(self._exchange())
        either: set[asyncio.Future[Any]] = {exchange, self._cut}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            result = exchange.result() if exchange.done() else self._cut.result()
        finally:
            await self._end(exchange)
        if isinstance(result, Failure) and self._conversation is not None:
            reason = f"{result.reason}; {ABANDONED}" if self.abandoned else result.reason
            result = msgspec.structs.replace(result, reason=reason, text=self._conversation.said)
        usage = self._conversation.used if self._conversation is not None else result.usage
        return msgspec.structs.replace(result, usage=msgspec.structs.replace(usage, seconds=loop.time() - began))

    async def _exchange(self) -> Result:
        made: Conversation | RecordedConversation | Failure
        try:
            made = await self._backend.converse(self._request, self._on_event)
            if isinstance(made, Failure):
                return made
            self._conversation = made
            self._limit_time()  # loading the libraries may take seconds, which do not count as the agent's
            for text in self._guidance:
                made.steer(text)
            result = await made.hold()
        except Exception as error:  # a bug, here or in a library: reported without secrets
            hide = self._conversation.hide if self._conversation is not None else Secrets(os.environ).hide
            return Failure(kind="crashed", reason=hide(f"{type(error).__name__}: {error}"))
        if isinstance(result, Failure):
            return msgspec.structs.replace(result, reason=made.hide(result.reason))
        return result

    async def _end(self, exchange: "asyncio.Task[Result]") -> None:
        """End *exchange* if it still runs, and every process that its MCP servers and programs left behind."""
        if not exchange.done():
            exchange.cancel()
            await asyncio.wait({exchange})
        options = self._request.agent.options
        if options.get("mcp_servers") or "Bash" in options.get("built_in_tools", ()) or self._request.env:
            await end_orphans(self._request.ref.marker, (), since=self._since)


def _modules_for(agent: AgentPlan) -> tuple[str, ...]:
    """The modules of this package that *agent* needs in addition to `conversation`."""
    chosen = chosen_of(agent)
    api = () if isinstance(chosen, Unclear) else (chosen.api,)
    return (*api, "servers") if agent.options.get("mcp_servers") else api
