"""Providers of models for `self.llm`, over the clients of the model backend."""

import asyncio
import os
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from inspect import signature
from typing import TYPE_CHECKING, Any, ClassVar

from coterie.actors.plugins.configured import Configured
from coterie.actors.plugins.toolbox import AgentTool
from coterie.backends.models.cassette import Cassette, Mode
from coterie.backends.models.library import load, open_client
from coterie.backends.models.needs import NO_KEY, address_of, key_of
from coterie.backends.models.response import ModelResponse
from coterie.backends.models.threads import in_thread, start
from coterie.backends.secrets import Secrets
from coterie.diagnostics import did_you_mean
from coterie.errors import CallFailed, ExtraMissing, PluginError
from coterie.options.models import MODEL_SETTINGS
from coterie.planning.providers import ALIASES, Chosen, choose_provider

if TYPE_CHECKING:
    import httpx2

_SETTINGS = {name: setting for name, setting in MODEL_SETTINGS.items() if name != "max_turns"}
"""The settings of one request."""


class HttpProvider(Configured):
    """A provider of models behind an HTTP API.

    The key comes from the environment. Requests that fail for a passing reason, such as a rate limit, are repeated.

    Args:
        default_model: The model of requests that name none.
        name: By what `name/model` means this provider; by default the API's.
        models: Models that this provider serves although their names do not say so.
        max_retries: How often a failed request is repeated.
        base_url: The address of a compatible server.
        api_key: The key; in Python only, so that no file contains one.
        api_key_env: The environment variable that contains the key, by default `ANTHROPIC_API_KEY` or
            `OPENAI_API_KEY`; a server at *base_url* gets a key only if one of the two is given.
        price_in: USD for a million tokens of requests, if the price is not known.
        price_out: The same of answers.
        settings: `max_tokens`, `temperature` and other settings of a model; a request may override them.

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
        """Whether *model* is one of this provider, by its list of models or by its name."""
        if model in (self.default_model, *self._models) or model.startswith(f"{self.name}/"):
            return True
        by_name = choose_provider(model, {})
        return isinstance(by_name, Chosen) and by_name.provider == self.api and not self._place.base_url

    def check_installed(self) -> None:
        """See that the library is installed.

        Raises:
            ExtraMissing: If it is not.
        """
        if find_spec("pydantic_ai") is None:
            raise ExtraMissing("models", "pydantic-ai-slim", f"the model plugin {self.name!r}")

    def check(self) -> None:
        """See that the library is installed and the key is set, and begin to load the library.

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
        """The answer of *model*, by default the provider's, to *messages*.

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
        """Import what calls models, which takes a second, and return its parts; called in a thread."""
        chat = load("chat", "settings", self.api)  # the settings before all else: they quiet the library
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
