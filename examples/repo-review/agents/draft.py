"""The review as text: how a finding is written down, and how it is read back from the page."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from findings import SEVERITIES, Finding, finding_id, plural

_ENTRY = re.compile(
    r"^\d+\. \*\*(?P<severity>\w+)\*\* `(?P<file>[^`]+):(?P<line>\d+)` (?P<claim>.+) \((?P<rule>[\w.-]+)\)$"
)
_TICKS = re.compile(r"`+")


@dataclass(frozen=True)
class Entry:
    """One finding as the review states it."""

    severity: str
    file: str
    line: int
    claim: str
    rule: str
    quote: str

    @property
    def id(self) -> str:
        """The id of the finding that it states."""
        return finding_id(self.rule, self.file, self.line, self.claim)


def write(
    name: str, commit: str, reports: Mapping[str, Mapping[str, Any]], missing: Sequence[str], listed: Sequence[Finding]
) -> str:
    """The page: a summary, the findings in the order given, and what was looked at."""
    found = sum(report["found"] for report in reports.values())
    place = f"{name}, commit {commit[:10]}" if commit else name
    parts = [f"# Review of {place}\n", f"{_counts(listed)}; {found} found in all, these matter most.\n"]
    parts += [_state(number, finding) for number, finding in enumerate(listed, 1)]
    parts.append("\n## What was looked at\n")
    for analyser, report in reports.items():
        notes = "".join(f"; {note}" for note in report["notes"])
        parts.append(f"- {analyser}: {plural(report['found'], 'finding')} in {plural(report['seen'], 'file')}{notes}")
    parts += [f"- {analyser}: gave no report" for analyser in missing]
    return "\n".join(parts) + "\n"


def read(page: str) -> list[Entry]:
    """The findings that *page* states, in its order."""
    return list(_entries(page.split("\n")))


def summary(entries: Sequence[Entry]) -> str:
    """How the page must count *entries*."""
    return _counts(entries)


def _entries(lines: Sequence[str]) -> Iterator[Entry]:
    for index, line in enumerate(lines):
        if match := _ENTRY.match(line):
            below = lines[index + 1] if index + 1 < len(lines) else ""
            quote = _unquote(below.removeprefix("   > ")) if below.startswith("   > ") else ""
            yield Entry(match["severity"], match["file"], int(match["line"]), match["claim"], match["rule"], quote)


def _state(number: int, finding: Finding) -> str:
    head = f"{number}. **{finding.severity}** `{finding.file}:{finding.line}` {finding.claim} ({finding.rule})"
    quote = f"\n   > {_quote(finding.quote)}" if finding.quote else ""
    return f"{head}{quote}\n   {finding.advice}"


def _counts(findings: Sequence[Finding | Entry]) -> str:
    counts = ", ".join(f"{sum(f.severity == severity for f in findings)} {severity}" for severity in SEVERITIES)
    return f"{plural(len(findings), 'finding')} ({counts})"


def _quote(code: str) -> str:
    """*code* as inline code, whatever backticks it holds."""
    if "`" not in code:
        return f"`{code}`"
    fence = "`" * (max(map(len, _TICKS.findall(code))) + 1)
    return f"{fence} {code} {fence}"


def _unquote(text: str) -> str:
    fence = _TICKS.match(text)
    if fence is None:
        return text
    code = text[fence.end() : -fence.end()]
    return code[1:-1] if fence.end() > 1 else code
