"""What the text of a failed program says of the kind of its failure."""

import pytest
from bundles import bundle
from loop_cases import cases

from coterie.agents.backends.base import FAILURES
from coterie.agents.backends.classify import LINES, classify

KINDS = {"none": "", "quota_exhausted": "quota", "auth_failed": "auth", "transient_error": "transient"}


@pytest.mark.parametrize("case", cases("error_class"), ids=lambda case: case["id"])
def test_a_text_has_the_class_that_the_earlier_system_gives_it(case: dict[str, str]) -> None:
    """The names differ, the classes do not."""
    wanted = KINDS.get(case["class"], case["class"])

    assert classify(case["output"]) == wanted
    assert wanted in FAILURES | {""}


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("HTTP 429", "rate_limited"),
        ("API Error: 429 Too Many Requests", "rate_limited"),
        ('{"error": {"code": "insufficient_quota", "status": 429}}', "quota"),
        ("You exceeded your current quota, please check your plan", "quota"),
        ("Your credit balance is too low to access the API", "quota"),
        ("Error: Incorrect API key provided", "auth"),
        ("invalid_api_key", "auth"),
        ("invalid bearer token", "auth"),
        ("Error: connect ECONNREFUSED 127.0.0.1:443", "transient"),
        ("read ECONNRESET", "transient"),
        ("The request timed out", "transient"),
        ("502 Bad Gateway", "transient"),
        ("socket.timeout: timed out", "transient"),
        ("TimeoutError", "transient"),
        ("openai.APIConnectionError: Connection error.", "transient"),
        ("openai.RateLimitError: Rate limit reached for the model", "rate_limited"),
        ("anthropic.AuthenticationError: no", "auth"),
        ("5-hour limit reached, resets 3am", "quota"),
        ("getaddrinfo ENOTFOUND api.example.com", "transient"),
        ("Overloaded", "transient"),
    ],
)
def test_what_providers_say(text: str, kind: str) -> None:
    """Errors as programs that ask a provider print them, in any case."""
    assert classify(text) == classify(text.upper()) == kind


WORDS = {
    "quota": [
        "billing issue",
        "There is a billing problem with your account",
        "billing_error",
        "billing_not_active",
        "Your account is not active, please check your billing details on our website.",
        "This API method requires billing to be enabled.",
        "You exceeded your current quota, check your plan and billing",
        "429 quota",
        "429: no quota left, retry-after: 5",
        "quota",
        "spend cap reached",
        "insufficient_credits: balance too low",
        "quota exceeded; also unauthorized",
    ],
    "rate_limited": [
        "retry-after: 5",
        "please retry-after 30s",
        "Retry-After: Wed, 21 Oct 2015 07:28:00 GMT",
        '{"retry_after": 2}',
        "retry after 10 seconds",
        "Error: retry after 1.5 s.",
        "503, retry-after: 5",
        "429 too many requests; service overloaded",
    ],
    "auth": [
        "Error: Forbidden",
        "API key is invalid",
        "API key not valid. Please pass a valid API key.",
        "api key missing",
        "No API key found",
        "authentication failed for the request",
    ],
    "transient": ["write EPIPE", "socket hangup", "ESOCKETTIMEDOUT", "gateway timeout while contacting model"],
    "": [
        "write failed: disk quota exceeded",
        "quota.py:12: error",
        "FAILED tests/test_billing.py::test_invoice - AssertionError",
        "set quota=3 with --quota",
        "the billing page is done",
        "retry after fixing the build",
        "assert retry_after == 5",
        "retry after 3 attempts",
        "forbidden import of os in a.py",
        "the token is missing a type",
    ],
}


@bundle("kind,text", [(kind, text) for kind, texts in WORDS.items() for text in texts])
def test_the_words_that_the_earlier_systems_know(kind: str, text: str) -> None:
    """Their kinds, in any case; but names of files, code and work on such a subject are none."""
    assert classify(text) == classify(text.upper()) == kind


@pytest.mark.parametrize(
    "text",
    [
        "AssertionError: 3 != 4",
        "took 512 ms",
        "401 passed, 1 failed in 500 ms; 402 tests, 403 warnings",
        "line 4290 of 15003",
        "permission denied: build/out",
        "cannot open file: no such file or directory",
        "the generated code is wrong in strategy 40",
        "SyntaxError: invalid token",
        "issue #1401 is open, see 5000 others",
    ],
)
def test_what_is_no_error_of_a_provider(text: str) -> None:
    """Numbers count as a status only where they stand alone."""
    assert classify(text) == ""


def test_only_the_end_of_an_output_counts() -> None:
    """A long report may mention a status or a time-out that has nothing to do with how it ends."""
    report = "the server answered 401, then 503, then a timeout; all are handled now"
    rest = "\n\n".join(f"step {k}" for k in range(LINES))

    assert classify(report) == "auth"
    assert classify(f"{report}\n{rest}") == ""
    assert classify(f"{report}\n{rest}", f"{report}\n{rest}") == ""
    assert classify(f"{rest}\n429", rest) == classify(rest, f"{rest}\n429") == "rate_limited"


def test_a_long_line_costs_little() -> None:
    """Only the beginning of a line counts, and only so much of the output is looked at."""
    assert classify("x " * 4_000_000 + "\nrate limit") == "rate_limited"
    assert classify("x" * 4_000_000) == ""
