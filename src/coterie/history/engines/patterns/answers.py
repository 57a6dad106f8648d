"""Normalise answers, so that the same answer in different words is recognised.

Lead-ins, quotation marks, a full stop and an article are removed. The content stays, so different answers are never
merged: `C++` is not `C`, `vitamin A` not `vitamin`, 5! not 5 and 41 not 42. Time is linear in the text.
"""

import re
import unicodedata
from decimal import Context, Decimal

_LEAD_IN = re.compile(r"\banswer(?:[*_`\s]*+[:=]|\s++is\b\s*+:?)", re.IGNORECASE)
_BOXED = "\\boxed{"
_PRESENTING = re.compile(r"(?:(?:i (?:think|believe|say) )?(?:it is|it's|that is|that's) )?(?:(?:the|an?) (?=\w{2}))?")
_CHOICE = re.compile(r"\(([-+]?[\w.]+)\)|(\w)\)|\\(?:text|mathrm|textbf|mathbf)\{([^{}]*)\}")
_NUMBER = re.compile(r"[-+]?(?:(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?|\.\d+)(?:e[-+]?\d{1,2})?", re.ASCII)
_NUMBER_INSIDE = re.compile(r"(?<![\w.,])[-+]?(?:\d{1,3}(?:,\d{3})++|\d++)(?:\.\d++)?(?![\d.,]*\d)", re.ASCII)
_WORD_CALLED = re.compile(r"(?:[^\W\d_]{2}|[.,;:!?…\s])!\Z")
_MANY_MARKS = re.compile(r"[^\w\s]{31}")
_FEW_MARKS = re.compile(r"[\w\s]++[^\w\s]{0,30}+|[^\w\s]{1,30}+")
_DIGITS = 60
_EXACT = Context(prec=4 * _DIGITS)
_PAIRS = {'"': '"', "'": "'", "“": "”", "‘": "’", "«": "»", "`": "`", "*": "*", "$": "$"}
_ENDS = ".,;:!?…"
_AROUND = " \t\r\n*_`"


def normalise(text: str) -> str:
    """Return the normalised form of an answer: `42`, ` 42.`, `The answer is **42**` and `42.0` all become `42`.

    In a text that leads up to its answer (`… so the answer is`, `Final answer:`, `\\boxed{…}`) only the last answer
    counts. Case, spaces, marks around the answer, a full stop and a leading article are ignored. Numbers have one
    notation.
    """
    core = _bare(_said_last(_composed(text)))
    plain = " ".join(core.split()).casefold()
    presented = _PRESENTING.match(plain)
    if presented is not None and presented.end() < len(plain):
        plain = _bare(plain[presented.end() :])
    if chosen := _CHOICE.fullmatch(plain):
        plain = next(group for group in chosen.groups() if group is not None).strip()
    if plain[:1] == "$" and (price := decimal(plain[1:])) is not None:
        return _written(price)
    number = decimal(plain)
    return _written(number) if number is not None else plain or " ".join(text.split())


def decimal(text: str) -> Decimal | None:
    """Parse *text* as one number; None if it is anything else."""
    if len(text) > _DIGITS or not _NUMBER.fullmatch(text):
        return None
    return Decimal(text.replace(",", ""))


def number(text: str) -> Decimal | None:
    """Parse *text* as a number, or find the only number in it (`about 42 km`); None if it has none or several."""
    plain = normalise(text)
    whole = decimal(plain)
    if whole is not None:
        return whole
    inside = _NUMBER_INSIDE.findall(plain)
    return decimal(inside[0]) if len(inside) == 1 else None


def _composed(text: str) -> str:
    """Compose the letters of *text*. Combining marks are sorted a few at a time: sorting many takes too long."""
    if text.isascii() or not _MANY_MARKS.search(text):
        return unicodedata.normalize("NFC", text)
    return "".join(unicodedata.normalize("NFC", part) for part in _FEW_MARKS.findall(text))


def _said_last(text: str) -> str:
    """The last boxed part of *text*, or the part after its last lead-in; otherwise the whole text."""
    box = text.rfind(_BOXED)
    if box >= 0:
        start = at = box + len(_BOXED)
        depth = 1
        while at < len(text) and depth:
            depth += {"{": 1, "}": -1}.get(text[at], 0)
            at += 1
        if not depth and text[start : at - 1].strip():
            return text[start : at - 1]
    return _after_lead_in(text)


def _after_lead_in(text: str) -> str:
    end = len(text.rstrip(_ENDS + _AROUND))
    leads = [found for found in _LEAD_IN.finditer(text) if found.end() < end]
    if not leads:
        return text
    said = text[leads[-1].end() :].strip()
    if text.count("**", 0, leads[-1].start()) % 2:  # the lead-in is bold, alone or with the answer
        return said[2:] if said.startswith("**") else said.rstrip(_ENDS + " ").removesuffix("**")
    return said


def _bare(text: str) -> str:
    """*text* without surrounding spaces and marks, and without the end of a sentence."""
    start, end = 0, len(text)
    while start < end:
        if text[start].isspace():
            start += 1
        elif text[end - 1].isspace():
            end -= 1
        elif end - start > 1 and _PAIRS.get(text[start]) == text[end - 1]:
            start, end = start + 1, end - 1
        elif text[end - 1] in _ENDS and (text[end - 1] != "!" or _WORD_CALLED.search(text, max(end - 3, start), end)):
            end -= 1
        else:
            break
    return text[start:end]


def _written(number: Decimal) -> str:
    plain = format(_EXACT.normalize(number), "f")
    return "0" if plain == "-0" else plain
