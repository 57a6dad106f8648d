"""Read a reply: find its outputs in what the backend returned or in the text, and check them.

Structured outputs count first, then those given while the attempt ran, then the last JSON object in the text, fenced or
bare, that holds a wanted name, then lines like `verdict: approve`. Names ignore case and are stored as declared. Time
is linear in any text: a reply may be a log full of braces.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from coterie.history.engines.commands import Emit, Reply
from coterie.history.engines.schemas import misfit
from coterie.history.journal.records import AttemptFailed, EventInvalid, TurnFinished
from coterie.team.planning.plan import Wanted
from coterie.team.topology.conditions import equal, is_number

MAX_DEPTH = 100
"""The deepest nesting at which a JSON object in a text is read."""

_STRING = r'"[^"\\\x00-\x1f]*+(?:\\.[^"\\\x00-\x1f]*+)*+"'
_NUMBER = r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?"
_SCALAR = re.compile(rf"{_STRING}|{_NUMBER}|true|false|null")
_TOKEN = re.compile(rf"[ \t\n\r]*+({_SCALAR.pattern}|[{{}}\[\],:])")
_COLOUR = re.compile(r"\x1b\[[0-?]*+[ -/]*+[@-~]")
_BULLET = r"(?:[-+>*]|#{1,6}|[0-9]{1,3}[.)])"
_OPENING = re.compile(r'\{(?=[ \t\n\r]*+")')


def judge_reply(
    reply: Reply, wanted: Sequence[Wanted], bare: bool = False, *, checks_needed: bool = True
) -> TurnFinished | AttemptFailed:
    """Judge *reply* against the outputs that its agent should return.

    A declared output that is missing or does not fit makes an `invalid_output`, whose reason names the expected and the
    actual value. Null is a value where the schema accepts it; elsewhere an optional output that is null counts as left
    out. An undeclared one may be missing and is not checked. If no outputs are wanted, the text is not searched.

    Args:
        bare: Accept a text of one line as the only wanted output, for people who type just the value.
        checks_needed: Whether an undeclared output that is needed must be present, too.
    """
    given = renamed(reply.given, wanted) if reply.given else {}
    if reply.outputs is None:
        found = (find_outputs(reply.text, wanted) if wanted else {}) | given
        if bare and len(wanted) == 1 and wanted[0].name not in found and "\n" not in reply.text.strip():
            found = {wanted[0].name: reply.text.strip()} | found
    else:
        found = given | renamed(reply.outputs, wanted)
    outputs = dict(found)
    faults: list[str] = []
    for want in wanted:
        if want.declared:
            value = fit(outputs.get(want.name), want)
            may_be_null = want.schema and want.name in outputs and not misfit(outputs[want.name], want.schema)
            if value is None and not may_be_null:
                if want.optional and outputs.pop(want.name, None) is None:
                    continue  # left out
                faults.append(_fault(want, found))
            outputs[want.name] = value
        elif want.needed and checks_needed and outputs.get(want.name) is None:
            faults.append(_fault(want, found))
    if faults:
        return AttemptFailed(
            turn=reply.turn,
            attempt=reply.attempt,
            kind="invalid_output",
            reason="; ".join(faults),
            usage=reply.usage,
            text=reply.text,
        )
    return TurnFinished(
        turn=reply.turn,
        attempt=reply.attempt,
        text=reply.text,
        outputs=outputs,
        usage=reply.usage,
        message=reply.message,
    )


def no_events(said: Emit, what: str) -> EventInvalid:
    """The record of an event that *what* (a kind of run) does not accept."""
    return EventInvalid(
        turn=said.turn, event=said.event, attempt=said.attempt, reason=f"{what} accepts no events", message=said.message
    )


def find_outputs(text: str, wanted: Sequence[Wanted]) -> dict[str, Any]:
    """Find the outputs in *text*: the whole JSON object that holds them, or the lines that name them."""
    text = _COLOUR.sub("", text)  # programs that print colours even into a pipe
    names, lowered = {want.name for want in wanted}, text.lower()
    if any(f'"{name.lower()}"' in lowered for name in names):
        last = None
        for found in objects_in(text):
            last = last if names.isdisjoint(one := renamed(found, wanted)) else one
        if last is not None:
            return last
    return _from_lines(text, wanted)


def renamed(found: Mapping[str, Any], wanted: Sequence[Wanted]) -> dict[str, Any]:
    """*found* with each name as declared: `Verdict` becomes `verdict`, unless both are there."""
    names = {want.name.lower(): want.name for want in wanted}
    return {
        name if (known := names.get(name.lower(), name)) in found else known: value for name, value in found.items()
    }


def fit(value: Any, want: Wanted) -> Any:
    """Convert *value* to the type that *want* declares; None when it is missing or does not fit.

    Members of an enum compare as in conditions and are returned as declared; numbers, whole numbers and booleans may
    also be text. Items in a list of texts that are not text are written as JSON.
    """
    if value is None:
        return None
    if want.schema:
        return None if misfit(value, want.schema) else value
    match want.type:
        case "enum":
            fitting = [member for member in want.values if equal(value, member)]
            return next((member for member in fitting if equal(value, member, exact=True)), next(iter(fitting), None))
        case "number" | "integer":
            return _number(value, whole=want.type == "integer")
        case "boolean":
            if isinstance(value, str):
                return {"true": True, "false": False}.get(value.strip().lower().removesuffix("."))
            return value if isinstance(value, bool) else None
        case "text":
            if isinstance(value, bool) or is_number(value):
                return json.dumps(value)
            return value if isinstance(value, str) else None
        case "list":
            if not isinstance(value, list | tuple):
                return None
            return [item if isinstance(item, str) else json.dumps(item, ensure_ascii=False) for item in value]
        case _:
            return value


def expectation(want: Wanted) -> str:
    """Describe a value of *want* for people and models: `one of "approve", "revise"`."""
    if want.schema:
        return f"JSON that fits the schema {json.dumps(want.schema, ensure_ascii=False)}"
    match want.type:
        case "enum":
            return f"one of {', '.join(map(shown, want.values))}"
        case "number":
            return "a number"
        case "integer":
            return "a whole number"
        case "boolean":
            return "true or false"
        case "text":
            return "a text"
        case "list":
            return "a list of texts"
        case _:
            return "a value" + (f", for example {', '.join(map(shown, want.values))}" if want.values else "")


def shown(value: Any) -> str:
    """*value* as JSON, cut after 80 characters."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:80]}…"


