"""Read the attributes of an arrow: `[when reviewer.verdict == "revise", max 3, per phase]`."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from coterie.base.diagnostics import Fix, Span, did_you_mean, error
from coterie.team.formats.at.fields import Report
from coterie.team.formats.at.flow_parser import ATTRIBUTE_WORDS, EACH_WORDS, ORDERED_WORDS
from coterie.team.formats.at.lexer import (
    DURATION,
    NAME,
    NUMBER,
    OPEN_STRING,
    SINGLE_QUOTED,
    STRING,
    WORD,
    Token,
)
from coterie.team.formats.at.tree import AttributeNode, Attributes
from coterie.team.formats.at.values import number, scalar, seconds
from coterie.team.topology.conditions import Condition, Operator

_ON_MAX = ("forward", "end", "fail", "human")
_ON_MORE = ("fail", "first")
_VALUES = frozenset({STRING, OPEN_STRING, SINGLE_QUOTED, NAME, WORD, NUMBER, DURATION})
_OPERATORS = {operator.value: operator for operator in Operator}


class Attributed(Struct):
    """The values of the attributes of one arrow; *each* has those that map its targets, by attribute of `Each`."""

    when: Condition | None = None
    max: int | None = None
    per: str = "run"
    on_max: str = "forward"
    each: dict[str, Any] = {}
    kept: dict[str, Any] = {}
    spans: dict[str, Span] = {}


def read_attributes(lists: Sequence[Attributes], after_list: bool, report: Report) -> Attributed:
    """Read the attributes in *lists*; the parser has reported all lists but the first.

    Args:
        after_list: Whether the target is a list; only members of a list can race.
    """
    reader = _Reader(after_list, report)
    for attributes in lists:
        for item in attributes.items:
            reader.read(item)
    if len(lists) == 1:
        reader.check_order(lists[0])
    reader.check_each()
    return reader.result


class _Reader:
    """Reads attributes in order into one `Attributed`."""

    def __init__(self, after_list: bool, report: Report) -> None:
        self.result = Attributed(each={}, kept={}, spans={})
        self._after_list = after_list
        self._report = report
        self._words: list[Token] = []
        self._at = 0
        self._pieces: list[tuple[str, list[Token]]] = []

    def read(self, attribute: AttributeNode) -> None:
        """Read the text between two commas; if a comma is missing, it is several attributes."""
        self._words, self._at = attribute.words, 0
        if not self._words:
            comma = attribute.comma
            assert comma is not None  # the parser creates no empty attribute
            self._error("unexpected-text", "no attribute before this comma", comma, "remove the comma")
            return
        while self._at < len(self._words):
            start = self._at
            good = self._one()
            self._pieces.append((self._words[start].text, self._words[start : self._at]))
            if not good or self._at == len(self._words) or not self._comma_missing():
                return

    def check_order(self, attributes: Attributes) -> None:
        """Report attributes that are not in the order of `ORDERED_WORDS`."""
        ranks = [_rank(name) for name, _ in self._pieces if name in ORDERED_WORDS]
        if ranks == sorted(ranks):
            return
        late, first = next(
            (words[0], earlier[0])
            for at, (name, words) in enumerate(self._pieces)
            if (earlier := self._earlier(at, name))
        )
        message = f"{late.text!r} is written before {first!r}"
        hint = f"write them in this order: {', '.join(ORDERED_WORDS[: 10 if self.result.each else 4])}"
        self._error("attribute-order", message, late, hint, self._in_order(attributes))

    def _in_order(self, attributes: Attributes) -> Fix | None:
        """The fix that sorts the attributes; None if it would lose a comment or an unread word."""
        read = sum(len(words) for _, words in self._pieces)
        lost = read < sum(len(item.words) for item in attributes.items) or "#" in str(attributes)
        if lost or attributes.close is None:
            return None
        pieces = sorted(self._pieces, key=lambda piece: _rank(piece[0]))
        text = ", ".join("".join(word.trivia + word.text for word in words).strip() for _, words in pieces)
        length = attributes.close.offset + 1 - attributes.open.offset
        span = Span(attributes.open.line, attributes.open.column, length, attributes.open.offset)
        return Fix("put them in order", span, f"[{text}]")

    def _earlier(self, at: int, name: str) -> list[str]:
        """The later attributes that belong before the attribute at this index."""
        later = [other for other, _ in self._pieces[at + 1 :] if other in ORDERED_WORDS]
        return [other for other in later if name in ORDERED_WORDS and _rank(other) < _rank(name)]

    def check_each(self) -> None:
        """Report attributes of a map that no `each` begins."""
        if "each" in self.result.spans:
            return
        for name in [name for name in EACH_WORDS if name in self.result.spans]:
            message, hint = f"{name!r} is written without 'each'", "write each AGENT.FIELD before it"
            self._report(error("bound-without-each", message, self.result.spans[name], hint))
        self.result.each.clear()

    def _one(self) -> bool:
        """Read one attribute; False if the remaining words cannot be read."""
        word = self._next()
        assert word is not None
        name = word.text
        if word.kind != NAME or name not in ATTRIBUTE_WORDS:
            if not self._is_upper(word):
                hint = "write when" if name == "if" else did_you_mean(name, ATTRIBUTE_WORDS)
                hint = hint or f"known attributes: {', '.join(ATTRIBUTE_WORDS)}"
                return self._error("unknown-attribute", f"unknown attribute {name!r}", word, hint)
            name = name.lower()
        if name in self.result.spans:
            return self._error("duplicate-attribute", f"{name!r} is written twice", word, "remove one of them")
        self.result.spans[name] = word.span
        if name != "tolerance" and (colon := self._take(":")):
            fix = Fix("remove the colon", colon.span, "")
            self._error("unexpected-text", f"{name!r} is followed by a colon", colon, f"write '{name} …'", fix)
        return self._value_of(name, word)

    def _is_upper(self, word: Token) -> bool:
        lower = word.text.lower()
        if lower not in ATTRIBUTE_WORDS:
            return False
        fix = Fix("write it in lower case", word.span, lower)
        self._error("unknown-attribute", f"unknown attribute {word.text!r}", word, f"did you mean {lower!r}?", fix)
        return True

    def _value_of(self, name: str, word: Token) -> bool:
        match name:
            case "when":
                return self._when(word)
            case "each":
                return self._each(word)
            case "at-most" | "at-once":
                return self._count(name, word)
            case "on-more":
                return self._on_more(word)
            case "tolerate":
                return self._tolerate(word)
            case "until":
                return self._until(word)
            case "max":
                return self._max(word)
            case "per":
                return self._per(word)
            case "on-max":
                return self._on_max(word)
            case "race":
                if not self._after_list:
                    self._error("race-without-list", "'race' follows a single agent", word, "it needs a list of agents")
                self.result.kept[name] = True
            case "reflection":
                self.result.kept[name] = True
            case "tolerance":
                return self._tolerance(word)
            case "wait":
                return self._wait(word)
            case "weight":
                return self._weight(word)
        return True

    def _when(self, word: Token) -> bool:
        read = self._condition(word, "when")
        self.result.when = read or self.result.when
        return read is not None

    def _condition(self, word: Token, name: str) -> Condition | None:
        """`[any | all] AGENT.FIELD OP VALUE` of the attribute *name*; None, with a report, if it is not one."""
        agent, dot, field, over = self._next(), self._take("."), None, None
        if agent is not None and agent.text in ("any", "all") and dot is None:
            over, agent, dot = agent, self._next(), self._take(".")
        if agent is None or agent.kind != NAME or dot is None or (field := self._take(NAME)) is None:
            return self._bad_condition(agent or word)
        op = self._next()
        if op is None:
            return self._bad_condition(field, "the condition has no comparison")
        operator = _OPERATORS.get(op.text) or self._corrected(op)
        if operator is None:
            return self._bad_condition(op, f"{op.text!r} is not a comparison")
        value = self._next()
        if value is None or value.kind not in _VALUES:
            return self._bad_condition(value or op, "the condition has no value to compare with")
        begin = over or agent
        length = value.offset + len(value.text) - begin.offset
        self.result.spans[name] = Span(begin.line, begin.column, length, begin.offset)
        self.result.spans[f"{name}.value"] = value.span
        if self._at < len(self._words) and (after := self._words[self._at]).text not in ATTRIBUTE_WORDS:
            hint = "a condition is a single comparison; write one arrow for each"
            if after.text.lower() in ("and", "&"):
                hint = (
                    "a condition is a single comparison: test an output that combines both, or put a gate on the arrow"
                )
            return self._bad_condition(after, f"unexpected {after.text!r} after the condition", hint)
        return Condition(agent.text, field.text, operator, scalar(value), over.text if over is not None else "")

    def _each(self, word: Token) -> bool:
        agent, dot, field = self._argument(), self._take("."), self._take(NAME)
        if agent is None or agent.kind != NAME or dot is None or field is None:
            return self._error("bad-each", "'each' has no list", agent or word, "write each AGENT.FIELD")
        self.result.each |= {"agent": agent.text, "field": field.text}
        length = field.offset + len(field.text) - agent.offset
        self.result.spans["each"] = Span(agent.line, agent.column, length, agent.offset)
        following = self._words[self._at] if self._at < len(self._words) else None
        if following is not None and following.text == "by":
            self._at += 1
            return self._count("by", following)
        return True

    def _count(self, name: str, word: Token) -> bool:
        value = self._argument()
        self.result.each[name.replace("-", "_")] = 1  # a faulty bound is still a bound
        if value is None or value.kind != NUMBER or not value.text.isdecimal() or int(value.text) < 1:
            said = f"{name!r} cannot be {value.text!r}" if value is not None else f"{name!r} has no number"
            return self._error("bad-each", said, value or word, f"write {name} 10: a whole number, 1 or more")
        self.result.each[name.replace("-", "_")] = int(value.text)
        self.result.spans[name] = value.span
        return True

    def _on_more(self, word: Token) -> bool:
        value = self._argument()
        if value is None or value.text not in _ON_MORE:
            text = value.text if value else "nothing"
            hint = did_you_mean(text, _ON_MORE) or "write on-more fail or on-more first"
            return self._error("bad-each", f"'on-more' cannot be {text!r}", value or word, hint)
        self.result.each["on_more"] = value.text
        self.result.spans["on-more"] = value.span
        return True

    def _tolerate(self, word: Token) -> bool:
        value = self._argument()
        is_number = value is not None and value.kind == NUMBER and value.text.isdecimal()
        percent = self._take("%") if is_number else None
        if value is None or not is_number or (percent is not None and int(value.text) > 100):
            hint = "write tolerate 2 or tolerate 10%"
            return self._error("bad-each", "'tolerate' has no number of items", value or word, hint)
        self.result.each["tolerate"] = f"{value.text}%" if percent is not None else int(value.text)
        self.result.spans["tolerate"] = value.span
        return True

    def _until(self, word: Token) -> bool:
        read = self._condition(word, "until")
        self.result.each["until"] = read
        return read is not None

    def _corrected(self, op: Token) -> Operator | None:
        """The operator that a wrongly written comparison means, with a report."""
        meant = {"=": "==", "=>": ">=", "===": "==", "<>": "!="}.get(op.text)
        if meant is None:
            return None
        fix = Fix(f"write '{meant}'", op.span, meant)
        self._error("bad-condition", f"{op.text!r} is not a comparison", op, f"write '{meant}'", fix)
        return _OPERATORS[meant]

    def _bad_condition(self, at: Token, why: str = "this is not a condition", hint: str = "") -> Condition | None:
        self._at = len(self._words)
        self._error("bad-condition", why, at, hint or 'write: when agent.output == "value"')
        return None

    def _max(self, word: Token) -> bool:
        value = self._argument()
        self.result.max = 1  # a faulty bound is still a bound
        if value is None:
            return self._error("bad-max", "'max' has no number", word, "write max 3")
        if value.kind != NUMBER or not value.text.isdecimal() or int(value.text) < 1:
            return self._error("bad-max", f"'max' cannot be {value.text!r}", value, "write a whole number, 1 or more")
        self.result.max = int(value.text)
        self.result.spans["max"] = value.span
        return True

    def _per(self, word: Token) -> bool:
        value = self._argument()
        if value is None or value.kind != NAME:
            return self._error("bad-per", "'per' has no scope", value or word, "write per run, per phase or per AGENT")
        self.result.per = value.text
        self.result.spans["per"] = value.span
        return True

    def _on_max(self, word: Token) -> bool:
        value = self._argument()
        if value is None or value.text not in _ON_MAX:
            text = value.text if value else "nothing"
            hint = did_you_mean(text, _ON_MAX) or f"write one of {', '.join(_ON_MAX)}"
            return self._error("bad-on-max", f"'on-max' cannot be {text!r}", value or word, hint)
        self.result.on_max = value.text
        self.result.spans["on-max"] = value.span
        return True

    def _tolerance(self, word: Token) -> bool:
        colon, value = self._take(":"), self._argument()
        if colon is None:
            fix = Fix("insert the colon", word.end, ":")
            self._error("bad-tolerance", "'tolerance' has no colon", word, "write tolerance: 1", fix)
        if value is None or value.kind != NUMBER or not value.text.isdecimal():
            hint = "write tolerance: 1 or tolerance: 20%"
            return self._error("bad-tolerance", "'tolerance' has no whole number", value or word, hint)
        self.result.kept["tolerance"] = f"{value.text}%" if self._take("%") else int(value.text)
        return True

    def _wait(self, word: Token) -> bool:
        value = self._argument()
        if value is None or value.kind != DURATION:
            return self._error("bad-wait", "'wait' has no duration", value or word, "write wait 30s")
        self.result.kept["wait"] = seconds(value.text)
        return True

    def _weight(self, word: Token) -> bool:
        value = self._argument()
        if value is None or value.kind != NUMBER or not 0 < number(value) <= 1:
            return self._error(
                "bad-weight", "'weight' has no number", value or word, "write a number above 0, at most 1"
            )
        self.result.kept["weight"] = number(value)
        return True

    def _comma_missing(self) -> bool:
        """Report the word after an attribute: a comma is missing, or the word is unexpected. True to continue."""
        word = self._words[self._at]
        if word.text in ATTRIBUTE_WORDS:
            at = self._words[self._at - 1].end
            fix = Fix("insert the comma", at, ",")
            self._report(error("missing-comma", f"a comma is missing before {word.text!r}", at, "", fix))
            return True
        return self._error(
            "unexpected-text", f"unexpected {word.text!r} after the attribute", word, "separate attributes with commas"
        )

    def _argument(self) -> Token | None:
        """The next word, unless it begins another attribute; the last word never does."""
        left = self._words[self._at :]
        return None if len(left) > 1 and left[0].text in ATTRIBUTE_WORDS else self._next()

    def _next(self) -> Token | None:
        if self._at == len(self._words):
            return None
        self._at += 1
        return self._words[self._at - 1]

    def _take(self, kind: str) -> Token | None:
        if self._at < len(self._words) and self._words[self._at].kind == kind:
            return self._next()
        return None

    def _error(self, code: str, message: str, at: Token, hint: str = "", fix: Fix | None = None) -> bool:
        """Report an error; False, so that the rest of the attribute is not read."""
        self._report(error(code, message, at.span, hint, fix))
        return False


def _rank(name: str) -> int:
    return ORDERED_WORDS.index(name) if name in ORDERED_WORDS else len(ORDERED_WORDS)
