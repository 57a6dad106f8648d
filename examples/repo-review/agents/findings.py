"""Shared by the agents of this team: their input and their reports.

An agent is a program. It finds its question in the JSON file that `COTERIE_TURN_FILE` names, and answers on standard
output: text for people, and one JSON object in a fence for the next agent. Run by hand, without that variable, it
reviews the working directory.
"""

import gc
import io
import json
import os
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

SEVERITIES = ("high", "medium", "low")
ANALYSERS = ("complexity", "churn", "risks", "duplicates", "upkeep")
MAX_FINDINGS = 60
"""How many findings one analyser hands on; it says how many more there were."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing worth telling, and where.

    Attributes:
        rule: What was broken, `risks.shell`; the part before the dot is the analyser.
        severity: One of `SEVERITIES`.
        line: Counted from 1.
        claim: What is so, as a sentence without a full stop.
        quote: The line in the file, without leading and trailing spaces.
        advice: What to do about it.
        score: Orders findings of one severity; the higher, the worse.
        evidence: Facts by which the claim can be checked again.
    """

    rule: str
    severity: str
    file: str
    line: int
    claim: str
    quote: str
    advice: str
    score: float = 0.0
    evidence: Mapping[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """Names the finding in comments; the same whenever the same thing is found."""
        return finding_id(self.rule, self.file, self.line, self.claim)

    @property
    def analyser(self) -> str:
        """Who found it."""
        return self.rule.partition(".")[0]


def finding_id(rule: str, file: str, line: int, claim: str) -> str:
    """The id of a finding: what it says, and where."""
    return f"{rule}@{file}:{line}: {claim}"


@dataclass(frozen=True)
class Said:
    """What another agent answered, or this one in an earlier turn."""

    agent: str
    values: Mapping[str, Any]


@dataclass(frozen=True)
class Turn:
    """The question: the run's named inputs, and what others said so far."""

    agent: str
    input: Mapping[str, Any]
    said: Sequence[Said]

    @classmethod
    def read(cls) -> "Turn":
        """The question that `COTERIE_TURN_FILE` holds.

        From here on Python looks for no garbage: the program ends with its answer, and to look through millions of
        syntax nodes takes longer than to parse them.
        """
        gc.disable()
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8")  # whatever the locale: it is how answers are read
        path = os.environ.get("COTERIE_TURN_FILE")
        if not path:
            return cls("", {}, ())
        turn = json.loads(Path(path).read_text(encoding="utf-8"))
        results = (*turn.get("reads", ()), *turn.get("inputs", ()))
        said = tuple(Said(one["agent"], one["outputs"]) for one in results)
        return cls(os.environ.get("COTERIE_AGENT", ""), turn.get("input", {}), said)

    @property
    def repo(self) -> Path:
        """The repository to review: the input `repo`, or the working directory."""
        return Path(str(self.input.get("repo") or ".")).expanduser().resolve()

    @property
    def whole(self) -> bool:
        """Whether to review all Python files: the input `whole`; by default only those that were changed last."""
        return str(self.input.get("whole", "")).lower() in ("true", "yes", "1")

    @property
    def review(self) -> Path:
        """The file to write: the input `out`, or `review.md` in the working directory."""
        return Path(str(self.input.get("out") or "review.md")).expanduser().resolve()

    def last(self, agent: str) -> Mapping[str, Any]:
        """The values that *agent* said last; empty when it said nothing."""
        return next((one.values for one in reversed(self.said) if one.agent == agent), {})

    def reports(self) -> dict[str, Mapping[str, Any]]:
        """What each analyser reported; one that failed or was left out is missing."""
        return {name: report for name in ANALYSERS if "findings" in (report := self.last(name))}


def findings_of(reports: Mapping[str, Mapping[str, Any]]) -> list[Finding]:
    """All findings of *reports*, worst first."""
    return rank(Finding(**one) for report in reports.values() for one in report["findings"])


def rank(findings: Iterable[Finding]) -> list[Finding]:
    """*findings*, each once, worst first: by severity, by how many analysers name the file, by score."""
    found = list({finding.id: finding for finding in findings}.values())
    watchers: dict[str, set[str]] = defaultdict(set)
    for finding in found:
        watchers[finding.file].add(finding.analyser)
    return sorted(
        found,
        key=lambda f: (SEVERITIES.index(f.severity), -len(watchers[f.file]), -f.score, f.file, f.line, f.id),
    )


def report(analyser: str, findings: Iterable[Finding], seen: int, notes: Sequence[str] = ()) -> None:
    """Print what *analyser* found in *seen* files, the worst `MAX_FINDINGS` in full."""
    found = rank(findings)
    counts = ", ".join(f"{sum(f.severity == s for f in found)} {s}" for s in SEVERITIES)
    print(f"{analyser}: {plural(len(found), 'finding')} in {plural(seen, 'file')} ({counts}).")
    for note in notes:
        print(f"Note: {note}.")
    kept = [asdict(finding) for finding in found[:MAX_FINDINGS]]
    answer(found=len(found), seen=seen, notes=list(notes), findings=kept)


def plural(n: int, noun: str) -> str:
    """`1 finding`, `2 findings`."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def answer(**values: Any) -> None:
    """Print *values* as the fenced JSON object in which coterie finds the outputs."""
    print(f"\n```json\n{json.dumps(values, ensure_ascii=False)}\n```")
