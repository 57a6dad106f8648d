"""What the team promises, tried without a model: `python -m pytest examples/flows` or `python -m unittest` there."""

import asyncio
import unittest
from pathlib import Path

import review

import coterie
from coterie.testing import rehearse, simulate

HERE = str(Path(__file__).parent)
SHORTEN = {"outputs": {"verdict": "shorten", "most": 1}}
APPROVE = {"outputs": {"verdict": "approve", "most": 1}}


class ReviewTest(unittest.TestCase):
    def test_a_review_is_short_and_has_its_type(self) -> None:
        outcome = asyncio.run(coterie.run(review.team(), HERE))

        assert outcome.status == "completed", outcome.reason
        assert isinstance(outcome.result, review.Review)
        assert len(outcome.result.findings) <= 3

    def test_a_judge_who_is_never_content_sends_it_back_twice(self) -> None:
        assert self.asked([SHORTEN]).count("writer") == 3
        assert self.asked([SHORTEN, APPROVE]).count("writer") == 2

    def test_the_team_can_be_killed_anywhere(self) -> None:
        for seed in range(20):
            simulate(review.team(), seed)

    def asked(self, judge: list[dict[str, object]]) -> list[str]:
        """The agents of all turns, in their order, when the judge answers so."""
        document = rehearse(coterie.plan(review.team()), {"prompt": HERE}, {"judge": judge})
        return [turn["agent"] for turn in document["turns"]]


if __name__ == "__main__":
    unittest.main()
