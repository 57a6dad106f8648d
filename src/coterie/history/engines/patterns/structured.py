"""Ask for JSON and read it: find it in a reply, check its types, and ask once more when it is invalid.

The fields of an answer are `Wanted`s. A declared field must be present and fit, or the answer is unusable. An
undeclared one may be missing, and counts as missing if it does not fit: a verdict is not lost because its issues are
malformed. An undeclared list may be a single text, unless the text means "none". The texts `"true"` and `"false"` are
booleans too; no other value is. A turn never fails because of its JSON: the pattern decides.
"""

import re
from collections.abc import Generator, Sequence
from typing import Any

import msgspec
from msgspec import Struct, structs

from coterie.history.engines.questions import AgentFailed, Question, Together
from coterie.history.engines.replies import expectation, find_outputs, fit, renamed
from coterie.history.journal.records import TurnFinished
from coterie.team.formats.bounds import check_json
from coterie.team.planning.plan import Wanted

Fields = tuple[Wanted, ...]
"""The fields of an answer; at least one is declared."""

REPAIRS = 1
"""How often a question is repeated after an unusable answer."""

_BLOCKED = (Wanted(name="blocked", type="boolean", declared=False),)
_SAYS_BLOCKED = re.compile(r"[\s*_#`]*blocked\b[*_`]*\s*(?:[:.,;–—-]|$)", re.IGNORECASE)
_CONFIDENCE = Wanted(name="confidence", type="number", declared=False)
_ANSWERS = ("answer", "final_answer")
_NOTHING = ("", "[]", "-", "none", "n/a", "no issues")
_PART = re.compile(r"([0-9]++(?:\.[0-9]++)?)\s*(?:%|/\s*([0-9]++(?:\.[0-9]++)?))\.?")


class Answered(Struct, frozen=True):
    """The outcome of a question for JSON.

    Attributes:
        reply: The reply that holds *value*; the first one, if none does.
        value: All declared fields, and the undeclared ones that fit, by name; None: no usable answer.
        fault: The fault of the last reply, if there is no value.
        asked: The number of turns it took.
    """

    reply: TurnFinished
    value: dict[str, Any] | None
    fault: str = ""
    asked: int = 1


def ask(
    question: Question, fields: Fields, *, prose: bool = False, instead: Fields = ()
) -> Generator[Question | Together, Any, Answered]:
    """Ask *question* for JSON with *fields*, and once more if the answer is unusable: `yield from ask(…)`.

    Args:
        prose: Accept a reply without any JSON instead of asking again.
        instead: Accept an answer with these fields and none of the declared *fields*, too.

    Raises:
        AgentFailed: If the first turn fails. If only the second one fails, the first reply counts.
    """
    first = Answered(*_read((yield _wanting(question, fields)), fields))
    if (
        first.value is None
        and instead
        and not _found(first.reply, fields).keys() & {f.name for f in fields if f.declared}
    ):
        first = structs.replace(first, value=parse(first.reply, instead))
    if not _useless(first, prose):
        return first
    try:
        again = yield _again(question, first, fields)
    except AgentFailed as failed:
        again = failed
    return _second(first, again, fields)


def ask_all(
    questions: Sequence[Question], fields: Fields, *, most: int | None = None, prose: bool = False
) -> Generator[Question | Together, Any, list[Answered | AgentFailed]]:
    """Ask all *questions* at once for JSON with *fields*, and those with unusable answers once more, together.

    The outcomes are in the order of the questions; failures are values there.

    Args:
        most: How many questions may be open at a time; None is without limit.
        prose: As in `ask`.
    """
    came: list[Answered | AgentFailed] = [
        got if isinstance(got, AgentFailed) else Answered(*_read(got, fields))
        for got in (yield Together(*(_wanting(question, fields) for question in questions), most=most))
    ]
    useless = [(at, one) for at, one in enumerate(came) if isinstance(one, Answered) and _useless(one, prose)]
    if useless:
        second = yield Together(*(_again(questions[at], one, fields) for at, one in useless), most=most)
        for (at, one), again in zip(useless, second, strict=True):
            came[at] = _second(one, again, fields)
    return came


def parse(reply: TurnFinished, fields: Fields) -> dict[str, Any] | None:
    """The answer with *fields* in *reply*; None if a declared field is missing or does not fit.

    It is taken from the outputs of the reply, the last JSON object of its text that holds a field, fenced or bare, or
    lines such as `approved: true`. A reply that is a single value (a JSON list, a member of an enum) is that of the
    only declared field.
    """
    return _read(reply, fields)[1]


def confidence(reply: TurnFinished) -> float | None:
    """The stated confidence of a reply, from 0 to 1: `confidence` in its JSON, else the output `_confidence`."""
    said = share(_found(reply, (_CONFIDENCE,)).get("confidence"))
    return said if said is not None else share(reply.outputs.get("_confidence"))


def share(value: Any) -> float | None:
    """Read *value* as a number from 0 to 1, also from `80%` or `9/10`; None if it is anything else."""
    number = _fit(value, _CONFIDENCE)
    return float(number) if number is not None and 0 <= number <= 1 else None


