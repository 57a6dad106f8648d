"""Errors of the library that asks models, as failures: by their kind the run decides what follows."""

import errno

import pytest
from pydantic_ai import exceptions as ai

from coterie.agents.backends.models.failures import CutOff, Failure, failure_of
from coterie.agents.backends.models.malformed import Malformed

LOST = ai.ModelConnectionError("m", "reset by peer")


@pytest.mark.parametrize(
    ("error", "kind", "reason"),
    [
        (CutOff(Failure(kind="budget", reason="spent")), "budget", "spent"),
        (Malformed("two ends"), "transient", "p sent an answer that its protocol does not allow: "),
        (OSError(errno.EMFILE, "too many"), "shortage", "p cannot be called: "),
        (LOST, "transient", "p cannot be reached, or the connection broke off: reset by peer"),
        (
            ai.ModelQuotaExceededError("m", "no more"),
            "quota",
            "p says that the quota or the credit is used up: no more",
        ),
        (ai.ModelRateLimitError("m", "slow"), "rate_limited", "p limits the rate of requests: slow"),
        (ai.ModelRateLimitError("m", "slow", retry_after=3), "rate_limited", "slow; it asks to wait 3 s"),
        (ai.ModelRateLimitError("m", "out of credits"), "quota", "p says that the quota or the credit is used up"),
        (ai.ModelAuthenticationError("m", "who?"), "auth", "p does not accept the API key: who?"),
        (ai.ModelNotFoundError("m", "no m"), "not_found", "p does not know the model 'm': no m"),
        (ai.ModelContextWindowExceededError("m", "long"), "failed", "the prompt is too long for the model: long"),
        (ai.ModelRequestRejectedError("m", "odd"), "failed", "p refuses the request as it is: odd"),
        (ai.ModelOverloadedError("m", "busy"), "transient", "p cannot answer now: busy"),
        (ai.ModelAPIError("m", "cut", in_stream=True), "transient", "p broke off its answer: cut"),
        (ai.ModelAPIError("m", "what"), "failed", "p does not answer the request: what"),
        (ai.ContentFilterError("not that"), "refused", "p refused to answer: not that"),
        (ai.UnexpectedModelBehavior("ended without content"), "transient", "an answer without anything in it"),
        (
            ai.UnexpectedModelBehavior("was suspended more than 9 times"),
            "failed",
            "p paused its answer again and again",
        ),
        (
            ai.UnexpectedModelBehavior("Tool 'sum' exceeded max retries count of 5"),
            "invalid_output",
            "the model called the tool 'sum' wrongly 6 times",
        ),
        (
            ai.UnexpectedModelBehavior("Exceeded maximum output retries (0)"),
            "invalid_output",
            "the model gave its outputs wrongly 1 times",
        ),
        (ai.UnexpectedModelBehavior("odd"), "invalid_output", "the model's reply cannot be used: odd"),
        (ai.UserError("not so"), "failed", "p rejects this way of calling it: not so"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else str(value)[:12],
)
def test_an_error_of_the_library_has_a_kind(error: Exception, kind: str, reason: str) -> None:
    """And the provider's words; nothing of it is the library's name."""
    failure = failure_of(error, "p")
    assert (failure.kind, reason in failure.reason) == (kind, True), failure


def test_an_unknown_error_is_no_failure_of_the_provider() -> None:
    """It is raised again, and counts as a crash."""
    with pytest.raises(ZeroDivisionError):
        failure_of(ZeroDivisionError("division by zero"), "p")
