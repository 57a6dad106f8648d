"""Format values for the sentences of views."""

import json
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from coterie.history.journal.codec import map_texts

T = TypeVar("T")

ANSWERED = "answered, not resumed"
"""The words for a parked run whose questions have answers that no process has read."""
_LONGEST = 60
_KEPT = 1_000
_OUTPUTS = re.compile(r"\n\s*```(?:json)?\s*\{[^`]*\}\s*```$")
"""The block of outputs at the end of an answer, which only the flow needs."""


def quoted(text: str, longest: int = _LONGEST) -> str:
    """*text* on one line in quotation marks, shortened if it is long."""
    line = " ".join(text.split(None, longest)[:longest])  # later words are not needed
    return f"“{line}”" if len(line) <= longest else f"“{line[: longest - 1]}…”"


def listed(names: Iterable[str]) -> str:
    """`a`, `a and b`, `a, b and c`; empty without names."""
    *most, last = list(names) or [""]
    return f"{', '.join(most)} and {last}" if most else last


def pairs(values: Mapping[str, Any]) -> str:
    """`verdict = "revise", score = 3`; for a long list or object its size, `findings = [60 items]`."""
    return ", ".join(f"{name} = {_short(value)}" for name, value in values.items())


def answer(outputs: Mapping[str, Any], text: str) -> str:
    """An answer in short: its outputs, or its text if there are none or they contain it, as those of a pattern do."""
    if outputs and outputs.get("text") != text:
        return pairs(outputs)
    return quoted(text) if text else ""


def shortened(value: T) -> T:
    """The text or the outputs *value* with as much of each text as `answer` and the rows show, and more."""
    short: T = map_texts(value, _beginning)
    return short


def _beginning(text: str) -> str:
    return text if len(text) <= _KEPT else text[: _KEPT + len(text) - len(text.lstrip())]


def result(value: Any) -> str:
    """The result of a run as text: its answer, or its outputs as JSON if it has none."""
    if isinstance(value, dict) and isinstance(value.get("text"), str):
        text, outputs = value["text"].strip(), value.get("outputs")
        shown = _OUTPUTS.sub("", text) or text
        return _JSON.encode(outputs) if outputs and not shown else shown
    if isinstance(value, dict) and value.keys() == {"kind"}:  # a failure; its reason has the details
        return ""
    if value is None or isinstance(value, str):
        return (value or "").strip()
    return _JSON.encode(value)


def number(value: float) -> str:
    """A number with at most three decimals: `0.25`, `12`; below a thousandth `under 0.001`."""
    if 0 < value < 0.0005:
        return "under 0.001"
    return f"{value:.3f}".rstrip("0").rstrip(".")


def dollars(amount: float) -> str:
    """An amount of money with two or three decimals: `$0.10`, `$0.004`; below a tenth of a cent `under $0.001`."""
    if 0 < amount < 0.0005:
        return "under $0.001"
    text = f"{amount:.3f}"
    return f"${text.removesuffix('0')}"


def duration(seconds: float) -> str:
    """A duration for people: `0.4 s`, `12 s`, `3 min 05 s`, `2 h 10 min`."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"


def without_causes(reason: str, causes: Iterable[str]) -> str:
    """*reason* without its end if that is one of *causes*, which are shown elsewhere: `a#1 failed (exit)`."""
    return min((reason.removesuffix(f": {cause}") for cause in causes if cause), key=len, default=reason)


def arrow(group: tuple[str, tuple[str, ...]]) -> str:
    """A group of arrows in the notation of a flow: `a -> b`, `a -> [b, c]`."""
    source, targets = group
    return f"{source} -> {targets[0] if len(targets) == 1 else '[' + ', '.join(targets) + ']'}"


def path_end(reason: str, found: Mapping[str, str]) -> str:
    """Why a path of a flow ended: `no arrow's condition held (critic.verdict is "maybe")`."""
    why = {"no_match": "no arrow's condition held", "failed": "the turn failed"}.get(reason, reason)
    values = ", ".join(f"{name} is {value}" for name, value in found.items())
    return why + (f" ({values})" if values else "")


def promise_refused(reason: str) -> str:
    """Why a promise did not complete the loop; empty if there is no *reason*."""
    return f"its promise did not count: {reason}" if reason else ""


def respond_command(run: str, turn: str) -> str:
    """The command that answers the question of *turn* of *run*, possibly a child run."""
    root, _, below = run.partition("/")
    return f"coterie control respond {root} {shlex.quote('/'.join(filter(None, (below, turn))))} TEXT"


def worker_command(process: str) -> str:
    """The command that starts a worker for *process*, from the file of the system."""
    return f"`coterie run FILE -p {shlex.quote(process)}`"


def progress(done: int, turns: int, failed: int, left: int, most: int | None) -> str:
    """How far a run is: `2 of at most 14 turns done, 1 open, 1 failed, 1 not begun`; *done* counts failed ones, too."""
    ended = f"{done - failed} of at most {plural(most, 'turn')}" if most else plural(done - failed, "turn")
    rest = {"open": turns - done, "failed": failed, "not begun": left}
    return ", ".join([f"{ended} done", *(f"{n} {what}" for what, n in rest.items() if n)])


def state_words(state: str, reason: str) -> str:
    """The state of a run in words: `waits for a person`, `stopped: max_turns`."""
    if state == "waiting" or reason == "waiting":
        return "waits for a person"
    return f"{state}: {reason}" if reason and state in ("stopped", "failed") else state


def plural(n: int, noun: str, many: str = "") -> str:
    """`1 byte`, `2 bytes`; *many* is an irregular plural."""
    return f"{n} {noun}" if n == 1 else f"{n} {many or noun + 's'}"


def exited(code: int | None, signal: str) -> str:
    """How a program ended, `exit 3` or `exit 137 (SIGKILL)`; empty if unknown."""
    if code is None:
        return ""
    return f"exit {code}" + (f" ({signal})" if signal else "")


def _rounded(value: Any) -> Any:
    """*value* with three decimals at most."""
    match value:
        case float():
            return round(value, 3)
        case list():
            return [_rounded(one) for one in value[:_LONGEST]] + value[_LONGEST:]
        case dict() if len(value) <= _LONGEST:
            return {name: _rounded(one) for name, one in value.items()}
        case _:
            return value


_JSON = json.JSONEncoder(ensure_ascii=False, default=str)


def _short(value: Any) -> str:
    text = _JSON.encode(_rounded(value))
    if len(text) <= _LONGEST:
        return text
    match value:
        case list():
            return f"[{plural(len(value), 'item')}]"
        case dict():
            return f"{{{plural(len(value), 'item')}}}"
        case _:
            return f"{text[: _LONGEST - 1]}…"


def request_answered(n: int, calls: Sequence[str]) -> str:
    """That a model answered the *n*-th request of its attempt, and which tools it called."""
    return f"request {n} was answered" + (f", calling {listed(calls)}" if calls else "")
