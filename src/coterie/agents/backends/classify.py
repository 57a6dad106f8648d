"""Classify the failure of a program by its output.

Programs that call a provider print its errors as text and exit with any status, so only the text tells the kind. Only
the end of each output counts, where a program reports why it failed: earlier text, such as the work of an agent, may
mention a status or a time-out that is unrelated to the failure.
"""

import re

LINES = 10
"""How many lines at the end of an output count, without blank lines."""
LONGEST = 400
"""How many characters of such a line count, from its beginning."""

_STATUS = r"\b(?:%s)\b(?!\ (?:bytes|errors|failed|files|items|lines|ms|passed|seconds|tests|tokens|warnings)\b)"
"""An HTTP status, unless the number counts something."""
_PROSE = r"(?<![\w./-])%s(?![\w/(=-]|\.\w)"
"""A word in a sentence, not in the name of a file, of a function or of an option."""
_KINDS = {
    "quota": _STATUS % "402"
    + r"""
        | payment\ required | insufficient[\s_-](?:quota|credits?|funds|balance) | credit\ balance\ is\ too\ low
        | (?<!disk\ )quota[\s_-](?:has\ been\ |is\ )?(?:exceeded|exhausted|reached)
        | (?:usage|spend|spending|credit|billing(?:\ hard)?|hour|hourly|daily|weekly|monthly)[\s_-](?:limit|cap)\b
        | \bbilling[\s_-](?:issue|problem|error|fail|details|to\ be\ enabled)
        | \bbilling[\s_-](?:is\ |has\ )?(?:not[\s_-]|disabled|inactive)
        | \b(?:and|&|your)\ billing\b
        | \bout\ of\ (?:credits?|quota)\b | \bhit\ your\ (?:\w+\ )?limit\b
        | (?<!disk\ )"""
    + _PROSE % "quota",
    "rate_limited": _STATUS % "429"
    + r"""
        | rate[\s_-]?limit | too\ many\ requests | \bthrottl(?:ed|ing)\b
        | \bretry-after\b | \bretry_?after["']?\ ?[:=]\ ?["']?\d
        | \bretry\ after:?\ [\d.]+\ ?(?:ms|s|sec\w*|min\w*|h\w*)?\W*$
    """,
    "auth": _STATUS % "40[13]"
    + r"""
        | \bunauthori[sz]ed\b | \bunauthenticated\b | \bnot\ logged\ in\b
        | authentication[\s_-]?(?:failed|error|required)
        | \b(?:invalid|incorrect|expired|missing)[\s_-](?:\w+\ )?(?:api[\s_-]?key|credentials?)\b
        | \b(?:invalid|expired|missing)[\s_-](?:access|auth\w*|bearer|oauth|refresh)[\s_-]token\b
        | \b(?:token|api[\s_-]?key|credentials?|session)\ (?:has\ |have\ |is\ |are\ )?expired\b
        | \b(?:api[\s_-]?key|credentials?)\ (?:is\ |are\ )?(?:invalid|missing|revoked|not\ (?:found|set|valid))\b
        | \bno\ api[\s_-]?key\b | ^\W*(?:\w*error:\ )?forbidden\W*$
    """,
    "transient": _STATUS % "500|50[2-4]|52[0-4]|529"
    + r"""
        | \boverloaded | \btime[ds]?[\s_-]?out(?:error)?\b | \betimedout\b
        | \beconn(?:reset|refused|aborted)\b | \benotfound\b | \beai_again\b | \bepipe\b | \besockettimedout\b
        | \bsocket\ hang\ ?up\b
        | connection(?:reset|refused)?error\b
        | \bconnection\ (?:was\ )?(?:reset|refused|closed|aborted|error|failed|lost|timed\ out)\b
        | \bnetwork\ (?:error|is\ unreachable)\b | \bfetch\ failed\b | \bbad\ gateway\b
        | internal[\s_-]?server[\s_-]?error\b | (?:service|temporarily)[\s_-]?unavailable\b
    """,
}
"""Words by kind of `coterie.agents.backends.base.FAILURES`. The first match decides: a provider also answers 429 for an
account without credit, and a message about a rate limit may name the key."""
_WORDS = {kind: re.compile(words, re.IGNORECASE | re.MULTILINE | re.VERBOSE) for kind, words in _KINDS.items()}


def classify(*outputs: str) -> str:
    """The kind of failure that the ends of *outputs* name; empty if none."""
    end = end_of(*outputs)
    return next((kind for kind, words in _WORDS.items() if words.search(end)), "")


def end_of(*outputs: str) -> str:
    """The ends of *outputs*, which count."""
    return "\n".join(_end(output) for output in outputs)


def _end(output: str) -> str:
    lines = [line for line in output[-LINES * LONGEST * 2 :].splitlines() if line.strip()]
    return "\n".join(line[:LONGEST] for line in lines[-LINES:])
