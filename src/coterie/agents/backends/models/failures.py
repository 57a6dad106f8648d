"""Translate errors of pydantic-ai and of providers into failures with a kind.

Imports pydantic-ai: load it late.
"""

import re
import time
from contextlib import suppress
from math import inf

from pydantic_ai import exceptions as ai
from pydantic_ai.messages import ModelResponse

from coterie.agents.backends.base import Failure
from coterie.agents.backends.classify import classify
from coterie.agents.backends.coding.limits import until_reset
from coterie.agents.backends.models.attempt_rules import unfinished
from coterie.agents.backends.models.cassette import CassetteMiss
from coterie.agents.backends.models.malformed import Malformed
from coterie.base.shortages import shortage
from coterie.history.views.words import number

_QUOTA = "says that the quota or the credit is used up"
_MALFORMED = "sent an answer that its protocol does not allow"
_WRONG_CALLS = re.compile(r"(?:Tool (.+?) exceeded max retries count of |output retries \()(\d+)")
_REASON = 600
"""How many characters of a provider's message are kept."""


class CutOff(Exception):
    """The attempt ends here with *failure*: a request may not be sent, or its answer is not complete."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.reason)
        self.failure = failure


def incomplete(answer: ModelResponse, provider: str, limit: str) -> Failure | None:
    """Why *answer* is not complete, if it is not; *limit*: the setting that limits its length."""
    if answer.finish_reason == "content_filter":  # also a refusal beside the text, without a reason for the end
        return unfinished(answer.finish_reason, provider, limit)
    return unfinished((answer.provider_details or {}).get("finish_reason"), provider, limit)


def failure_of(error: Exception, provider: str) -> Failure:
    """The failure for *error*, which ended an attempt with a model of *provider*; an unknown error is raised again.

    The run decides by its kind whether to retry, for example after a rate limit, an overload, or a lost connection.
    """
    if lacks := shortage(error):
        return Failure(kind="shortage", reason=f"{provider} cannot be called: {lacks}")
    if (miss := _missed(error)) is not None:
        return Failure(kind="not_found", reason=str(miss))
    match error:
        case CutOff():
            return error.failure
        case Malformed():
            return Failure(kind="transient", reason=f"{provider} {_MALFORMED}: {_short(str(error))}")
        case ai.ModelAPIError() if isinstance(error.__cause__, ValueError):  # the answer is not JSON, or not text
            kind, what = "transient", _MALFORMED
        case ai.ModelAPIError() if (address := _elsewhere(error.__cause__)) is not None:
            reason = f"{provider} redirects to {_short(address)!r}, which is not followed: set base-url to its address"
            return Failure(kind="failed", reason=reason)
        case ai.ModelQuotaExceededError():
            kind, what = "quota", _QUOTA
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
        case ai.UnexpectedModelBehavior() if "ended without content" in error.message:
            return Failure(kind="transient", reason=f"{provider} sent an answer without anything in it")
        case ai.UnexpectedModelBehavior() if "was suspended more than" in error.message:
            return Failure(kind="failed", reason=f"{provider} paused its answer again and again")
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
    if classify(_said(error)) == "quota":  # some say so with the status of a rate limit, a wrong key or a wrong request
        kind, what = "quota", _QUOTA
    wait = _wait(error)
    if not wait and kind in ("quota", "rate_limited"):
        wait = until_reset(_said(error), time.time())
    asked = f"; it asks to wait {number(wait)} s" if wait else ""
    return Failure(kind=kind, reason=f"{provider} {what}: {_said(error)}{asked}", wait=wait)


def _wait(error: ai.ModelAPIError) -> float:
    """Retry-After in seconds, if given; some servers send fractions, which pydantic-ai does not read."""
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
    """` at 127.0.0.1:8000`, the server that *error* of a provider's client names, if it does."""
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