def is_blocked(reply: TurnFinished) -> bool:
    """Whether *reply* is a refusal: `blocked` in its JSON, or as its first word."""
    blocked = (parse(reply, _BLOCKED) or {}).get("blocked")
    return blocked if blocked is not None else _SAYS_BLOCKED.match(reply.text) is not None


def answer(reply: TurnFinished) -> str:
    """The answer in a reply: `answer` (or `final_answer`) in its JSON, otherwise its whole text."""
    text = reply.text.lower()
    if any(f'"{name}"' in text for name in _ANSWERS) or any(name.lower() in _ANSWERS for name in reply.outputs):
        for name in _ANSWERS:
            wanted = Wanted(name=name, type="text")
            said = fit(_found(reply, (wanted,)).get(name), wanted)
            if said is not None and said.strip():
                return str(said)
    return reply.text


def _read(reply: TurnFinished, fields: Fields) -> tuple[TurnFinished, dict[str, Any] | None, str]:
    found, value, faults = _found(reply, fields), dict[str, Any](), list[str]()
    for want in fields:
        fitting = _fit(found.get(want.name), want)
        if fitting is not None:
            value[want.name] = fitting
        elif want.declared:
            came = "is something else" if found.get(want.name) is not None else "is missing"
            faults.append(f"`{want.name}` is to be {expectation(want)}, but {came}")
    return (reply, None, "; ".join(faults)) if faults else (reply, value, "")


def _found(reply: TurnFinished, fields: Fields) -> dict[str, Any]:
    """The raw values of *fields* in *reply*; its outputs count first."""
    outputs = renamed(reply.outputs, fields)
    given = {want.name: outputs[want.name] for want in fields if want.name in outputs}
    if len(given) == len(fields):
        return given
    declared = [want for want in fields if want.declared]
    if len(declared) == 1 and declared[0].name not in given:
        whole = _whole(reply.text, declared[0])
        if whole is not None:
            return {declared[0].name: whole} | given
    text = reply.text.lower()
    if not any(want.name.lower() in text for want in fields):
        return given
    said = renamed(_object(reply.text), fields)
    if any(want.name in said for want in fields):
        return said | given
    return find_outputs(reply.text, fields) | given


def _fit(value: Any, want: Wanted) -> Any:
    """Convert *value* like `fit`; a number may also be `80%` or `9/10`, and an undeclared list a single text."""
    if want.type == "list" and not want.declared and isinstance(value, str):
        said = value.strip()
        return None if said.casefold().removesuffix(".") in _NOTHING else [said]
    fitting = fit(value, want)
    if (
        fitting is None
        and want.type == "number"
        and isinstance(value, str)
        and (part := _PART.fullmatch(value.strip()))
    ):
        whole = float(part[2] or 100)
        return float(part[1]) / whole if whole else None
    return fitting


def _object(text: str) -> dict[str, Any]:
    """The JSON object if *text* is nothing else, as most replies are, which need no search; else empty."""
    if text[:1] != "{" or check_json(text) is not None:
        return {}
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        return {}


def _whole(text: str, want: Wanted) -> Any:
    """The value of *want* if all of *text*, fenced or not, is that value; else None."""
    text = text.strip()
    if text.startswith("```") and text.endswith("```") and "\n" in text:
        text = text[text.index("\n") : -3].strip()
    if text.startswith("{") or check_json(text) is not None:
        return None
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        value = text if want.type == "enum" else None
    return fit(value, want)


def _useless(came: Answered, prose: bool) -> bool:
    """Whether to ask again; with *prose*, only after an attempt at JSON."""
    return came.value is None and not (prose and "{" not in came.reply.text and "[" not in came.reply.text)


def _wanting(question: Question, fields: Fields) -> Question:
    """*question* with the wanted JSON as fields; the turn does not require it."""
    return Question(question.agent, question.prompt, fields=fields, history=question.history, given=question.given)


def _again(question: Question, first: Answered, fields: Fields) -> Question:
    """The request after an unusable answer."""
    keys = ", ".join(
        f'"{want.name}": {expectation(want)}' + ("" if want.declared else ", if you can say") for want in fields
    )
    demand = (
        f"Your answer cannot be used: {first.fault}. Answer again, with one JSON object and nothing else; "
        f"its keys are {keys}."
    )
    said = (("user", question.prompt), ("assistant", first.reply.text))
    return _wanting(Question(question.agent, demand, history=(*question.history, *said), given=question.given), fields)


def _second(first: Answered, again: TurnFinished | AgentFailed, fields: Fields) -> Answered:
    """The outcome of a repeated question."""
    if isinstance(again, AgentFailed):
        return structs.replace(first, fault=f"{first.fault}; asked again, {again}", asked=2)
    reply, value, fault = _read(again, fields)
    if value is None:
        return structs.replace(first, fault=fault, asked=2)
    return Answered(reply, value, asked=2)
