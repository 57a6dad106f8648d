"""Merges the findings, worst first, into a review of a length that people read, and mends it as the reviewer asks.

The first draft keeps to a budget (the input `budget`, 12 findings by default). What the reviewer finds missing joins
it, beyond the budget if need be; findings that are no longer in the repository are removed.
"""

import os
from pathlib import Path

import draft
from findings import ANALYSERS, Finding, Turn, answer, findings_of, plural
from repository import Repository

BUDGET = 12


def choose(found: list[Finding], budget: int, listed: set[str], missing: set[str], gone: set[str]) -> list[Finding]:
    """What the draft says: the worst of *found* at first; later what it said before, plus and minus the comments."""
    if not listed and not missing:
        return [finding for finding in found if finding.id not in gone][:budget]
    return [finding for finding in found if finding.id in (listed | missing) - gone]


def budget_of(text: object) -> int:
    """How many findings the first draft may have."""
    try:
        return max(1, int(str(text)))
    except ValueError:
        raise SystemExit(f"budget is {text!r}: give a whole number, --input budget={BUDGET}") from None


def save(path: Path, page: str) -> None:
    """Put *page* at *path*, whole or not at all."""
    half = path.with_name(f".{path.name}.{os.getpid()}")
    path.parent.mkdir(parents=True, exist_ok=True)
    half.write_text(page, encoding="utf-8")
    half.replace(path)


def main() -> None:
    """Answer one turn."""
    turn = Turn.read()
    reports = turn.reports()
    before, comments = turn.last("writer"), turn.last("reviewer")
    chosen = choose(
        findings_of(reports),
        budget_of(turn.input.get("budget") or BUDGET),
        listed=set(before.get("listed", ())),
        missing=set(comments.get("missing", ())),
        gone=set(before.get("gone", ())) | set(comments.get("gone", ())),
    )
    repository = Repository(turn.repo)
    silent = [name for name in ANALYSERS if name not in reports]
    save(turn.review, draft.write(turn.repo.name, repository.head, reports, silent, chosen))
    print(f"Draft {before.get('draft', 0) + 1}: {plural(len(chosen), 'finding')} in {turn.review}.")
    for finding in chosen[:5]:
        print(f"- {finding.severity}: {finding.file}:{finding.line} {finding.claim}")
    gone = sorted({*before.get("gone", ()), *comments.get("gone", ())})
    answer(draft=before.get("draft", 0) + 1, review=str(turn.review), listed=[f.id for f in chosen], gone=gone)


if __name__ == "__main__":
    main()
