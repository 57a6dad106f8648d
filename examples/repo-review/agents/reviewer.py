"""Checks the written review, as it lies on disk, against what the analysers reported and against the repository.

It holds when every place it cites exists and reads as quoted, every claim is an analyser's and still true, the worst
comes first, nothing serious is left out, and every analyser that found something is heard. Else it goes back with one
comment for each fault.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import draft
from findings import Finding, Turn, answer, findings_of, plural
from repository import Repository

_WINDOW = "1000"
"""How far back churn counts."""


class Comment(NamedTuple):
    """One fault of the page.

    Attributes:
        kind: `missing`: a finding to add; `gone`: one to drop, for it is no longer so; `wrong`: to be written anew.
        finding: The id of the finding, or empty.
    """

    kind: str
    finding: str
    text: str


@dataclass(frozen=True)
class Case:
    """What is judged: the page's entries, the analysers' findings worst first, the repository."""

    page: str
    entries: Sequence[draft.Entry]
    found: Sequence[Finding]
    repository: Repository

    @cached_property
    def known(self) -> dict[str, Finding]:
        """The findings by id."""
        return {finding.id: finding for finding in self.found}

    def stands(self, finding: Finding) -> bool:
        """Whether *finding* can still be shown: files may change while the team works."""
        return self.repository.quote(finding.file, finding.line) == finding.quote and _still_true(
            finding, self.repository
        )

    def fault(self, entry: draft.Entry, text: str) -> Comment:
        """The comment on an entry that is not as it should be."""
        finding = self.known.get(entry.id)
        return Comment("gone" if finding and not self.stands(finding) else "wrong", entry.id, text)


def places(case: Case) -> Iterator[Comment]:
    """Every place exists, and its line is the one quoted."""
    for entry in case.entries:
        lines = case.repository.lines(entry.file)
        if not 1 <= entry.line <= len(lines):
            yield case.fault(entry, f"{entry.file} has no line {entry.line}")
        elif case.repository.quote(entry.file, entry.line) != entry.quote:
            yield case.fault(entry, f"{entry.file}:{entry.line} does not read as quoted")


def claims(case: Case) -> Iterator[Comment]:
    """Every claim is one that an analyser made, word for word, and its evidence still holds."""
    for entry in case.entries:
        finding = case.known.get(entry.id)
        if finding is None:
            yield case.fault(entry, f"no analyser reported at {entry.file}:{entry.line} that {entry.claim}")
        elif entry.severity != finding.severity:
            yield case.fault(entry, f"{entry.file}:{entry.line} is {finding.severity}, says the analyser")
        elif not _still_true(finding, case.repository):
            yield case.fault(entry, f"{entry.file}:{entry.line}: counted again, it is not so")


def _still_true(finding: Finding, repository: Repository) -> bool:
    facts = finding.evidence
    if finding.rule == "churn.hot":
        return _commits(repository, facts["head"], finding.file) == int(facts["commits"])
    if finding.rule == "duplicates.function":
        return repository.quote(facts["original"], facts["line"]) == str(facts["quote"])
    return True


def _commits(repository: Repository, head: str, file: str) -> int:
    """How many of the last commits up to *head* touched *file*: asked of git another way than churn does."""
    window = (repository.git("rev-list", f"-n{_WINDOW}", "--no-merges", head) or "").split()
    touching = (repository.git("rev-list", "--no-merges", "--full-history", head, "--", file) or "").split()
    return len(set(window).intersection(touching))


def order(case: Case) -> Iterator[Comment]:
    """The worst comes first, and the summary counts what is there."""
    positions = {finding.id: position for position, finding in enumerate(case.found)}
    ranks = [positions[entry.id] for entry in case.entries if entry.id in positions]
    if ranks != sorted(ranks):
        yield Comment("wrong", "", "the findings are not in order, worst first")
    if draft.summary(case.entries) not in case.page:
        yield Comment("wrong", "", f"the summary should count {draft.summary(case.entries)}")


def coverage(case: Case) -> Iterator[Comment]:
    """Nothing serious is left out, and each analyser's strongest finding is there."""
    stated = {entry.id for entry in case.entries}
    heard: set[str] = set()
    for finding in case.found:
        is_strongest = finding.analyser not in heard
        heard.add(finding.analyser)
        if finding.id in stated or not case.stands(finding):
            continue
        place = f"{finding.file}:{finding.line}"
        if finding.severity == "high":
            yield Comment("missing", finding.id, f"{place} is serious and left out: {finding.claim}")
        elif is_strongest:
            yield Comment("missing", finding.id, f"{finding.analyser} is not heard; its strongest is {place}")


CHECKS = (places, claims, order, coverage)


def review(case: Case) -> list[Comment]:
    """Every fault of the page; the first that a finding has."""
    comments: dict[tuple[str, str], Comment] = {}
    for check in CHECKS:
        for comment in check(case):
            comments.setdefault((comment.finding, comment.finding or comment.text), comment)
    return list(comments.values())


def main() -> None:
    """Answer one turn."""
    turn = Turn.read()
    written = turn.last("writer").get("review") or str(turn.review)
    try:
        with open(written, encoding="utf-8") as file:
            page = file.read()
    except OSError as error:
        raise SystemExit(f"the review cannot be read: {error}") from None
    case = Case(page, draft.read(page), findings_of(turn.reports()), Repository(turn.repo))
    comments = review(case)
    outcome = f"{plural(len(comments), 'comment')}." if comments else f"the review holds: {written}"
    print(f"{plural(len(case.entries), 'finding')} checked: {outcome}")
    for comment in comments:
        print(f"- {comment.text}")
    answer(
        verdict="revise" if comments else "approve",
        missing=[comment.finding for comment in comments if comment.kind == "missing"],
        gone=[comment.finding for comment in comments if comment.kind == "gone"],
        comments=[comment.text for comment in comments],
    )


if __name__ == "__main__":
    main()
