"""Model providers for `self.llm`, using the clients of the model backend."""

import asyncio
import os
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from inspect import signature
from typing import TYPE_CHECKING, Any, ClassVar

from coterie.agents.actors.plugins.configured import Configured
from coterie.agents.actors.plugins.toolbox import AgentTool
from coterie.agents.backends.models.cassette import Cassette, Mode
from coterie.agents.backends.models.library import load, open_client
from coterie.agents.backends.models.needs import NO_KEY, address_of, key_of
from coterie.agents.backends.models.response import ModelResponse
from coterie.agents.backends.models.threads import in_thread, start
from coterie.agents.backends.secrets import Secrets
from coterie.base.diagnostics import did_you_mean
from coterie.errors import CallFailed, ExtraMissing, PluginError
from coterie.team.options.models import MODEL_SETTINGS
from coterie.team.planning.providers import ALIASES, Chosen, choose_provider

if TYPE_CHECKING:
    import httpx2

_SETTINGS = {name: setting for name, setting in MODEL_SETTINGS.items() if name != "max_turns"}
"""The settings of one request."""


class HttpProvider(Configured):
    """A model provider behind an HTTP API.

    The key comes from the environment. Requests that fail for a transient reason, such as a rate limit, are retried.

    Args:
        default_model: The model for requests that name none.
        name: The provider's name in `name/model`; by default that of the API.
        models: Further models that this provider serves, whose names do not show it.
        max_retries: How often a failed request is repeated.
        base_url: The address of a compatible server.
        api_key: The key; only in Python, so that no file contains a key.
        api_key_env: The environment variable that contains the key, by default `ANTHROPIC_API_KEY` or `OPENAI_API_KEY`;
            a server at *base_url* gets a key only if one of the two is given.
        price_in: USD for a million input tokens, if the price is not known.
        price_out: The same for output tokens.
        settings: `max_tokens`, `temperature` and other settings of the model; a request may override them.

    Raises:
        PluginError: If a setting does not exist or has an invalid value.
    """

    api: ClassVar[str]

    def __init__(
        self,
        default_model: str = "",
        *,
        name: str = "",
        models: Sequence[str] = (),
        max_retries: int = 2,
        base_url: str = "",
        api_key: str = "",
        api_key_env: str = "",
        price_in: float | None = None,
        price_out: float | None = None,
        **settings: Any,
    ) -> None:
        self.name = name or self.api
        self.default_model = default_model
        self._models = (models,) if isinstance(models, str) else tuple(models)
        self._retries = max_retries
        if isinstance(max_retries, bool) or not isinstance(max_retries, int) or max_retries < 0:
            reason = f"max_retries must be a whole number from 0, not {max_retries!r}"
            raise PluginError("model", self.name, reason, place="max_retries")
        variable = api_key_env or ("" if base_url else f"{self.api.upper()}_API_KEY")
        self._place = Chosen(provider=self.name, api=self.api, model="", base_url=base_url, variable=variable)
        self._key = api_key
        self._options: dict[str, Any] = {"price_in": price_in, "price_out": price_out} | self._checked(settings)
        self._library: tuple[Any, Any, Any] | None = None
        self._client: tuple[asyncio.AbstractEventLoop, httpx2.AsyncClient, Cassette | None] | None = None

    def serves(self, model: str) -> bool:
        """Whether this provider serves *model*, by the list of models or by the model's name."""
        if model in (self.default_model, *self._models) or model.startswith(f"{self.name}/"):
            return True
        by_name = choose_provider(model, {})
        return isinstance(by_name, Chosen) and by_name.provider == self.api and not self._place.base_url

    def check_installed(self) -> None:
        """Check that the library is installed.

        Raises:
            ExtraMissing: If it is not.
        """
        if find_spec("pydantic_ai") is None:
            raise ExtraMissing("models", "pydantic-ai-slim", f"the model plugin {self.name!r}")

    def check(self) -> None:
        """Check that the library is installed and the key is set, and begin to load the library.

        Raises:
            ExtraMissing: If the library is not installed.
            PluginError: If the key is not set.
        """
        self.check_installed()
        cassette = Cassette.from_environment(os.environ)
        is_offline = cassette is not None and cassette.mode is Mode.REPLAY
        if not is_offline and not self._key and key_of(self._place, os.environ) is None:
            hint = f"export {self._place.variable}=…, or name another variable as api_key_env"
            raise PluginError("model", self.name, f"the environment variable {self._place.variable} is not set", hint)
        start(self._load, "load")

    async def chat(
        self,
        model: str,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[AgentTool] | None = None,
        **settings: Any,
    ) -> ModelResponse:
        """Return the answer of *model* to *messages*; by default the provider's model.

        Raises:
            CallFailed: If the provider fails, refuses, or cuts its answer off.
            PluginError: If a setting does not exist or has an invalid value.
        """
        model = (model or self.default_model).removeprefix(f"{self.name}/")
        if not model:
            raise CallFailed(f"no model is given, and the provider {self.name!r} has no default_model", "not_found")
        options = self._options | self._checked(settings)
        http, cassette = self._http()
        is_offline = cassette is not None and cassette.mode is Mode.REPLAY
        key = self._key or (NO_KEY if is_offline else key_of(self._place, os.environ))
        if key is None:
            raise CallFailed(f"the environment variable {self._place.variable} is not set", "auth")
        if self._library is None:
            self._library = await in_thread(self._load, "load")
        library, settings_of, dialect = self._library
        made = dialect.model(
            ALIASES.get(model, model) if self.api == "anthropic" else model,
            base_url=address_of(self._place, os.environ),
            key=key,
            http=http,
            retries=self._retries,
        )
        response: ModelResponse = await library.chat(
            made,
            messages,
            tools or (),
            settings=settings_of(options, dialect),
            options=options,
            provider=self.name,
            secrets=Secrets({**os.environ, "API_KEY": key}),
        )
        return response

    def _load(self) -> tuple[Any, Any, Any]:
        """Import the modules that call models, which takes a second, and return them; called in a thread."""
        chat = load("chat", "settings", self.api)  # first, since these settings silence the library
        return chat, load("settings").settings_of, load(self.api)

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        if self._client is not None:
            (_, http, _), self._client = self._client, None
            await http.aclose()

    def _http(self) -> "tuple[httpx2.AsyncClient, Cassette | None]":
        """The client of this event loop, which all requests share."""
        loop = asyncio.get_running_loop()
        if self._client is None or self._client[0] is not loop:
            cassette = Cassette.from_environment(os.environ)
            self._client = loop, open_client(cassette, os.environ), cassette
        return self._client[1:]

    def _checked(self, settings: dict[str, Any]) -> dict[str, Any]:
        for name, value in settings.items():
            if name not in _SETTINGS:
                known = [*_SETTINGS, *signature(HttpProvider).parameters]
                hint = did_you_mean(name, known) or f"settings of a model: {', '.join(_SETTINGS)}"
                raise PluginError("model", self.name, f"it has no setting {name!r}", hint, place=name)
            if not _SETTINGS[name].fits(value):
                reason = f"{name} must be {_SETTINGS[name].wanted}, not {value!r}"
                raise PluginError("model", self.name, reason, place=name)
        return settings


class AnthropicProvider(HttpProvider):
    """Anthropic's models, `claude-…`; the key is in `ANTHROPIC_API_KEY`. For its arguments see `HttpProvider`."""

    api = "anthropic"


class OpenAIProvider(HttpProvider):
    """OpenAI's models, and servers that are compatible with it (`base_url`); the key is in `OPENAI_API_KEY`.

    For its arguments see `HttpProvider`.
    """

    api = "openai"
