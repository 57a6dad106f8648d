"""Measure how far a turn of a debate agrees with the other side, from 0 to 1.

A stated `agreement` from 0 to 1, or a `stance`, counts. Without either the words are analysed carefully: `I will not
concede`, `you would be right if`, a question and a quotation express no agreement, and `I agree, but` expresses half.
"""

import re

from coterie.history.engines.patterns.structured import share
from coterie.history.engines.replies import find_outputs, fit, renamed
from coterie.history.journal.records import TurnFinished
from coterie.team.planning.plan import Wanted

HALF = 0.5
"""The agreement of a side that grants a point."""

_AGREEMENT = Wanted(name="agreement", type="number", declared=False)
_STANCES = {"agree": 1.0, "partly": HALF, "disagree": 0.0}
_STANCE = Wanted(name="stance", type="enum", values=tuple(_STANCES), declared=False)

# Groups capture the words of a phrase that may negate it, for `_NOT`.
_NOTHING = r"to disagree|(?:with |to )?(?:none|nothing|neither|hardly|little|no (?:one|part|point|word))\b"
_WHOLLY = re.compile(
    rf"\b(?:i|we) ((?:[\w']+ ){{0,3}}?)(?:agree|concede)\b(?! (?:{_NOTHING}|that|on|about|in part|the point))"
    r"|\byou(?: are|'re) (\w+ )?right\b|\bi was wrong\b|\bi stand corrected\b|\b(?:i am|i'm) (\w+ )?convinced\b"
    r"|\bno (?:further )?objections?\b"
)
_PARTLY = re.compile(
    rf"\b(?:i|we) ((?:[\w']+ ){{0,3}}?)(?:agree|concede|grant|accept)\b(?! (?:{_NOTHING}))"
    r"|\b(?:valid|good|fair|strong) points?\b|\bpoint taken\b"
)
_BY_HALF = re.compile(r"\b(?:partly|partially|somewhat|in part|to some extent)\b")
_CUE = re.compile(r"agree|concede|grant|accept|right|wrong|corrected|convinced|objection|point")
"""Matches every clause with a phrase above; most clauses have none and are skipped."""
_NOT = re.compile(
    r"\b(?:not|never|cannot|nor|neither|hardly|nobody|nothing|without|refuse|unable|far from"
    r"|no|if|unless|would|could|might|should|until)\b|n't\b"
)
_TURN = re.compile(r"\b(?:but|however|although|though|yet|still|nevertheless|nonetheless|disagree|except)\b")
_WHILE = re.compile(r"\b(?:while|whilst|although|though)\b")
_QUOTED = re.compile(r'"[^"\n]*"|“[^“”\n]*”|«[^«»\n]*»')
_ASIDE = re.compile(r"\b(?:no|yes|well),")
_CLAUSE = re.compile(r"[^.!?;:\n]++[.!?;:\n]?")
_REACH = 4  # words before a phrase that may take it back


def agreement(reply: TurnFinished) -> float:
    """The agreement of *reply* with the other side: as stated, otherwise from its words."""
    wanted, text = (_AGREEMENT, _STANCE), reply.text.lower()
    found = find_outputs(reply.text, wanted) if any(want.name in text for want in wanted) else {}
    said = found | renamed(reply.outputs, wanted)
    stated = share(said.get("agreement"))
    if stated is not None:
        return stated
    known = fit(said.get("stance"), _STANCE)
    return in_words(reply.text) if known is None else _STANCES[known]


def in_words(text: str) -> float:
    """The agreement that an English text expresses: 1, `HALF` or 0. Linear in the text."""
    degree, plain = 0.0, text.replace("’", "'").lower()
    if not _CUE.search(plain):
        return degree
    for clause in _CLAUSE.findall(_ASIDE.sub(" ", _QUOTED.sub(" ", plain))):
        if degree and _TURN.search(clause):
            degree = HALF
        if _CUE.search(clause) and not clause.endswith("?"):
            degree = max(degree, _of_clause(" ".join(clause.replace(",", " ").split())))
    return degree


def _of_clause(words: str) -> float:
    turns = max((turn.start() for turn in _TURN.finditer(words)), default=-1)
    by_half, degree = _BY_HALF.search(words) is not None, 0.0
    for phrase, worth in ((_WHOLLY, 1.0), (_PARTLY, HALF)):
        for found in phrase.finditer(words):
            near = words[max(0, found.start() - 80) : found.start()].split()[-_REACH:]
            before = " ".join([*near, *filter(None, found.groups())])
            if not _NOT.search(before):
                halved = by_half or turns >= found.end() or _WHILE.search(before)
                degree = max(degree, HALF if halved else worth)
    return degree
