"""What the team promises, tried without running its programs: `python -m unittest` in this folder."""

import unittest

import coterie
from coterie.testing import rehearse, simulate

TEAM = coterie.load("step5.at")
REVISE = {"outputs": {"verdict": "revise"}}
REJECT = {"outputs": {"verdict": "reject"}}


class TeamTest(unittest.TestCase):
    def test_nothing_is_published_that_the_editor_rejects(self) -> None:
        asked = self.asked({"editor": [REJECT]})

        assert asked.count("editor") == 3
        assert "publisher" not in asked

    def test_a_reviewer_who_is_never_content_reaches_the_editor_all_the_same(self) -> None:
        asked = self.asked({"reviewer": [REVISE]})

        assert asked.count("writer") == 3
        assert asked.count("editor") == 1

    def test_the_team_can_be_killed_anywhere(self) -> None:
        for seed in range(20):
            simulate(TEAM, seed)

    def asked(self, script: dict[str, object]) -> list[str]:
        """The agents of all turns, in their order, when some answer as *script* says."""
        document = rehearse(coterie.plan(TEAM), {"prompt": "Version 2.0"}, script)
        return [turn["agent"] for turn in document["turns"]]


if __name__ == "__main__":
    unittest.main()
