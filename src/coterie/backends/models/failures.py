"""Translate the errors of pydantic-ai and of providers into failures of a kind.

Imports pydantic-ai: load it late.
"""

import re
from contextlib import suppress
from math import inf

from pydantic_ai import exceptions as ai
from pydantic_ai.messages import ModelResponse

from coterie.backends.base import Failure
from coterie.backends.models.cassette import CassetteMiss
from coterie.backends.models.malformed import Malformed
from coterie.shortages import shortage
from coterie.views.words import number

_MALFORMED = "sent an answer that its protocol does not allow"
_WRONG_CALLS = re.compile(r"(?:Tool (.+?) exceeded max retries count of |output retries \()(\d+)")
_REASON = 600
"""Characters of a provider's message that are kept."""


def incomplete(response: ModelResponse, provider: str, limit: str) -> Failure | None:
    """Why *response* is no whole answer, if it is none; *limit*: the setting that says how long one may be."""
    match response.finish_reason:
        case "content_filter":
            return Failure(kind="refused", reason=f"{provider} refused to answer")
        case "length":
            reason = f"the answer was cut off at {limit} before it was complete: allow more"
            return Failure(kind="failed", reason=reason)
        case _ if "finish_reason" not in (response.provider_details or {}):  # the library treats that as a stop
            return Failure(kind="transient", reason=f"{provider} ended its answer without marking it as complete")
        case _:
            return None


def failure_of(error: Exception, provider: str) -> Failure:
    """The failure for *error*, which ended an attempt with a model of *provider*; an unknown error is raised again.

    The run decides by its kind whether to retry: after a rate limit, an overload, a lost connection.
    """
    if lacks := shortage(error):
        return Failure(kind="shortage", reason=f"{provider} cannot be called: {lacks}")
    if (miss := _missed(error)) is not None:
        return Failure(kind="not_found", reason=str(miss))
    match error:
        case Malformed():
            return Failure(kind="transient", reason=f"{provider} {_MALFORMED}: {_short(str(error))}")
        case ai.ModelAPIError() if isinstance(error.__cause__, ValueError):  # the answer is not JSON, or not text
            kind, what = "transient", _MALFORMED
        case ai.ModelAPIError() if (address := _elsewhere(error.__cause__)) is not None:
            reason = f"{provider} redirects to {_short(address)!r}, which is not followed: set base-url to its address"
            return Failure(kind="failed", reason=reason)
        case ai.ModelQuotaExceededError():
            kind, what = "quota", "says that the quota or the credit is used up"
        case ai.ModelRateLimitError():
            kind, what = "rate_limited", "limits the rate of requests"
        case ai.ModelAuthenticationError():
            kind, what = "auth", "does not accept the API key"
        case ai.ModelNotFoundError():
            kind, what = "not_found", f"does not know the model {error.model_name!r}"
        case ai.ModelContextWindowExceededError():
            kind, what = "failed", "says that the prompt is too long for the model"
        case ai.ModelRequestRejectedError():
            kind, what = "failed", "refuses the request as it is"
        case ai.ModelHTTPError(status_code=status) if status in (408, 409, 425):
            kind, what = "transient", "asks to try again"
        case ai.ModelUnavailableError() | ai.ModelServerError():
            kind, what = "transient", "cannot answer now"
        case ai.ModelConnectionError() | ai.ModelRequestTimeout():
            kind, what = "transient", f"cannot be reached{_at(error.__cause__)}, or the connection broke off"
        case ai.ModelAPIError(in_stream=True):
            kind, what = "transient", "broke off its answer"
        case ai.ModelAPIError():
            kind, what = "failed", "does not answer the request"
        case ai.ContentFilterError():
            return Failure(kind="refused", reason=f"{provider} refused to answer: {_short(error.message)}")
        case ai.UsageLimitExceeded():
            return Failure(kind="failed", reason="the model asked for more rounds of tools than max-turns allows")
        case ai.OutputTokenLimitExceeded():
            reason = "the answer was cut off at max-tokens before it was complete: allow more"
            return Failure(kind="failed", reason=reason)
        case ai.UnexpectedModelBehavior() if "output retries (0)" in error.message:
            return Failure(kind="invalid_output", reason="the model gave an empty answer")
        case ai.UnexpectedModelBehavior() if (wrong := _WRONG_CALLS.search(error.message)) is not None:
            called = f"called the tool {wrong[1]}" if wrong[1] else "gave its outputs"
            last = f": {_short(str(error.__cause__))}" if error.__cause__ is not None else ""
            reason = f"the model {called} wrongly {int(wrong[2]) + 1} times; the last error{last}"
            return Failure(kind="invalid_output", reason=reason)
        case ai.UnexpectedModelBehavior():
            return Failure(kind="invalid_output", reason=f"the model's reply cannot be used: {_short(error.message)}")
        case ai.UserError():
            return Failure(kind="failed", reason=f"{provider} rejects this way of calling it: {_short(str(error))}")
        case _:
            raise error
    wait = _wait(error)
    asked = f"; it asks to wait {number(wait)} s" if wait else ""
    return Failure(kind=kind, reason=f"{provider} {what}: {_said(error)}{asked}", wait=wait)


def _wait(error: ai.ModelAPIError) -> float:
    """Retry-After in seconds, if given: pydantic-ai reads dates and whole seconds, some servers send a fraction."""
    if error.retry_after is not None or not isinstance(error, ai.ModelHTTPError):
        return error.retry_after or 0.0
    with suppress(ValueError):
        seconds = float((error.headers or {}).get("retry-after", ""))
        return seconds if 0.0 < seconds < inf else 0.0
    return 0.0


def _said(error: ai.ModelAPIError) -> str:
    """The provider's message, with the status."""
    status = f"{error.status_code} " if isinstance(error, ai.ModelHTTPError) else ""
    body = error.body
    if isinstance(body, dict):
        inner = body.get("error", body)
        message = inner.get("message") if isinstance(inner, dict) else inner
        if isinstance(message, str) and message:
            return _short(status + message)
    return _short(f"{status}{body}" if status else error.message)


def _at(error: BaseException | None) -> str:
    """` at 127.0.0.1:8000`, the server that *error* of a provider's client is about, if it says so."""
    request = getattr(error, "request", None)
    return f" at {request.url.netloc.decode()}" if request is not None else ""


def _elsewhere(error: BaseException | None) -> str | None:
    """The address to which a server redirects, if *error* of a provider's client is a redirect."""
    response = getattr(error, "response", None)
    if response is None or not 300 <= response.status_code < 400:
        return None
    return str(response.headers.get("location", ""))


def _missed(error: BaseException | None) -> CassetteMiss | None:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, CassetteMiss):
            return error
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return None


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _REASON else f"{line[:_REASON]}…"