def _fault(want: Wanted, found: dict[str, Any]) -> str:
    if want.schema and found.get(want.name) is not None:
        wrong = misfit(found[want.name], want.schema)
        return f"the output {want.name!r} does not fit its schema: {wrong}; the reply gives {shown(found[want.name])}"
    came = f"gives {shown(found[want.name])}" if want.name in found else "does not give it"
    return f"expected the output {want.name!r} to be {expectation(want)}, the reply {came}"


def _number(value: Any, *, whole: bool) -> int | float | None:
    if isinstance(value, str):
        value = _plain(value.strip())
    if not is_number(value):
        return None
    if whole and isinstance(value, float):
        return int(value) if value.is_integer() else None
    number: int | float = value
    return number


def _from_lines(text: str, wanted: Sequence[Wanted]) -> dict[str, Any]:
    """Find lines `name: value`; the last line of a name counts; bullets, numbers, headings and emphasis are ignored."""
    by_name = {want.name.lower(): want for want in wanted}
    names = "|".join(re.escape(want.name) for want in wanted)
    line = re.compile(
        rf"^[ \t]*+(?:{_BULLET}[ \t]++)?([*`_]*)({names})[*`_]*+[ \t]*+:(.*)$", re.MULTILINE | re.IGNORECASE
    )
    outputs = {}
    for marks, name, value in line.findall(text):
        want = by_name[name.lower()]
        value = _without_marks(value.strip(), "*`_" if want.values else "*`", marked=bool(marks))
        outputs[want.name] = value if want.declared and want.type == "text" else _plain(value)
    return outputs


def _without_marks(value: str, marks: str, *, marked: bool) -> str:
    """*value* without the emphasis around it; *marked*: its name begins with emphasis, which may end in the value."""
    core = value.removesuffix(".")
    if marked or (core and core[0] in marks and core[0] == core[-1]):
        return (core.strip(f"{marks} \t") + value[len(core) :]).strip()
    return value


def _plain(text: str) -> Any:
    """Decode *text* if it is a JSON number, boolean or string; a number may end in a full stop. Otherwise return it."""
    number = text.removesuffix(".")
    if not _SCALAR.fullmatch(number) or (number != text and number[-1] not in "0123456789"):
        return text
    try:
        return msgspec.json.decode(number)
    except msgspec.DecodeError:
        return text


def objects_in(text: str) -> Iterator[dict[str, Any]]:
    """Yield the outermost JSON objects in *text*, in order."""
    at = 0
    while opening := _OPENING.search(text, at):
        found, at = _object_from(text, opening.start())
        if found is not None:
            try:
                yield msgspec.json.decode(text[found], type=dict[str, Any])
            except msgspec.DecodeError:  # half a surrogate pair, or a number beyond what can be written down
                continue


def _object_from(text: str, start: int) -> tuple[slice | None, int]:
    """Return the slice of the object that begins at *start*, and the position to search from next.

    If the object is cut off, return the last complete object inside it, and continue at the break, never before it:
    that keeps the time linear.
    """
    opened: list[int] = []
    want, at, whole = "{", start, None
    while token := _TOKEN.match(text, at):
        kind = token[1][0] if token[1][0] in '{}[]:,"' else "0"
        if kind not in want or len(opened) == MAX_DEPTH:
            break
        at = token.end()
        if kind in "{[":
            opened.append(token.start(1))
            want = '"}' if kind == "{" else '"0{[]'
            continue
        if kind in "}]":
            begin = opened.pop()
            if kind == "}":
                whole = slice(begin, at)
            if not opened:
                return whole, at
        in_object = text[opened[-1]] == "{"
        if kind == ",":
            want = '"' if in_object else '"0{['
        elif kind == ":":
            want = '"0{['
        elif kind == '"' and want in ('"', '"}'):
            want = ":"
        else:
            want = ",}" if in_object else ",]"
    return whole, max(at, start + 1)
