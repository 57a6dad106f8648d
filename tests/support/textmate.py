"""As much of TextMate as it takes to see how a grammar colours a text."""

import re
from collections.abc import Iterator
from typing import Any


class Grammar:
    """A grammar: patterns that match within a line, or from a beginning to an end over lines."""

    def __init__(self, grammar: dict[str, Any]) -> None:
        self._grammar = grammar

    def regexes(self) -> Iterator[str]:
        """Every regular expression in it."""
        todo: list[Any] = [self._grammar]
        while todo:
            part = todo.pop()
            if isinstance(part, dict):
                yield from (part[key] for key in ("match", "begin", "end") if isinstance(part.get(key), str))
                todo += part.values()
            elif isinstance(part, list):
                todo += part

    def includes(self) -> Iterator[str]:
        """Every name of another part that is included somewhere."""
        return (name.removeprefix("#") for name in re.findall(r"'include': '([^']+)'", str(self._grammar)))

    def scopes(self, text: str) -> list[str]:
        """For each character of *text* the innermost scope's name, without that of the language; empty for none."""
        found: list[str] = []
        stack: list[dict[str, Any]] = []
        for line in text.splitlines(keepends=True):
            found += self._line(line, stack)
        return [scope.rpartition(".")[0] for scope in found]

    def _line(self, line: str, stack: list[dict[str, Any]]) -> list[str]:
        found = [_inside(stack)] * len(line)
        at = 0
        end_of_line = len(line.rstrip("\n"))
        while at <= end_of_line:
            rule, match, ends = self._next(line.rstrip("\n"), at, stack)
            if match is None:
                found[at:] = [_inside(stack)] * (len(line) - at)
                break
            found[at : match.start()] = [_inside(stack)] * (match.start() - at)
            if ends:
                ended = stack.pop()
                _paint(found, match, ended.get("name", _inside(stack)), ended.get("endCaptures", {}))
            elif "begin" in rule:
                _paint(found, match, rule.get("name", _inside(stack)), rule.get("beginCaptures", {}))
                stack.append(rule)
            else:
                _paint(found, match, rule.get("name", _inside(stack)), rule.get("captures", {}))
            at = max(match.end(), at + (match.end() == match.start() and not ends and "begin" not in rule))
            if match.end() == end_of_line and not (stack and re.match(stack[-1]["end"], "")):
                found[match.end() :] = [_inside(stack)] * (len(line) - match.end())
                break
        return found

    def _next(self, line: str, at: int, stack: list[dict[str, Any]]) -> tuple[Any, "re.Match[str] | None", bool]:
        """The rule that matches first from *at*; where several do, the end of the open one, then the first."""
        candidates: list[tuple[Any, re.Match[str], bool]] = []
        if stack and (end := re.compile(stack[-1]["end"]).search(line, at)):
            candidates.append((stack[-1], end, True))
        for rule in self._rules(stack[-1].get("patterns", []) if stack else self._grammar["patterns"]):
            if match := re.compile(rule.get("match") or rule["begin"]).search(line, at):
                candidates.append((rule, match, False))
        return min(candidates, key=lambda candidate: candidate[1].start(), default=(None, None, False))

    def _rules(self, patterns: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        for pattern in patterns:
            rule = self._grammar["repository"][pattern["include"][1:]] if "include" in pattern else pattern
            if "match" in rule or "begin" in rule:
                yield rule
            else:
                yield from self._rules(rule["patterns"])


def _inside(stack: list[dict[str, Any]]) -> str:
    """The innermost scope inside all that is open."""
    return next((name for rule in reversed(stack) if (name := rule.get("contentName") or rule.get("name"))), "")


def _paint(found: list[str], match: "re.Match[str]", name: str, captures: dict[str, Any]) -> None:
    found[match.start() : match.end()] = [name] * (match.end() - match.start())
    for number, capture in captures.items():
        start, end = match.span(int(number))
        found[start:end] = [capture["name"]] * (end - start)
